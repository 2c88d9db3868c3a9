"""One process a folder: two that run the same nodes would run every pod twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proreus.model.errors import WorkError


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder as long as the block lasts; the system lets go when the process dies."""
    path = folder / "lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WorkError(
            f"{path}: cannot be written: {error.strerror}; name another folder with --dir"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            raise WorkError(
                f"{folder}: a cluster runs here already (process {holder or 'unknown'}); end it, or name "
                "another folder with --dir"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
