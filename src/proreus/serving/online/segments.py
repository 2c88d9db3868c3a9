"""Segments of the experience log: a file of frames, and how to walk over it whatever happened to it.

    LOG/00000000000000000917-5f0c3a9be1d24c77.log      its first record, and a key drawn for this file

A frame is one report: key (8 bytes), length of the payload (4), number of its first record (8), how many
records (4), CRC-32 of the payload (4), CRC-32 of all this (4), payload. Every number is written down, so a
damaged stretch costs the records in it and no other. What follows is found again by the key, which nobody
who sends payloads can know: no payload can hold what passes for a frame.

The older format (`LOG/00000000000000000917.log`) had a mark that everybody knows, and no numbers: they are
found by trying. Such segments are read, and never written to or cut.
"""

from __future__ import annotations

import re
import secrets
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from proreus.model.errors import WorkError
from proreus.model.experience import Experience
from proreus.serving.online.records import NotARecord, decode, decode_report

_NAME = re.compile(r"(\d{1,20})(?:-([0-9a-f]{16}))?\.log")
_HEAD = struct.Struct("<8sIQII")
_CHECK = struct.Struct("<I")
FRAME_BYTES = _HEAD.size + _CHECK.size
"""Of a frame beside its payload."""
_PIECE = 1 << 20
_OLD_MARK = b"PXR1"
_OLD_HEAD = struct.Struct("<4sII")
_OLD_LEAST = 33  # bytes of the smallest record
_MOST_TRIED = 4096  # numbers


@dataclass(frozen=True, order=True)
class Segment:
    """A file of the log."""

    first: int
    """The number of its first record."""
    key: bytes
    """b"" in the older format."""
    path: Path

    @classmethod
    def new(cls, folder: Path, first: int) -> Segment:
        """A segment to write, with a key of its own."""
        key = secrets.token_bytes(8)
        return cls(first, key, folder / f"{first:020d}-{key.hex()}.log")

    def reader(self, since: int = 0) -> SegmentReader:
        """What walks over it."""
        return KeyedReader(self, since) if self.key else OldReader(self, since)


def segments(folder: Path) -> list[Segment]:
    """Those of a log, in order."""
    found = []
    try:
        for path in folder.iterdir():
            name = _NAME.fullmatch(path.name)
            if name is not None:
                found.append(Segment(int(name[1]), bytes.fromhex(name[2] or ""), path))
    except OSError as error:
        raise WorkError(f"{folder}: cannot be read: {error.strerror}") from error
    return sorted(found)


def frame(key: bytes, number: int, records: int, payload: bytes) -> bytes:
    """A report as it is written."""
    head = _HEAD.pack(key, len(payload), number, records, zlib.crc32(payload))
    return head + _CHECK.pack(zlib.crc32(head)) + payload


class SegmentReader(ABC):
    """Walks over a segment while it grows: each `poll` goes on where the one before stopped."""

    def __init__(self, segment: Segment, since: int) -> None:
        self.segment, self._since = segment, since
        self.end = 0
        """Bytes up to the end of the last whole frame."""
        self.next_number = segment.first
        """One more than the last whole record's."""
        self.damaged = 0
        """Stretches of bytes between whole frames that are none."""
        self.lost = 0
        """Records that were in them."""

    def poll(self) -> Iterator[tuple[int, Experience]]:
        """(number, record) of what has become whole, from `since` on. One frame is in memory at a time."""
        try:
            file = self.segment.path.open("rb")
        except FileNotFoundError:
            return  # it was let go
        except OSError as error:
            raise WorkError(f"{self.segment.path}: cannot be read: {error.strerror}") from error
        with file:
            yield from self._walk(file)

    @abstractmethod
    def _walk(self, file: BinaryIO) -> Iterator[tuple[int, Experience]]: ...

    @property
    def least_frame(self) -> int:
        """Bytes of the smallest frame."""
        return FRAME_BYTES if self.segment.key else _OLD_LEAST

    def _passed(self, place: int, number: int, records: int, after: int) -> None:
        """A whole frame with these records, from `place` to `after`."""
        if place != self.end:
            self.damaged += 1
            self.lost += number - self.next_number
        self.end, self.next_number = after, number + records

    def _sound(
        self, number: int, read: Callable[[bytes, int], list[Experience]], payload: bytes
    ) -> Iterator[tuple[int, Experience]]:
        """The records of a frame from `since` on; a whole frame of nonsense counts as damaged."""
        try:
            found = read(payload, number)
        except NotARecord:
            self.damaged, self.lost = self.damaged + 1, self.lost + self.next_number - number
            return
        for k, record in enumerate(found):
            if number + k >= self._since:
                yield number + k, record


@dataclass(frozen=True)
class _Head:
    length: int
    number: int
    records: int
    checksum: int


class KeyedReader(SegmentReader):
    """Of a segment with a key."""

    def __init__(self, segment: Segment, since: int) -> None:
        super().__init__(segment, since)
        self._searched = 0  # up to here there is no frame behind `end`
        self.torn = False
        """Whether what stands behind `end` is the beginning of a frame, as a writer that dies leaves it."""

    def _walk(self, file: BinaryIO) -> Iterator[tuple[int, Experience]]:
        place, size = self.end, file.seek(0, 2)
        while place >= 0:
            head = self._head(file, place)
            after = place + FRAME_BYTES + (0 if head is None else head.length)
            if head is not None and after > size:
                size = file.seek(0, 2)  # it may have grown
                if after > size:
                    self._searched, self.torn = place, place == self.end
                    return
            if head is not None and head.number + head.records <= self._since:
                self._passed(place, head.number, head.records, after)
                place = after
                continue
            payload = b"" if head is None else _read(file, place + FRAME_BYTES, head.length)
            if head is None or zlib.crc32(payload) != head.checksum:
                place = self._find(file, max(place + 1, self._searched))
                continue
            self._passed(place, head.number, head.records, after)
            place = after
            yield from self._sound(head.number, decode_report, payload)
        size = file.seek(0, 2)
        self._searched = max(self.end + 1, size - len(self.segment.key) + 1)
        self.torn = 0 < size - self.end < FRAME_BYTES

    def _head(self, file: BinaryIO, place: int) -> _Head | None:
        content = _read(file, place, FRAME_BYTES)
        if len(content) < FRAME_BYTES or _CHECK.unpack_from(content, _HEAD.size)[0] != zlib.crc32(
            content[: _HEAD.size]
        ):
            return None
        key, length, number, records, checksum = _HEAD.unpack_from(content)
        if key != self.segment.key or number < self.next_number or not records:
            return None
        return _Head(length, number, records, checksum)

    def _find(self, file: BinaryIO, start: int) -> int:
        """The next place of the key, -1 where there is none."""
        key = self.segment.key
        while piece := _read(file, start, _PIECE):
            found = piece.find(key)
            if found >= 0:
                return start + found
            if len(piece) < _PIECE:
                return -1
            start += len(piece) - len(key) + 1
        return -1


class OldReader(SegmentReader):
    """Of a segment in the older format. Whole segments are read: they were at most 64 MiB long."""

    def _walk(self, file: BinaryIO) -> Iterator[tuple[int, Experience]]:
        begin = file.seek(self.end)
        content = file.read()
        at = 0
        while True:
            place = content.find(_OLD_MARK, at)
            if place < 0 or place + _OLD_HEAD.size > len(content):
                return
            _, length, checksum = _OLD_HEAD.unpack_from(content, place)
            start = place + _OLD_HEAD.size
            payload = content[start : start + length]
            skipped = begin + place - self.end
            found = self._numbered(payload, checksum, skipped) if len(payload) == length else None
            if found is None:
                at = place + 1
                continue
            at = start + length
            self._passed(begin + place, found, 1, begin + at)
            yield from self._sound(found, _decode_old, payload)

    def _numbered(self, payload: bytes, checksum: int, skipped: int) -> int | None:
        """The number under which the checksum holds: the next one, or as many later as bytes were skipped."""
        most = min(skipped // _OLD_LEAST, _MOST_TRIED) + 2 if skipped else 1
        for candidate in range(self.next_number, self.next_number + most):
            if zlib.crc32(payload, zlib.crc32(candidate.to_bytes(8, "little"))) == checksum:
                return candidate
        return None


def _decode_old(payload: bytes, number: int) -> list[Experience]:
    return [decode(payload, (0, number))]


def _read(file: BinaryIO, place: int, length: int) -> bytes:
    file.seek(place)
    return file.read(length)
