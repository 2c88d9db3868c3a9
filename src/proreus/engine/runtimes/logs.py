"""Reading what containers wrote: log files in CRI's form, the full ones before the one that grows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from proreus.engine.objects.timestamps import parse_timestamp
from proreus.engine.runtimes.protocol import LogWanted, OutputStream

_POLL_SECONDS = 0.1
_MOST_LOOKS = 100
"""At files that are put aside meanwhile."""
_BLOCK = 1 << 16
_MOST_AT_ONCE = 1 << 20
_PARTIAL = b"P"


@dataclass
class _Budget:
    left: int | None

    def cut(self, data: bytes) -> bytes:
        if self.left is None:
            return data
        data = data[: self.left]
        self.left -= len(data)
        return data

    def spent(self) -> bool:
        return self.left is not None and self.left <= 0


async def read(path: Path, wanted: LogWanted, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Lines as asked for; with `follow` until `ended` and nothing is left to read."""
    budget = _Budget(wanted.limit_bytes)
    async with aclosing(_batches(_Cursor.at(path, wanted.tail), wanted.follow, ended)) as batches:
        async for lines in batches:
            for line in lines:
                shown = _shown(_Line.of(line), wanted)
                if shown is None:
                    continue
                yield budget.cut(shown)
                if budget.spent():
                    return


def attached(path: Path, ended: Callable[[], bool]) -> AsyncGenerator[tuple[OutputStream, bytes], None]:
    """What is written from this call on and where, until `ended`."""
    return _attached(_Cursor.at(path, 0), ended)


async def _attached(
    cursor: _Cursor, ended: Callable[[], bool]
) -> AsyncGenerator[tuple[OutputStream, bytes], None]:
    async with aclosing(_batches(cursor, True, ended)) as batches:
        async for lines in batches:
            for line in lines:
                known = _Line.of(line)
                yield OutputStream.STDERR if known.stream == b"stderr" else OutputStream.STDOUT, known.text


async def _batches(
    cursor: _Cursor, follow: bool, ended: Callable[[], bool]
) -> AsyncGenerator[list[bytes], None]:
    """Lines as they stand in the files, some at a time."""
    try:
        while True:
            over = ended()
            lines = await asyncio.to_thread(cursor.lines)
            yield lines
            if not follow and cursor.past_the_first_look():
                return
            if not lines and not cursor.turn():
                if over or not follow:
                    return
                await asyncio.sleep(_POLL_SECONDS)
    finally:
        cursor.close()


class _Cursor:
    """A place in the output. The file is held open: its number on the disk is nobody else's meanwhile."""

    def __init__(self, path: Path, fd: int | None, offset: int, last: os.stat_result | None) -> None:
        self._path, self._fd, self._offset, self._last = path, fd, offset, last

    @classmethod
    def at(cls, path: Path, tail: int | None) -> _Cursor:
        """Before the last so many lines that stand now, or before all."""
        for _ in range(_MOST_LOOKS):
            places = _standing(path)
            try:
                first, offset = _tail(places, tail) if tail is not None else (0, 0)
                last = places[-1].stat() if places else None
            except FileNotFoundError:
                continue  # put aside while it was looked at
            fd = _opened(places[first]) if places else None
            if fd is not None or not places:
                return cls(path, fd, offset, last)
        return cls(path, None, 0, None)

    def lines(self) -> list[bytes]:
        """Whole lines from here on, a bounded number."""
        if self._fd is None:
            return []
        data = os.pread(self._fd, _MOST_AT_ONCE, self._offset)
        end = data.rfind(b"\n") + 1
        self._offset += end
        return data[:end].splitlines(keepends=True)

    def past_the_first_look(self) -> bool:
        """Whether all was read that stood when this was made."""
        if self._fd is None or self._last is None:
            return True
        return os.fstat(self._fd).st_ino == self._last.st_ino and self._offset >= self._last.st_size

    def turn(self) -> bool:
        """On to the next file, if there is one and nothing more comes in this one."""
        places = _standing(self._path)
        if self._fd is None:
            self._fd = _opened(places[0]) if places else None
            return self._fd is not None
        own = os.fstat(self._fd)
        known = [file for file in ((place, _inode(place)) for place in places) if file[1]]
        if not known or known[-1][1] == own.st_ino:
            return False
        if os.fstat(self._fd).st_size > self._offset and self._ends_in_line(own.st_size):
            return True  # the last lines came before the file was put aside
        here = next((at for at, file in enumerate(known) if file[1] == own.st_ino), -1)
        following = _opened(known[here + 1][0])
        if following is None:
            return True  # put aside just now: look again
        os.close(self._fd)
        self._fd, self._offset = following, 0
        return True

    def _ends_in_line(self, size: int) -> bool:
        assert self._fd is not None
        return os.pread(self._fd, 1, size - 1) == b"\n"

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _standing(path: Path) -> list[Path]:
    """The files that there are, the oldest first."""
    older = [sibling for sibling in path.parent.glob(path.name + ".*") if sibling.suffix[1:].isdigit()]
    older.sort(key=lambda sibling: -int(sibling.suffix[1:]))
    return [*older, path] if path.exists() else older


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _tail(places: list[Path], count: int) -> tuple[int, int]:
    """The file and the place in it where the last so many lines begin."""
    left, carried_on = count, False
    for number in range(len(places) - 1, -1, -1):
        with places[number].open("rb") as file:
            position = file.seek(0, os.SEEK_END)
            if left <= 0:
                return number, position
            carried = b""
            while position > 0:
                step = min(_BLOCK, position)
                position -= step
                file.seek(position)
                block = file.read(step) + carried
                # The very last line counts even where it has no end.
                last = len(block) - 1 if number == len(places) - 1 and not carried_on else -1
                carried_on = True
                begins = _line_starts(block, position == 0)
                whole = [at for at in begins if _tag(block, at) != _PARTIAL or block.find(b"\n", at) == last]
                if len(whole) >= left:
                    return number, position + _with_parts(block, begins, whole[len(whole) - left])
                first = begins[0] if begins else len(block)
                left -= len(whole)
                carried = block[:first]
    return 0, 0


def _line_starts(block: bytes, at_start: bool) -> list[int]:
    starts = [0] if at_start and block else []
    at = block.find(b"\n")
    while at != -1 and at + 1 < len(block):
        starts.append(at + 1)
        at = block.find(b"\n", at + 1)
    return starts


def _with_parts(block: bytes, begins: list[int], at: int) -> int:
    """Back to the first of the parts of the line that ends at this one."""
    place = begins.index(at)
    while place > 0 and _tag(block, begins[place - 1]) == _PARTIAL:
        place -= 1
    return begins[place]


def _tag(block: bytes, at: int) -> bytes:
    end = block.find(b"\n", at)
    fields = block[at : end if end != -1 else len(block)].split(b" ", 3)
    return fields[2] if len(fields) > 2 else b""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file."""

    moment: bytes
    stream: bytes
    text: bytes
    """With its end, unless the rest of it is in the next one."""

    @classmethod
    def of(cls, line: bytes) -> _Line:
        moment, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        return cls(moment, stream, text.removesuffix(b"\n") if tag == _PARTIAL else text)


def _shown(line: _Line, wanted: LogWanted) -> bytes | None:
    """What a reader gets of a line; None: nothing."""
    if wanted.since is not None and _seconds(line.moment) < wanted.since:
        return None
    return line.moment + b" " + line.text if wanted.timestamps else line.text


def _seconds(moment: bytes) -> float:
    text = moment.decode(errors="replace")
    whole, _, fraction = text.removesuffix("Z").partition(".")
    try:
        return parse_timestamp(f"{whole}.{fraction[:6] or '0'}+00:00")
    except ValueError:  # not a line of ours: show it rather than lose it
        return float("inf")
