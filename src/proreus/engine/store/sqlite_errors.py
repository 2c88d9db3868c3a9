"""SQLite's errors in the protocol's words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proreus.engine.store.protocol import StoreError, StoreFull, Unavailable


class Damaged(StoreError):
    """The file is no store, or not whole."""


@contextmanager
def in_protocol_words(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as the protocol's, with the file's name."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(path, error) from error


def _translated(path: Path, error: sqlite3.Error) -> StoreError:
    # The low byte is the kind of error; the rest says more exactly where.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"{path}: no room to write: {error}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Damaged(f"{path}: not a store, or damaged: {error}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_IOERR:
            return Unavailable(f"{path}: {error}")
    return StoreError(f"{path}: {error}")
