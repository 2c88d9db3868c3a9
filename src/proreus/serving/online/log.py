"""The experience log: what was reported to the service, on disk before it is acknowledged.

    LOG/00000000000000000000.log, LOG/00000000000000000917.log, ...   named after their first record

A segment is a line of frames; a frame is one record:

    mark (4 bytes), length of the payload (4), CRC-32 of number and payload (4), payload

`append` returns when its record has reached the disk. Appends that come together share one fsync. A writer
that is killed leaves a torn frame at the end at worst; the next one cuts it off. A frame that is damaged in
the middle is skipped and counted, and what follows is found again by its mark. One process writes, any
number may read.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from proreus.model.errors import UsageError, WorkError
from proreus.model.experience import Experience
from proreus.model.files import make_folder

_MARK = b"PXR1"
_HEAD = struct.Struct("<4sII")
_ABOUT = struct.Struct("<qIIIB")  # model version, B, S, A, whether there are masks
_SUFFIX = ".log"
_LOCK = ".lock"


def encode(batch: Experience) -> bytes:
    """A record's payload."""
    count = len(batch)
    states = np.ascontiguousarray(batch.states, dtype="<f8")
    masks = batch.masks
    return b"".join(
        (
            _ABOUT.pack(batch.model_version, count, states.shape[1], batch.actions_dim, masks is not None),
            states.tobytes(),
            np.ascontiguousarray(batch.actions, dtype="<i8").tobytes(),
            np.ascontiguousarray(batch.rewards, dtype="<f8").tobytes(),
            np.ascontiguousarray(batch.log_probs, dtype="<f8").tobytes(),
            np.packbits(batch.dones).tobytes(),
            np.packbits(batch.greedy).tobytes(),
            b"" if masks is None else np.packbits(masks).tobytes(),
        )
    )


def decode(payload: bytes) -> Experience:
    """The record of a payload that `encode` made."""
    version, count, length, actions_dim, masked = _ABOUT.unpack_from(payload)
    at = _ABOUT.size

    def take(kind: str, items: int) -> np.ndarray[Any, Any]:
        nonlocal at
        found = np.frombuffer(payload, dtype=kind, count=items, offset=at)
        at += found.nbytes
        return found

    def bits(items: int) -> np.ndarray[Any, Any]:
        return np.unpackbits(take("u1", -(-items // 8)), count=items).astype(np.bool_)

    states = take("<f8", count * length).reshape(count, length)
    actions, rewards, log_probs = take("<i8", count), take("<f8", count), take("<f8", count)
    dones, greedy = bits(count), bits(count)
    masks = bits(count * actions_dim).reshape(count, actions_dim) if masked else None
    return Experience(states, actions, rewards, dones, log_probs, greedy, version, actions_dim, masks)


def _frame(number: int, payload: bytes) -> bytes:
    return _HEAD.pack(_MARK, len(payload), _checksum(number, payload)) + payload


def _checksum(number: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(number.to_bytes(8, "little")))


@dataclass
class Scan:
    """What walking over a log found."""

    next_number: int = 0
    """One more than the last whole record's."""
    end: int = 0
    """Bytes up to the end of the last whole record."""
    damaged: int = 0
    """Stretches of bytes between whole records that are no record."""


def _segments(folder: Path) -> list[tuple[int, Path]]:
    try:
        found = [path for path in folder.iterdir() if path.suffix == _SUFFIX and path.stem.isdecimal()]
    except OSError as error:
        raise WorkError(f"{folder}: cannot be read: {error.strerror}") from error
    return sorted((int(path.stem), path) for path in found)


def _frames(content: bytes, number: int, scan: Scan) -> Iterator[tuple[int, bytes]]:
    """(number, payload) of the whole frames in `content`, of which the first should have this number."""
    at, damaged = 0, False
    scan.next_number, scan.end = number, 0
    while True:
        place = content.find(_MARK, at)
        if place < 0 or place + _HEAD.size > len(content):
            return
        _, length, checksum = _HEAD.unpack_from(content, place)
        payload = content[place + _HEAD.size : place + _HEAD.size + length]
        damaged = damaged or place != at
        found = _numbered(number, payload, checksum, damaged) if len(payload) == length else None
        if found is None:
            at, damaged = place + 1, True
            continue
        scan.damaged += damaged
        at, damaged, number = place + _HEAD.size + length, False, found + 1
        scan.end, scan.next_number = at, number
        yield found, payload


_MOST_LOST = 64  # records in a row whose loss the numbering survives


def _numbered(number: int, payload: bytes, checksum: int, after_damage: bool) -> int | None:
    """The number under which the checksum holds: the next one or, after damage, one of the next few."""
    for candidate in range(number, number + (_MOST_LOST if after_damage else 1)):
        if _checksum(candidate, payload) == checksum:
            return candidate
    return None


class LogReader:
    """Follows a log while it grows: every `poll` returns what has become whole since the one before."""

    def __init__(self, folder: Path, since: int = 0) -> None:
        self._folder, self._since = folder, since
        self._segment = -1  # the number of its first record
        self._offset, self._next = 0, 0
        self.damaged = 0

    def poll(self) -> Iterator[tuple[int, Experience]]:
        """(number, record) of the new whole records from `since` on."""
        segments = _segments(self._folder)
        if self._segment < 0 and segments:
            started = [first for first, _ in segments if first <= self._since]
            self._segment = self._next = max(started, default=segments[0][0])
        for first, path in segments:
            if first < self._segment:
                continue
            if first > self._segment:
                self._segment, self._offset, self._next = first, 0, first
            yield from self._read(path)

    def _read(self, path: Path) -> list[tuple[int, Experience]]:
        try:
            with path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except OSError as error:
            raise WorkError(f"{path}: cannot be read: {error.strerror}") from error
        scan = Scan()
        frames = list(_frames(content, self._next, scan))
        self._offset, self._next = self._offset + scan.end, scan.next_number
        self.damaged += scan.damaged
        return [(number, decode(payload)) for number, payload in frames if number >= self._since]


@dataclass
class _Ticket:
    """One append that waits for the disk."""

    payload: bytes
    number: int = -1
    done: bool = False
    failure: Exception | None = field(default=None)


class ExperienceLog:
    """The writing end. One process at a time; any of its threads may append."""

    def __init__(self, folder: Path, segment_bytes: int = 64 << 20) -> None:
        make_folder(folder)
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._guard = threading.Condition()
        self._waiting: list[_Ticket] = []
        self._busy = False
        self._failure: Exception | None = None
        self._lock = (folder / _LOCK).open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise UsageError(f"{folder}: another process writes this log") from error
        self.damaged, self.cut = 0, 0
        self._file, self._next = self._resume()

    def _resume(self) -> tuple[BinaryIO, int]:
        """Cut off a torn tail; open the last segment to write on."""
        segments = _segments(self.folder)
        if not segments:
            return self._new_segment(0), 0
        scan = Scan()
        first, path = segments[-1]
        content = path.read_bytes()
        for _ in _frames(content, first, scan):
            pass
        self.damaged = scan.damaged
        self.cut = len(content) - scan.end
        file = path.open("r+b", buffering=0)
        if self.cut:
            file.truncate(scan.end)
            os.fsync(file.fileno())
        file.seek(scan.end)
        return file, scan.next_number

    def _new_segment(self, number: int) -> BinaryIO:
        file = (self.folder / f"{number:020d}{_SUFFIX}").open("xb", buffering=0)
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        return file

    @property
    def next_number(self) -> int:
        """The number that the next record will get: how many there are."""
        with self._guard:
            return self._next

    def append(self, batch: Experience) -> int:
        """Write a record; returns its number once it is on the disk. A WorkError says that it is not."""
        ticket = _Ticket(encode(batch))
        with self._guard:
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
            raise WorkError(f"{self.folder}: cannot be written: {ticket.failure}") from ticket.failure
        return ticket.number

    def _write(self, group: list[_Ticket]) -> None:
        """All records of a group with one fsync. Only the thread that set `_busy` is here."""
        try:
            if self._failure is not None:
                raise self._failure
            if self._file.tell() >= self._segment_bytes:
                self._file.close()
                self._file = self._new_segment(self._next)
            frames = b"".join(_frame(self._next + i, ticket.payload) for i, ticket in enumerate(group))
            view = memoryview(frames)
            while view:
                view = view[self._file.write(view) :]
            os.fsync(self._file.fileno())
        except (OSError, ValueError) as error:
            # What reached the disk is unknown: nothing more is written until the log is opened again.
            self._failure = error
            for ticket in group:
                ticket.failure, ticket.done = error, True
            return
        for ticket in group:
            ticket.number = self._next
            self._next += 1
            ticket.done = True

    def read(self, since: int = 0) -> Iterator[tuple[int, Experience]]:
        """(number, record) from number `since` on."""
        return LogReader(self.folder, since).poll()

    def close(self) -> None:
        """Let the file and the lock go; what was acknowledged is on the disk already."""
        with self._guard:
            while self._busy:
                self._guard.wait()
            if self._failure is None:
                self._failure = ValueError("the log is closed")
        self._file.close()
        self._lock.close()
