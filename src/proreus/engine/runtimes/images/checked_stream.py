"""A stream out of an archive, read forwards once, within bounds, and hashed on the way."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from typing import BinaryIO

from proreus.model.errors import InputError

_STEP = 1 << 16
_MOST_AT_ONCE = 1 << 20
"""Nothing sound reads more at once: what does is a header that claims to be huge."""


class BadArchive(InputError):
    """An archive that is not what it should be, or is meant to do harm."""


class CheckedStream(io.RawIOBase):
    """Reads `source` (unpacked, if it is gzip); more than `most` bytes are refused."""

    def __init__(self, source: BinaryIO, most: int, *, compressed: bool = False) -> None:
        super().__init__()
        self._source: BinaryIO = gzip.GzipFile(fileobj=source, mode="rb") if compressed else source  # type: ignore[assignment]
        self._most, self._at = most, 0
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        """Forwards."""
        return True

    def tell(self) -> int:
        """Bytes read so far."""
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes; all that are left are never asked for at once."""
        if size is None or size < 0 or size > _MOST_AT_ONCE:
            raise BadArchive("a header in it claims to be larger than any sound one")
        try:
            data = self._source.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise BadArchive(f"its compressed data is broken: {error}") from error
        self._at += len(data)
        if self._at > self._most:
            raise BadArchive(f"it unpacks to more than {self._most} bytes")
        self._hash.update(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Skip ahead; there is no way back."""
        if whence != io.SEEK_SET or offset < self._at:
            raise BadArchive("its members overlap")
        while self._at < offset:
            if not self.read(min(_STEP, offset - self._at)):
                raise BadArchive("it ends too early")
        return self._at

    def digest(self) -> str:
        """Of everything: the rest is read first."""
        while self.read(_STEP):
            pass
        return f"sha256:{self._hash.hexdigest()}"
