"""Archives that come in pieces: each is a file that grows, so that none is held in memory."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from pathlib import Path

from proreus.model.errors import ProreusError

_MOST_AT_ONCE = 4
_IDLE_SECONDS = 600.0
_ID = re.compile(r"[0-9a-f]{32}")


class UploadUnknown(ProreusError):
    """There is no such upload, or there is none any more."""


class UploadMisplaced(ProreusError):
    """A piece that does not follow what has come; the message says where the next one begins."""


class UploadTooLarge(ProreusError):
    """More than any image may have."""


class UploadsFull(ProreusError):
    """Too many are under way."""


class Uploads:
    """See the module. Calls block, and may come from any thread; what an earlier process left is gone."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most = folder, most_bytes
        self._lock = threading.Lock()
        self._touched: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file in folder.iterdir():
            file.unlink()

    def begin(self) -> str:
        """A new one, by its name; those that nobody goes on with give way."""
        with self._lock:
            now = time.monotonic()
            for upload, touched in list(self._touched.items()):
                if now - touched > _IDLE_SECONDS:
                    self._forget(upload)
            if len(self._touched) >= _MOST_AT_ONCE:
                raise UploadsFull(f"{_MOST_AT_ONCE} uploads are under way; try again")
            upload = secrets.token_hex(16)
            self._place(upload).touch(0o600)
            self._touched[upload] = now
            return upload

    def add(self, upload: str, offset: int, piece: bytes) -> int:
        """Append a piece that begins at `offset`; the size from then on."""
        with self._lock:
            place = self.path(upload)
            size = place.stat().st_size
            if offset != size:
                raise UploadMisplaced(f"offset: {size} bytes have come, the next piece begins there")
            if size + len(piece) > self._most:
                raise UploadTooLarge(f"an image has at most {self._most} bytes")
            try:
                with place.open("ab") as file:
                    file.write(piece)
            except OSError:  # a full disk: what has come whole stays
                os.truncate(place, size)
                raise
            self._touched[upload] = time.monotonic()
            return size + len(piece)

    def path(self, upload: str) -> Path:
        """Its file; raises `UploadUnknown`."""
        if not _ID.fullmatch(upload) or upload not in self._touched:
            raise UploadUnknown(f"there is no upload {upload[:80]!r}")
        return self._place(upload)

    def drop(self, upload: str) -> None:
        """It is not wanted any more."""
        with self._lock:
            self.path(upload)
            self._forget(upload)

    def _forget(self, upload: str) -> None:
        del self._touched[upload]
        self._place(upload).unlink(missing_ok=True)

    def _place(self, upload: str) -> Path:
        return self._folder / upload
