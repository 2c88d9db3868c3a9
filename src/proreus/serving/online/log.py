"""The experience log: what was reported to the service, on disk before it is acknowledged.

`append` returns when its report has reached the disk, whole or not at all. Appends that come together share
one fsync. A writer that is killed leaves a torn frame at the end at worst; the next one cuts it off. Any
other damage costs the records in it: what is whole behind it is kept, and nothing is cut (see `segments`).
One process writes a log, any number may read it.

A write that fails (a full disk) is taken back and said, and the next one is tried as if nothing had been.
A log has a limit: segments that were learned from make room, oldest first; what nobody has learned from is
never dropped, new reports are refused instead.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from proreus.model.errors import UsageError, WorkError
from proreus.model.experience import Experience
from proreus.model.files import make_folder
from proreus.serving.online.records import encode_report
from proreus.serving.online.segments import KeyedReader, Segment, SegmentReader, frame, segments

_log = logging.getLogger(__name__)
_LOCK = ".lock"
_REPORTED = 4096  # reports whose steps are counted
_LEAST_FREE = 1 << 20  # bytes on the disk below which it counts as full


class LogInUse(UsageError):
    """Another process writes this log."""


@dataclass(frozen=True)
class LogLimits:
    """How large a log gets."""

    segment_bytes: int = 64 << 20
    """From which size on the next report goes into a new file."""
    keep_bytes: int = 0
    """Of all files, at most; 0: any number."""


class LogReader:
    """Follows a log while it grows: every `poll` returns what has become whole since the one before."""

    def __init__(self, folder: Path, since: int = 0) -> None:
        self._folder, self._since = folder, since
        self._reader: SegmentReader | None = None
        self._damaged = self._lost = 0  # in segments that were left behind

    @property
    def damaged(self) -> int:
        """Stretches of bytes so far that are no record."""
        return self._damaged + (0 if self._reader is None else self._reader.damaged)

    @property
    def lost(self) -> int:
        """Records that were in them."""
        return self._lost + (0 if self._reader is None else self._reader.lost)

    def poll(self) -> Iterator[tuple[int, Experience]]:
        """(number, record) of the new whole records from `since` on. It may be left at any record."""
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
                yield from self._told(reader)
                self._damaged, self._lost = self._damaged + reader.damaged, self._lost + reader.lost
                self._reader = segment.reader(self._since)
            yield from self._told(self._reader)

    def _told(self, reader: SegmentReader | None) -> Iterator[tuple[int, Experience]]:
        """What a segment has; damage that is met on the way is said."""
        assert reader is not None
        known = reader.damaged
        for number, record in reader.poll():
            if reader.damaged > known:
                known = reader.damaged
                say = "%s: %d damaged stretches so far, %d records lost; those behind are kept"
                _log.warning(say, reader.segment.path, reader.damaged, reader.lost)
            yield number, record


@dataclass
class _Ticket:
    """One append that waits for the disk."""

    payload: bytes
    records: int
    number: int = -1
    done: bool = False
    failure: Exception | None = field(default=None)


class ExperienceLog:
    """The writing end. One process at a time; any of its threads may append."""

    def __init__(
        self, folder: Path, limits: LogLimits | None = None, learned: Callable[[], int] = lambda: 0
    ) -> None:
        """learned: the number up to which nobody needs the records any more; it is asked for room."""
        make_folder(folder)
        self.folder = folder
        self._limits, self._learned = limits or LogLimits(), learned
        self._guard = threading.Condition()
        self._waiting: list[_Ticket] = []
        self._reported: deque[tuple[int, int]] = deque(maxlen=_REPORTED)
        self._busy = self._closed = False
        self._failure: Exception | None = None
        self._lock = (folder / _LOCK).open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise LogInUse(f"{folder}: another process writes this log") from error
        self.damaged, self.cut = 0, 0
        self._file: BinaryIO | None = None
        self._segment: Segment | None = None
        self._end = 0  # of what is acknowledged in the file
        there = segments(folder)
        self._next = self._resume(there[-1]) if there else 0
        # Whoever learned skips the numbers that it knows: none of them may come again.
        self._next = max(self._next, learned())
        self._bytes = sum(_size(segment.path) for segment in there) - self.cut

    def _resume(self, last: Segment) -> int:
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

    @property
    def next_number(self) -> int:
        """The number that the next record will get."""
        with self._guard:
            return self._next

    @property
    def trouble(self) -> str:
        """Why nothing can be logged now; "" where the last report was, or there is room again."""
        failure = self._failure
        if failure is None:
            return ""
        if isinstance(failure, OSError) and failure.errno in (errno.ENOSPC, errno.EDQUOT):
            with contextlib.suppress(OSError):
                free = os.statvfs(self.folder)
                if free.f_bavail * free.f_frsize > _LEAST_FREE:
                    return ""
        if isinstance(failure, _Full) and self._bytes_after_dropping() < self._limits.keep_bytes:
            return ""
        return _reason(failure)

    def steps_since(self, number: int) -> int:
        """Steps of the latest reports that came here and have this number or a later one."""
        with self._guard:
            return sum(steps for first, steps in self._reported if first >= number)

    def append(self, *records: Experience) -> int:
        """Write a report; returns the number of its first record once all are on the disk.

        A WorkError says that none of them is.
        """
        ticket = _Ticket(encode_report(records), len(records))
        steps = sum(map(len, records))
        with self._guard:
            if self._closed:
                raise WorkError(f"{self.folder}: the log is closed")
            self._waiting.append(ticket)
            while not ticket.done:
                if self._busy:
                    self._guard.wait()
                    continue
                self._busy = True
                group, self._waiting = self._waiting, []
                self._guard.release()
                try:
                    self._write(group)
                finally:
                    self._guard.acquire()
                    self._busy = False
                    self._guard.notify_all()
        if ticket.failure is not None:
            raise WorkError(_reason(ticket.failure)) from ticket.failure
        with self._guard:
            self._reported.append((ticket.number, steps))
        return ticket.number

    def _write(self, group: list[_Ticket]) -> None:
        """All reports of a group with one fsync. Only the thread that set `_busy` is here."""
        number, numbers = self._next, []
        for ticket in group:
            numbers.append(number)
            number += ticket.records
        try:
            self._make_room(sum(len(ticket.payload) for ticket in group))
            file, key = self._open_segment()
            pieces = zip(numbers, group, strict=True)
            frames = b"".join(frame(key, first, ticket.records, ticket.payload) for first, ticket in pieces)
            view = memoryview(frames)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        except (OSError, ValueError) as error:
            if not isinstance(error, _Full):
                self._take_back()
                self._next = number  # a reader may have seen these: their numbers do not come again
            if self._failure is None or _reason(self._failure) != _reason(error):
                _log.error("%s: experience cannot be logged: %s", self.folder, _reason(error))
            self._failure = error
            for ticket in group:
                ticket.failure, ticket.done = error, True
            return
        if self._failure is not None:
            _log.warning("%s: experience is logged again", self.folder)
        self._failure, self._next = None, number
        self._end += len(frames)
        self._bytes += len(frames)
        for first, ticket in zip(numbers, group, strict=True):
            ticket.number, ticket.done = first, True

    def _open_segment(self) -> tuple[BinaryIO, bytes]:
        """The file to write to, and its key."""
        if self._file is not None and self._end >= self._limits.segment_bytes:
            self._file.close()
            self._file = None
        if self._file is None or self._segment is None:
            self._segment = Segment.new(self.folder, self._next)
            self._file, self._end = self._segment.path.open("xb", buffering=0), 0
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
        """Drop what was learned from, oldest first, where the log would get too large."""
        most = self._limits.keep_bytes
        if not most or self._bytes + coming <= most:
            return
        for segment, size in self._droppable():
            if self._bytes + coming <= most:
                break
            segment.path.unlink(missing_ok=True)
            self._bytes -= size
        if self._bytes + coming > most:
            raise _Full(f"the log has its {most} bytes, and nothing learned from the oldest yet")

    def _droppable(self) -> list[tuple[Segment, int]]:
        """Segments whose records all were learned from, and their sizes; never the one that is written."""
        learned, there = self._learned(), segments(self.folder)
        ends = [later.first for later in there[1:]]
        return [
            (segment, _size(segment.path))
            for segment, end in zip(there, ends, strict=False)
            if end <= learned and segment != self._segment
        ]

    def _bytes_after_dropping(self) -> int:
        return self._bytes - sum(size for _, size in self._droppable())

    def read(self, since: int = 0) -> Iterator[tuple[int, Experience]]:
        """(number, record) from number `since` on."""
        return LogReader(self.folder, since).poll()

    def close(self) -> None:
        """Let the file and the lock go; what was acknowledged is on the disk already."""
        with self._guard:
            self._closed = True
            while self._busy or self._waiting:
                self._guard.wait()
        if self._file is not None:
            self._file.close()
        self._lock.close()


class _Full(ValueError):
    """The log has reached its limit."""


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
