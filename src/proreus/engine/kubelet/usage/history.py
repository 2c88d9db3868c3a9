"""What was used of late, in rings of fixed size: the newest number takes the place of the oldest."""

from __future__ import annotations

import math
from array import array

from proreus.engine.runtimes.stats import Trend

FINE, COARSE = 90, 1440
"""Numbers kept: every 10 s for a quarter of an hour, every minute for a day."""
MINUTE = 60.0
_A_MINUTE = 6
"""Numbers of a minute, of those that come every 10 s."""
_MOST = 2**32 - 1
_KIB = 1024


class Ring:
    """The last so many whole numbers below 2**32, with their mean and deviation at hand."""

    __slots__ = ("_most", "_next", "_squares", "_sum", "_values")

    def __init__(self, most: int) -> None:
        self._most, self._next = most, 0
        self._values = array("I")
        self._sum = self._squares = 0

    def append(self, value: int) -> None:
        """The newest."""
        value = min(max(value, 0), _MOST)
        if len(self._values) < self._most:
            self._values.append(value)
        else:
            old = self._values[self._next]
            self._sum -= old
            self._squares -= old * old
            self._values[self._next] = value
            self._next = (self._next + 1) % self._most
        self._sum += value
        self._squares += value * value

    def values(self) -> tuple[int, ...]:
        """The oldest first."""
        return (*self._values[self._next :], *self._values[: self._next])

    def last(self, count: int, step: int) -> tuple[int, ...]:
        """The newest and every so-manieth before it, so many at most, the oldest first."""
        values, newest = self._values, self._next - 1
        back = range(0, min(count * step, len(values)), step)
        return tuple(values[newest - steps] for steps in reversed(back))

    def deviation(self) -> float:
        """The standard deviation of what is there."""
        count = len(self._values)
        if count < 2:
            return 0.0
        return math.sqrt(max(0.0, self._squares / count - (self._sum / count) ** 2))


class UsageSeries:
    """CPU and memory of one node or pod: the last quarter of an hour, and (day) a day by the minute."""

    __slots__ = ("_count", "_cpu", "_day", "_memory", "_minute", "_sums")

    def __init__(self, *, day: bool) -> None:
        self._cpu, self._memory = Ring(FINE), Ring(FINE)
        self._day = (Ring(COARSE), Ring(COARSE)) if day else None
        self._minute, self._count, self._sums = -1, 0, (0, 0)

    @property
    def has_day(self) -> bool:
        """Whether it remembers a day."""
        return self._day is not None

    def append(self, cpu: int, memory: int, steady: float) -> None:
        """What is used now: thousandths of a core, bytes."""
        self._cpu.append(cpu)
        self._memory.append(memory // _KIB)
        if self._day is None:
            return
        minute = int(steady // MINUTE)
        if minute != self._minute and self._count:
            self._day[0].append(round(self._sums[0] / self._count))
            self._day[1].append(round(self._sums[1] / self._count))
            self._count, self._sums = 0, (0, 0)
        self._minute = minute
        self._count += 1
        self._sums = (self._sums[0] + cpu, self._sums[1] + memory // _KIB)

    def trend(self, *, day: bool) -> Trend:
        """The numbers of the last quarter of an hour, or of the day."""
        rings = self._day if day else (self._cpu, self._memory)
        if rings is None:
            return Trend()
        return Trend(rings[0].values(), tuple(kibibytes * _KIB for kibibytes in rings[1].values()))

    def minutes(self) -> Trend:
        """The last quarter of an hour, one number a minute."""
        memory = self._memory.last(FINE // _A_MINUTE, _A_MINUTE)
        return Trend(
            self._cpu.last(FINE // _A_MINUTE, _A_MINUTE), tuple(kibibytes * _KIB for kibibytes in memory)
        )

    def deviation(self) -> float:
        """How much the CPU varied over the last quarter of an hour."""
        return self._cpu.deviation()
