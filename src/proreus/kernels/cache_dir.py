"""Where machine code is kept: the user's cache, else a private folder for temporary files, else nowhere.

A home or a package that cannot be written (containers, shared clusters) is no error: kernels are then kept
where they can be, or compiled anew by every process. A folder that comes with code in it and cannot be
written, as an image may ship it, is read.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def place_for(group: str, digest: str) -> Path | None:
    """The folder for the code of a group of kernels, made now; None: there is no place for it."""
    for root in _roots():
        folder = root / "machine-code" / group / digest
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.R_OK | os.X_OK):
            return folder
    return None


def can_be_written(folder: Path) -> bool:
    """Whether code can be added to a folder."""
    return os.access(folder, os.W_OK | os.X_OK)


def _roots() -> Iterator[Path]:
    """From the first choice to the last."""
    roots = (_of_user(), _private())
    yield from (root for root in roots if root is not None)


def _of_user() -> Path | None:
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(named) if named else Path.home() / ".cache") / "proreus"
    except RuntimeError:  # a user without a home
        return None


def _private() -> Path | None:
    """A folder among the temporary files that nobody else can write: what lies in it is run."""
    if not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"proreus-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if own else None
