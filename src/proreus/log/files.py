"""A log in the files of a folder: it needs nothing but a disk. One process writes, any number may read.

A writer that is killed leaves a torn frame at the end at worst; the next one cuts it off. Any other damage
costs the records in it: what is whole behind it is kept, and nothing is cut (see `segments`).

A write that fails (a full disk) is taken back and said, and the next one is tried as if nothing had been.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from proreus.log.frames import frame
from proreus.log.group_commit import Append, GroupedLog
from proreus.log.protocol import LogFull, LogInUse, LogLimits, Part
from proreus.log.segments import KeyedReader, SegmentFile, SegmentReader, segments
from proreus.model.files import make_folder, open_private

_log = logging.getLogger(__name__)
_LOCK = ".lock"
_LEAST_FREE = 1 << 20  # bytes on the disk below which it counts as full


class FileReader:
    def __init__(self, folder: Path, since: int = 0) -> None:
        self._folder, self._since = folder, since
        self._reader: SegmentReader | None = None
        self._damaged = self._lost = 0  # in segments that were left behind

    @property
    def damaged(self) -> int:
        """Stretches of bytes so far that are no part."""
        reader = self._reader
        return self._damaged + (0 if reader is None else reader.damaged + reader.damaged_tail)

    @property
    def lost(self) -> int:
        """Records that were in them; how many the last stretch of all had is not known, at least one."""
        reader = self._reader
        return self._lost + (0 if reader is None else reader.lost + reader.damaged_tail)

    def poll(self) -> Iterator[Part]:
        """The new whole parts, those with a record from `since` on."""
        there = segments(self._folder)
        if self._reader is None and there:
            started = [segment for segment in there if segment.first <= self._since]
            self._reader = (started or there[:1])[-1].reader(self._since)
        for segment in there:
            reader = self._reader
            assert reader is not None
            if segment < reader.segment:
                continue
            if segment != reader.segment:
                # Nothing is written to a segment any more that has a successor: this is the rest of it.
                yield from self._polled(reader)
                self._leave(reader, segment)
                self._reader = segment.reader(self._since)
            yield from self._polled(self._reader)

    def _leave(self, reader: SegmentReader, successor: SegmentFile) -> None:
        """What was damaged there; behind its last whole frame, too, where more was than one that was torn."""
        self._damaged += reader.damaged
        self._lost += reader.lost
        if reader.damaged_tail:
            gap = max(successor.first - reader.next_number, 0)
            self._damaged, self._lost = self._damaged + 1, self._lost + gap
            say = "%s: its end is damaged, %d records lost; those in later files are kept"
            _log.warning(say, reader.segment.path, gap)

    def close(self) -> None:
        """No file stays open between two polls."""

    def _polled(self, reader: SegmentReader | None) -> Iterator[Part]:
        """What a segment has; damage that is met on the way is said."""
        assert reader is not None
        known = reader.damaged
        for part in reader.poll():
            if reader.damaged > known:
                known = reader.damaged
                say = "%s: %d damaged stretches so far, %d records lost; those behind are kept"
                _log.warning(say, reader.segment.path, reader.damaged, reader.lost)
            yield part


class FileLog(GroupedLog):
    def __init__(
        self,
        folder: Path,
        limits: LogLimits | None = None,
        released: Callable[[], int] = lambda: 0,
        name: str = "",
    ) -> None:
        """released: the number below which nobody needs the records any more; it is asked for room."""
        super().__init__(name, str(folder))
        make_folder(folder, private=True)
        self.folder = folder
        self._limits, self._released = limits or LogLimits(), released
        self._lock = open_private(folder / _LOCK, "ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise LogInUse(f"{folder}: another process writes this log") from error
        self.damaged, self.cut = 0, 0
        self._file: BinaryIO | None = None
        self._segment: SegmentFile | None = None
        self._end = 0  # of what is acknowledged in the file
        self._refused_bytes = 0  # for which there was no room
        there = segments(folder)
        self._next = self._resume(there[-1]) if there else 0
        # Whoever learned skips the numbers that it knows: none of them may come again.
        self._next = max(self._next, released())
        self._bytes = log_bytes(there)

    def _resume(self, last: SegmentFile) -> int:
        """Open the last segment to write on, its torn tail cut off; the next number.

        A segment with other damage at its end, or in the older format, is left as it is: a new one follows.
        """
        reader = last.reader()
        for _ in reader.poll():
            pass
        behind = _size(last.path) - reader.end
        self.damaged = reader.damaged
        if not isinstance(reader, KeyedReader) or (behind and not reader.torn):
            self.damaged += behind > 0
            # Records that cannot be read had numbers too.
            number = reader.next_number + (behind // reader.least_frame + 1 if behind else 0)
        else:
            number, self.cut = reader.next_number, behind
            file = last.path.open("r+b", buffering=0)
            if behind:
                file.truncate(reader.end)
                os.fsync(file.fileno())
            file.seek(reader.end)
            self._file, self._segment, self._end = file, last, reader.end
        if self.damaged:
            say = "%s: %d damaged stretches, at least %d records lost; all others are kept"
            _log.warning(say, last.path, self.damaged, reader.lost)
        return number

    def _is_over(self, failure: Exception) -> bool:
        if isinstance(failure, OSError) and failure.errno in (errno.ENOSPC, errno.EDQUOT):
            with contextlib.suppress(OSError):
                free = os.statvfs(self.folder)
                return free.f_bavail * free.f_frsize > _LEAST_FREE
        if not isinstance(failure, LogFull):
            return False
        return self._bytes_after_dropping() + self._refused_bytes <= self._limits.keep_bytes

    def _write(self, group: list[Append]) -> None:
        """All of a group with one fsync."""
        number, numbers = self._next, []
        for append in group:
            numbers.append(number)
            number += append.records
        self._make_room(sum(len(append.payload) for append in group))
        try:
            file, key = self._open_segment()
            pieces = zip(numbers, group, strict=True)
            frames = b"".join(frame(key, first, append.records, append.payload) for first, append in pieces)
            view = memoryview(frames)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        except (OSError, ValueError):
            self._take_back()
            self._next = number  # a reader may have seen these: their numbers do not come again
            raise
        self._next = number
        self._end += len(frames)
        self._bytes += len(frames)
        for first, append in zip(numbers, group, strict=True):
            append.number = first

    def _open_segment(self) -> tuple[BinaryIO, bytes]:
        """The file to write to, and its key."""
        if self._file is not None and self._end >= self._limits.segment_bytes:
            self._file.close()
            self._file = None
        if self._file is None or self._segment is None:
            self._segment = SegmentFile.new(self.folder, self._next)
            self._file, self._end = open_private(self._segment.path, "xb", buffering=0), 0
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return self._file, self._segment.key

    def _take_back(self) -> None:
        """After a failed write: what is not acknowledged leaves the file; a new one is begun next time."""
        file, self._file = self._file, None
        if file is None or self._segment is None:
            return
        # Best effort: what stays is not acknowledged, and the reader finds its way over it.
        with contextlib.suppress(OSError):
            file.truncate(self._end)
            os.fsync(file.fileno())
        file.close()
        if not self._end:
            with contextlib.suppress(OSError):
                self._segment.path.unlink()

    def _make_room(self, coming: int) -> None:
        """Drop what nobody needs any more, oldest first, where the log would get too large."""
        most = self._limits.keep_bytes
        if not most or self._bytes + coming <= most:
            return
        there = segments(self.folder)
        self._bytes = log_bytes(there)  # somebody else may have pruned it
        for segment in _below(there, self._released()):
            if self._bytes + coming <= most:
                break
            size = _size(segment.path)
            segment.path.unlink(missing_ok=True)
            self._bytes -= size
        if self._bytes + coming > most:
            self._refused_bytes = coming
            raise LogFull(f"the log has its {most} bytes, and nothing learned from the oldest yet")

    def _bytes_after_dropping(self) -> int:
        there = segments(self.folder)
        return log_bytes(there) - log_bytes(_below(there, self._released()))

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.close()


def prune(folder: Path, before: int) -> int:
    """Drop the files that hold no record from that number on, never the last one; how many went.

    Others may write and read meanwhile.
    """
    gone = _below(segments(folder), before)
    for segment in gone:
        segment.path.unlink(missing_ok=True)
    return len(gone)


def log_bytes(there: list[SegmentFile]) -> int:
    """That these files take."""
    return sum(_size(segment.path) for segment in there)


def _below(there: list[SegmentFile], number: int) -> list[SegmentFile]:
    """Those whose records all come before that number; never the last one, which may be written to."""
    ends = [later.first for later in there[1:]]
    return [segment for segment, end in zip(there, ends, strict=False) if end <= number]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
