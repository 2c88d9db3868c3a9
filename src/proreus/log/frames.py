"""How a part is written wherever it is kept: with its number, its length and checksums.

key (8 bytes), length of the payload (4), number of the first record (8), how many records (4), CRC-32 of the
payload (4), CRC-32 of all this (4), payload. The key is drawn by whoever writes: nobody who sends payloads
can know it, so no payload can hold what passes for a frame.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from dataclasses import dataclass

KEY_BYTES = 8
_HEAD = struct.Struct(f"<{KEY_BYTES}sIQII")
_CHECK = struct.Struct("<I")
FRAME_BYTES = _HEAD.size + _CHECK.size
"""Of a frame beside its payload."""


@dataclass(frozen=True, slots=True)
class FrameHead:
    """What stands before a payload."""

    key: bytes
    length: int
    number: int
    records: int
    checksum: int

    def fits(self, payload: bytes) -> bool:
        """Whether this is the payload that it was written for."""
        return len(payload) == self.length and zlib.crc32(payload) == self.checksum


def new_key() -> bytes:
    """A key of one's own."""
    return secrets.token_bytes(KEY_BYTES)


def frame(key: bytes, number: int, records: int, payload: bytes) -> bytes:
    """A part as it is written."""
    head = _HEAD.pack(key, len(payload), number, records, zlib.crc32(payload))
    return head + _CHECK.pack(zlib.crc32(head)) + payload


def read_head(content: bytes) -> FrameHead | None:
    """The head at the beginning of these bytes; None where there is none, or a damaged one."""
    if len(content) < FRAME_BYTES or _CHECK.unpack_from(content, _HEAD.size)[0] != zlib.crc32(
        content[: _HEAD.size]
    ):
        return None
    head = FrameHead(*_HEAD.unpack_from(content))
    return head if head.records else None
