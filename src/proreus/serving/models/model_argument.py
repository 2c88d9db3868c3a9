"""Which model to serve: `--model PATH`, `NAME`, `NAME@VERSION`, or none at all.

The service always serves a version of a stored model, so that there is always something to list, to roll
back to and to learn from. A checkpoint that comes by its path is added to the store when it is not there
yet.
"""

from __future__ import annotations

import re
from pathlib import Path

from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import CARD, is_checkpoint, load_checkpoint, read_card
from proreus.serving.models.version_store import ModelStore
from proreus.worlds.pods.policies.vector.model import (
    SHIPPED,
    VECTOR_ENCODING,
    check_vector_kind,
    model_of,
    shipped_for,
)

DEFAULT_NAME = "vector"
_PINNED = re.compile(r"(?P<name>[^@/\\]+)@(?P<version>[0-9]{1,18})")


def make_live(store: ModelStore, wanted: str, nodes: int = 0) -> str:
    """See that what the user wants is the live version of a stored model; the name of that model.

    "" means the model `vector`, or, for as many nodes as the k8s simulator's cluster has and where no
    `vector` is stored, the one of that cluster; both come with the package (`SHIPPED`) and are added to the
    store when they are first asked for. A path means the model named after its folder: added and made live if
    the store has not seen these weights, else served in the version that is live. NAME@VERSION makes that
    version live.
    """
    with store.alone():  # of two services that start side by side in an empty store, one adds the model
        return _made_live(store, wanted or _usual(store, nodes))


def _usual(store: ModelStore, nodes: int) -> str:
    return DEFAULT_NAME if DEFAULT_NAME in store.names() else shipped_for(nodes)


def _made_live(store: ModelStore, wanted: str) -> str:
    if wanted in SHIPPED and not Path(wanted).exists():
        return _added(store, wanted, SHIPPED[wanted], "came with the package", always=False)
    pinned = _PINNED.fullmatch(wanted)
    if pinned is not None and not Path(wanted).exists():
        store.promote(pinned["name"], int(pinned["version"]))
        return pinned["name"]
    if wanted in store.names():
        return wanted
    path = Path(wanted)
    if path.exists() or "/" in wanted or wanted.startswith("."):
        if not path.is_dir():
            raise InputError(f"no checkpoint: a folder with {CARD} is needed", file=path)
        folder = path / "best" if is_checkpoint(path / "best") and not is_checkpoint(path) else path
        if is_checkpoint(folder):
            check_vector_kind(read_card(folder / CARD), folder)
        return _added(store, path.resolve().name, folder, f"from {path}", always=True)
    known = ", ".join(sorted({*store.names(), *SHIPPED}))
    raise UsageError(
        f"--model {wanted}: neither a model in {store.folder} (known: {known}) nor the folder of a checkpoint"
    )


def _added(store: ModelStore, name: str, folder: Path, note: str, *, always: bool) -> str:
    """Add the checkpoint in `folder` unless the store has its weights; `always`: even beside others."""
    there = name in store.names()
    if there and not always:
        return name
    checkpoint = load_checkpoint(folder, VECTOR_ENCODING)
    model_of(checkpoint.card.kind, checkpoint.tensors, folder)
    if there and any(record.sha256 == checkpoint.card.checksum for record in store.versions(name)):
        return name
    version = store.add(name, checkpoint, note)
    store.promote(name, version)
    return name
