"""Servers that a benchmark starts as their users would: processes of their own, ended with it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from proreus.model.errors import WorkError

START_SECONDS = 120.0
"""That a server may take to start, compiling included."""


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this Python with these words."""
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def wait_for(process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    """Until the process is ready; a WorkError where it never is."""
    until = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            raise WorkError(f"{process.args!r} did not start")
        time.sleep(0.05)
