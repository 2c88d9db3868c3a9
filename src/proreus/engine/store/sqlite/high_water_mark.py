"""How far a store in a file has come, noted beside it: what of the file is lost is then not lost silently.

SQLite takes a log whose first frame is damaged for an empty one, and an empty file for a new database: both
open without a word, and what was acknowledged is gone. The mark is one line in a file of its own, with the
last revision that was synced, written over itself after every commit: it is never ahead of the store, and
outlives the process as the system's caches do. Once a second it is synced, so that it outlives the machine,
too.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from proreus.engine.store.protocol import StoreError
from proreus.engine.store.sqlite.tables import READER_KIB, Tables

_SYNC_SECONDS = 1.0
_BEGIN = b"proreus store, synced up to revision "
_LENGTH = len(_BEGIN) + 21
AHEAD = 1000
"""Revisions that are left out where a loss is accepted: none of those that were lost is given twice, also
where the mark itself was some behind."""
_log = logging.getLogger(__name__)


class StoreLost(StoreError):
    """The file lacks revisions that were acknowledged."""

    def __init__(self, path: Path, revision: int, acknowledged: int) -> None:
        missing = acknowledged - revision
        if revision:
            what = f"the last {missing} of {acknowledged} revisions that were acknowledged are missing"
            why = "its log is damaged, or it is an older copy"
        else:
            what = "nothing is in it" if path.exists() else "it is gone"
            why = f"{acknowledged} revisions were acknowledged"
        super().__init__(f"{path}: {what}: {why}")
        self.path, self.acknowledged = path, acknowledged


class HighWaterMark:
    """The file beside the store's; made where it is missing."""

    def __init__(self, store: Path) -> None:
        self.path = mark_of(store)
        try:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if os.fstat(self._handle).st_uid == os.geteuid():  # who shares the store shares its mark
                os.fchmod(self._handle, store.stat().st_mode & 0o777)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error
        self._synced = time.monotonic()
        self._failed = False

    def note(self, revision: int) -> None:
        """The store is synced up to this revision; called in the thread that synced it."""
        try:
            os.pwrite(self._handle, _BEGIN + b"%020d\n" % revision, 0)
            now = time.monotonic()
            if now - self._synced >= _SYNC_SECONDS:
                self._synced = now
                os.fdatasync(self._handle)
            self._failed = False
        except OSError as error:  # what is noted is older then: less would be missed, nothing wrongly
            if not self._failed:
                _log.warning("%s: %s", self.path, error.strerror)
            self._failed = True

    def close(self) -> None:
        """Let go of it, synced."""
        try:
            os.fdatasync(self._handle)
        except OSError as error:
            _log.warning("%s: %s", self.path, error.strerror)
        os.close(self._handle)


def mark_of(store: Path) -> Path:
    """Where the mark of a store in that file lies."""
    file = store.resolve()
    return file.with_name(f"{file.name}.mark")


def acknowledged(store: Path) -> int:
    """The revision that the mark tells; 0 where there is none."""
    path = mark_of(store)
    try:
        text = path.read_bytes()[:_LENGTH]
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    digits = text.removeprefix(_BEGIN).strip()
    if not text.startswith(_BEGIN) or not digits.isdigit():
        if text:
            _log.warning("%s tells no revision: whether %s is whole is not known", path, store)
        return 0
    return int(digits)


def check_whole(store: Path) -> None:
    """Raise `StoreLost` where the file lacks what was acknowledged. Nothing is changed: to open such a
    file for writing, even to close it again, would remove the log that may still be rescued.
    """
    noted = acknowledged(store)  # before the store's own: another process may be writing
    if not noted:
        return
    revision = _revision(store)
    if revision < noted:
        raise StoreLost(store, revision, noted)


def _revision(store: Path) -> int:
    """Of the file; 0 where there is nothing in it."""
    if not store.exists() or not store.stat().st_size:
        return 0
    tables = Tables(store, busy_seconds=1.0, read_only=True, cache_kib=READER_KIB)
    try:
        if tables.is_new():
            return 0
        tables.check_format()
        return tables.number("revision")
    finally:
        tables.close()
