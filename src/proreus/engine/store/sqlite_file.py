"""Who may read the file of a store."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from proreus.engine.store.protocol import StoreError

_log = logging.getLogger(__name__)


def make_private(path: Path) -> None:
    """A new file is its owner's alone, for it holds Secrets; SQLite gives -wal and -shm the same mode.

    One that is there is not opened: to close it again would end the locks that this process has on it. It
    keeps its mode, which may have been given for a group that shares it.
    """
    try:
        os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def tell_if_public(path: Path, holds: str) -> None:
    """Warn of a store that every user may read; holds: what is in it."""
    if path.stat().st_mode & stat.S_IROTH:
        _log.warning("every user of this machine may read %s, with %s in it: chmod o= %s*", path, holds, path)
