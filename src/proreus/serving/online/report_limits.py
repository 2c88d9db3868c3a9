"""That no report and no reporter says more than its part, however large its numbers or its heap.

Rewards mean what they usually mean: a report whose rewards lie far outside of what reports have is cut back
to that range. The range is made of medians over reports, so one report cannot widen it, and reports without
any difference in their rewards do not narrow it. And of what waits to be learned from, one reporter has as
much as all others together, or one batch where they have less.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.experience import Experience

MOST_REWARD = 1e9
"""The largest reward, in either direction, that can be meant."""
_REMEMBERED = 512  # reports
_REACHES = 10.0
"""How far from the middle a reward may be, in distances that reports usually reach."""


@dataclass(frozen=True)
class RewardRange:
    """Between what rewards are taken as they are."""

    low: float = -MOST_REWARD
    high: float = MOST_REWARD

    def clipped(self, stretch: Experience) -> Experience:
        """The stretch with its rewards in the range."""
        rewards = stretch.rewards
        if not len(rewards) or (rewards.min() >= self.low and rewards.max() <= self.high):
            return stretch
        return replace(stretch, rewards=np.clip(rewards, self.low, self.high))


class UsualRewards:
    """What the latest reports had for rewards."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, float, float]] = deque(maxlen=_REMEMBERED)
        self._last: object = None

    def add(self, report: object, rewards: F64) -> None:
        """A record of a report; a report of many records, which come one after the other, counts once."""
        if not len(rewards):
            return
        rewards = np.clip(rewards, -MOST_REWARD, MOST_REWARD)
        middle, low, high = float(np.median(rewards)), float(rewards.min()), float(rewards.max())
        if report == self._last:
            middle, lowest, highest = self._reports.pop()
            low, high = min(low, lowest), max(high, highest)
        self._reports.append((middle, low, high))
        self._last = report

    def range(self) -> RewardRange:
        """Around the middle of the reports, as far as most of them reach and a good deal more."""
        if not self._reports:
            return RewardRange()
        middles, lows, highs = np.array(self._reports).T
        middle = float(np.median(middles))
        reach = np.maximum(highs - middle, middle - lows)
        reach = reach[reach > 0.0]
        if not len(reach):
            return RewardRange()
        most = _REACHES * float(np.median(reach))
        return RewardRange(middle - most, middle + most)


class Origin(NamedTuple):
    """Where a stretch of decisions comes from."""

    log: str
    """Its name."""
    report: int
    number: int
    """Of its record."""

    @property
    def of_report(self) -> tuple[str, int]:
        """What tells reports apart."""
        return self.log, self.report


Stretch = tuple[Origin, Experience]


class Pile:
    """Stretches in the order in which they came, at most so many decisions and bytes of states.

    Where there are more, the oldest of whoever has most is let go.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._by_reporter: dict[int, deque[tuple[int, Stretch]]] = {}
        self._held: Counter[int] = Counter()  # decisions, by reporter
        self._of_report: Counter[tuple[str, int]] = Counter()
        self._added = self._bytes = self.decisions = 0

    def add(self, origin: Origin, stretch: Experience) -> None:
        """On top."""
        shelf = self._by_reporter.setdefault(stretch.reporter, deque())
        shelf.append((self._added, (origin, stretch)))
        self._added += 1
        self._count(origin, stretch, 1)
        while self.decisions > len(stretch) and (
            self.decisions > self._most or self._bytes > self._most_bytes
        ):
            self._let_go()

    def _let_go(self) -> None:
        reporter = max(self._held, key=self._held.__getitem__)
        _, (origin, stretch) = self._by_reporter[reporter].popleft()
        self._count(origin, stretch, -1)
        if not self._by_reporter[reporter]:
            del self._by_reporter[reporter], self._held[reporter]

    def _count(self, origin: Origin, stretch: Experience, sign: int) -> None:
        self.decisions += sign * len(stretch)
        self._bytes += sign * stretch.states.nbytes
        self._held[stretch.reporter] += sign * len(stretch)
        self._of_report[origin.of_report] += sign * len(stretch)
        if not self._of_report[origin.of_report]:
            del self._of_report[origin.of_report]

    def of_report(self, origin: Origin) -> int:
        """Decisions of that stretch's report."""
        return self._of_report[origin.of_report]

    def first(self, log: str) -> int | None:
        """The smallest number of a record of that log."""
        return min((origin.number for origin, _ in self if origin.log == log), default=None)

    def __iter__(self) -> Iterator[Stretch]:
        shelves = self._by_reporter.values()
        return (stretch for _, stretch in heapq.merge(*shelves, key=itemgetter(0)))


def fair(stretches: Iterable[Stretch], least: int) -> list[Stretch]:
    """Those that stay when each reporter has as many decisions as all others together, or `least`.

    The newest of a reporter stay.
    """
    there = list(stretches)
    held: Counter[int] = Counter()
    for _, stretch in there:
        held[stretch.reporter] += len(stretch)
    total = sum(held.values())
    allowed = {reporter: max(least, total - count) for reporter, count in held.items()}
    kept: list[Stretch] = []
    taken: Counter[int] = Counter()
    for origin, stretch in reversed(there):
        if len(held) == 1 or taken[stretch.reporter] < allowed[stretch.reporter]:
            taken[stretch.reporter] += len(stretch)
            kept.append((origin, stretch))
    kept.reverse()
    return kept
