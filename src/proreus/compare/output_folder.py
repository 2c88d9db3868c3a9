"""The folder that results go to: one writer at a time, and what an earlier run left there is kept."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from proreus.model.errors import WorkError
from proreus.model.files import make_folder


@contextmanager
def only_one_writes(folder: Path) -> Iterator[None]:
    """Make the folder and hold it as long as the block lasts; the system lets go when the process dies."""
    make_folder(folder)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)  # the folder itself: no file is left behind
    except OSError as error:
        raise WorkError(f"{folder}: cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WorkError(
                f"{folder}: another run writes here now; name another folder with --out"
            ) from None
        yield
    finally:
        os.close(handle)


def keep_earlier(folder: Path, names: Sequence[str]) -> Path | None:
    """Move these files and folders into a folder of their own, `earlier-N`; None: there are none."""
    there = [name for name in names if (folder / name).exists()]
    if not there:
        return None
    numbers = (int(path.name.rpartition("-")[2]) for path in folder.glob("earlier-*") if _numbered(path))
    kept = folder / f"earlier-{max(numbers, default=0) + 1}"
    try:
        kept.mkdir()
        for name in there:
            (folder / name).rename(kept / name)
    except OSError as error:
        raise WorkError(f"{folder}: the earlier report cannot be kept: {error.strerror}") from error
    return kept


def _numbered(path: Path) -> bool:
    return path.name.rpartition("-")[2].isdecimal()
