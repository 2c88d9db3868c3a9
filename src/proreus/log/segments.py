"""Segments of a log in files: a file of frames, and how to walk over it whatever happened to it.

    LOG/00000000000000000917-5f0c3a9be1d24c77.log      its first record, and a key drawn for this file

Every frame has its number, so a damaged stretch costs the records in it and no other. What follows is found
again by the key.

The older format (`LOG/00000000000000000917.log`) had a mark that everybody knows, and no numbers: they are
found by trying. Such segments are read, and never written to or cut.
"""

from __future__ import annotations

import re
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from proreus.log.frames import FRAME_BYTES, FrameHead, new_key, read_head
from proreus.log.protocol import Part
from proreus.model.errors import WorkError

_NAME = re.compile(r"(\d{1,20})(?:-([0-9a-f]{16}))?\.log")
_PIECE = 1 << 20
_OLD_MARK = b"PXR1"
_OLD_HEAD = struct.Struct("<4sII")
_OLD_LEAST = 33  # bytes of the smallest record
_MOST_TRIED = 4096  # numbers


@dataclass(frozen=True, order=True)
class SegmentFile:
    """A file of the log."""

    first: int
    """The number of its first record."""
    key: bytes
    """b"" in the older format."""
    path: Path

    @classmethod
    def new(cls, folder: Path, first: int) -> SegmentFile:
        """A segment to write, with a key of its own."""
        key = new_key()
        return cls(first, key, folder / f"{first:020d}-{key.hex()}.log")

    def reader(self, since: int = 0) -> SegmentReader:
        """What walks over it."""
        return KeyedReader(self, since) if self.key else OldReader(self, since)


def segments(folder: Path) -> list[SegmentFile]:
    """Those of a log, in order."""
    segment_files = []
    try:
        for path in folder.iterdir():
            name = _NAME.fullmatch(path.name)
            if name is not None:
                segment_files.append(SegmentFile(int(name[1]), bytes.fromhex(name[2] or ""), path))
    except OSError as error:
        raise WorkError(f"{folder}: cannot be read: {error.strerror}") from error
    return sorted(segment_files)


class SegmentReader(ABC):
    """Walks over a segment while it grows: each `poll` goes on where the one before stopped."""

    def __init__(self, segment: SegmentFile, since: int) -> None:
        self.segment, self._since = segment, since
        self.end = 0
        """Bytes up to the end of the last whole frame."""
        self.next_number = segment.first
        """One more than the last whole record's."""
        self.damaged = 0
        """Stretches of bytes between whole frames that are none."""
        self.lost = 0
        """Records that were in them."""
        self.damaged_tail = False
        """Whether what stands behind `end` can be no frame that is still being written."""

    def poll(self) -> Iterator[Part]:
        """What has become whole, from `since` on. One frame is in memory at a time."""
        try:
            file = self.segment.path.open("rb")
        except FileNotFoundError:
            return  # it was let go
        except OSError as error:
            raise WorkError(f"{self.segment.path}: cannot be read: {error.strerror}") from error
        with file:
            yield from self._walk(file)

    @abstractmethod
    def _walk(self, file: BinaryIO) -> Iterator[Part]: ...

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


class KeyedReader(SegmentReader):
    """Of a segment with a key."""

    def __init__(self, segment: SegmentFile, since: int) -> None:
        super().__init__(segment, since)
        self._searched = 0  # up to here there is no frame behind `end`
        self.torn = False
        """Whether what stands behind `end` is the beginning of a frame, as a writer that dies leaves it."""

    def _walk(self, file: BinaryIO) -> Iterator[Part]:
        place, size = self.end, file.seek(0, 2)
        while place >= 0:
            head = self._head(file, place)
            after = place + FRAME_BYTES + (0 if head is None else head.length)
            if head is not None and after > size:
                size = file.seek(0, 2)  # it may have grown
                if after > size:
                    self._searched, self.torn = place, place == self.end
                    self.damaged_tail = not self.torn
                    return
            if head is not None and head.number + head.records <= self._since:
                self._passed(place, head.number, head.records, after)
                place = after
                continue
            payload = b"" if head is None else _read(file, place + FRAME_BYTES, head.length)
            if head is None or not head.fits(payload):
                place = self._find(file, max(place + 1, self._searched))
                continue
            self._passed(place, head.number, head.records, after)
            place = after
            yield Part(head.number, head.records, payload)
        size = file.seek(0, 2)
        self._searched = max(self.end + 1, size - len(self.segment.key) + 1)
        self.torn = 0 < size - self.end < FRAME_BYTES
        self.damaged_tail = size - self.end >= FRAME_BYTES

    def _head(self, file: BinaryIO, place: int) -> FrameHead | None:
        head = read_head(_read(file, place, FRAME_BYTES))
        if head is None or head.key != self.segment.key or head.number < self.next_number:
            return None
        return head

    def _find(self, file: BinaryIO, start: int) -> int:
        """The next place of the key, -1 where there is none."""
        key = self.segment.key
        while piece := _read(file, start, _PIECE):
            offset = piece.find(key)
            if offset >= 0:
                return start + offset
            if len(piece) < _PIECE:
                return -1
            start += len(piece) - len(key) + 1
        return -1


class OldReader(SegmentReader):
    """Of a segment in the older format. Whole segments are read: they were at most 64 MiB long."""

    def _walk(self, file: BinaryIO) -> Iterator[Part]:
        begin = file.seek(self.end)
        content = file.read()
        at = 0
        self.damaged_tail = False
        while True:
            place = content.find(_OLD_MARK, at)
            if place < 0 or place + _OLD_HEAD.size > len(content):
                self.damaged_tail = begin + len(content) > self.end
                return
            _, length, checksum = _OLD_HEAD.unpack_from(content, place)
            start = place + _OLD_HEAD.size
            payload = content[start : start + length]
            skipped = begin + place - self.end
            number = self._numbered(payload, checksum, skipped) if len(payload) == length else None
            if number is None:
                at = place + 1
                continue
            at = start + length
            self._passed(begin + place, number, 1, begin + at)
            if number >= self._since:
                yield Part(number, 1, payload, older=True)

    def _numbered(self, payload: bytes, checksum: int, skipped: int) -> int | None:
        """The number under which the checksum holds: the next one, or as many later as bytes were skipped."""
        most = min(skipped // _OLD_LEAST, _MOST_TRIED) + 2 if skipped else 1
        for candidate in range(self.next_number, self.next_number + most):
            if zlib.crc32(payload, zlib.crc32(candidate.to_bytes(8, "little"))) == checksum:
                return candidate
        return None


def _read(file: BinaryIO, place: int, length: int) -> bytes:
    file.seek(place)
    return file.read(length)
