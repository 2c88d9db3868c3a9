"""The audit log: who did what, as JSON lines in a file that is turned over when it has grown."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec

from proreus.model.errors import WorkError
from proreus.model.files import make_private_folder

_encoder = msgspec.json.Encoder()
_log = logging.getLogger(__name__)
_LONGEST = 512


class AuditLog:
    """Lines are written at once; a disk that is full loses lines of the log, never requests."""

    def __init__(self, path: Path, *, most_bytes: int = 64 * 1024 * 1024, files: int = 5) -> None:
        """files: so many older ones are kept beside it, as `path.1` (the newest) and so on."""
        self._path, self._most_bytes, self._files = path, most_bytes, files
        self._lost = False
        try:
            make_private_folder(self._path.parent)
            self._file = self._opened()
        except OSError as error:
            raise WorkError(f"{path}: the audit log cannot be written: {error.strerror}") from error
        self._size = os.fstat(self._file.fileno()).st_size

    def _opened(self) -> FileIO:
        return os.fdopen(
            os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0
        )

    def write(self, entry: dict[str, Any], at: float) -> None:
        """One line; long strings are cut."""
        entry = {
            "time": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
            **{key: value[:_LONGEST] if isinstance(value, str) else value for key, value in entry.items()},
        }
        line = _encoder.encode(entry) + b"\n"
        try:
            if self._size + len(line) > self._most_bytes and self._size:
                self._turn_over()
            self._size += self._file.write(line) or 0
            self._lost = False
        except OSError as error:
            if not self._lost:
                _log.error("%s: the audit log loses lines: %s", self._path, error.strerror)
            self._lost = True

    def _turn_over(self) -> None:
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        full, self._file, self._size = self._file, self._opened(), 0
        full.close()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def close(self) -> None:
        """No more lines."""
        self._file.close()
