"""What a durable log promises, whether it is kept in files (`files`) or in a store of the engine.

- `append` returns when its part is durable: it survives kill -9. A part is one or more records, whole or not
  at all, and an error says that nothing was promised.
- Records have numbers that only grow. A number that was handed out never means another record.
- Any number of readers follow from any number on, while others write. A reader keeps its own place. One that
  was overtaken by a prune goes on with what is left.
- What is damaged costs the records in it. It is counted and said, and what follows is read.
- A log with a limit drops what nobody needs any more, the oldest first. It never drops what is still needed:
  it refuses instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from proreus.model.errors import UsageError, WorkError


@dataclass(frozen=True, slots=True)
class Part:
    """What one append wrote."""

    number: int
    """Of its first record."""
    records: int
    payload: bytes
    older: bool = False
    """It was written when payloads had another form; whoever reads it knows which."""

    @property
    def end(self) -> int:
        """One more than the number of its last record."""
        return self.number + self.records


@dataclass(frozen=True)
class LogLimits:
    """How large a log gets."""

    segment_bytes: int = 64 << 20
    """In files: from which size on the next part goes into a new file."""
    keep_bytes: int = 0
    """Of all, at most; 0: any number."""


class LogInUse(UsageError):
    """Another process writes this log, and only one can."""


class LogFull(WorkError):
    """The log has reached its limit, and all that it holds is still needed."""


class PartTooLarge(WorkError):
    """No append of this size can ever be kept here."""


class LogReader(Protocol):
    """Follows a log while it grows."""

    @property
    def damaged(self) -> int:
        """Stretches so far that are no part."""
        ...

    @property
    def lost(self) -> int:
        """Records that were in them, as far as that can be known."""
        ...

    def poll(self) -> Iterator[Part]:
        """The parts that have come since the last one that was handed out. It may be left at any part.

        A WorkError says that it cannot be read now: `poll` again.
        """
        ...

    def close(self) -> None:
        """Let go of what it is read through."""
        ...


class DurableLog(Protocol):
    """The writing end; any thread may append."""

    @property
    def name(self) -> str:
        """Of this log, among those of its place."""
        ...

    @property
    def next_number(self) -> int:
        """The number that the next record will get, unless another process comes first."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be appended now; "" where it could last time, or can again."""
        ...

    def append(self, payload: bytes, records: int = 1) -> int:
        """Keep a part; the number of its first record once it is durable. A WorkError: it is not kept."""
        ...

    def close(self) -> None:
        """Finish what is under way and let go."""
        ...


Released = Callable[[str], int]
"""By the name of a log: the number below which nobody needs its records any more."""


class LogPlace(Protocol):
    """Where logs are kept. It can be sent to another process, which finds the same logs there."""

    def names(self) -> list[str]:
        """Of the logs that are there."""
        ...

    def open(self, limits: LogLimits, released: Released) -> DurableLog:
        """One to write to."""
        ...

    def reader(self, name: str, since: int = 0) -> LogReader:
        """Reads one of them, from that number on."""
        ...
