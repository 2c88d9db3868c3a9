"""The trace of a cluster from the address of its store, or the folder that `proreus up` keeps it in.

Nothing is changed: a running cluster goes on, a stopped one stays as it is.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from proreus.engine.store.log.store_log import payload_of
from proreus.engine.store.protocol import StoreError
from proreus.engine.store.read_only import look
from proreus.engine.trace.segments import PREFIX, decode_all, trace_of
from proreus.model.cluster_trace import ClusterTrace
from proreus.model.errors import InputError

STORE_FILE = "cluster.db"
"""In the folder of a cluster."""


def read_trace(where: str) -> ClusterTrace:
    """The trace; an InputError or a UsageError in one line where there is none."""
    address = store_address(where)
    try:
        # In a thread of its own: whoever asks may have an event loop already, as a notebook has.
        with ThreadPoolExecutor(1) as thread:
            entries = thread.submit(lambda: asyncio.run(look(address, PREFIX))).result()
    except StoreError as error:
        raise InputError(str(error)) from error
    try:
        return trace_of(*decode_all(map(payload_of, entries)))
    except InputError as error:
        raise InputError(str(error), file=where) from error


def store_address(where: str) -> str:
    """Of a cluster: the store itself, or the one in its folder."""
    folder = Path(where).expanduser()
    if not folder.is_dir():
        return where
    if not (folder / STORE_FILE).is_file():
        raise InputError(
            f"no {STORE_FILE} here: a cluster keeps it in its folder, unless `up` was told a --store; "
            "then name that",
            file=where,
        )
    return f"sqlite:{folder / STORE_FILE}"
