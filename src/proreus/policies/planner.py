"""What planners of all worlds share: how much they may think, when to stop, how they tell of futures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from proreus.model.errors import UsageError

_MOST_FUTURES = 10_000


@dataclass(frozen=True)
class Effort:
    """How much a planner may think."""

    futures: int = 16
    """That it rests on."""
    deadline: float = 0.0
    """Milliseconds a decision may take; 0: as long as its futures need."""

    def __post_init__(self) -> None:
        if not 1 <= self.futures <= _MOST_FUTURES:
            raise UsageError(f"--futures {self.futures} is outside 1..{_MOST_FUTURES:,}")
        if not 0 <= self.deadline < math.inf:
            raise UsageError(f"--deadline {self.deadline} is not a number of milliseconds from 0 on")

    def steps(self, clock: Callable[[], float], since: float) -> Iterator[None]:
        """One turn for every step of thinking, as long as a step like the slowest so far would end in time.

        The decision began at `since`; the first step is taken if the deadline is not over already.
        """
        slowest = 0.0
        while True:
            begin = clock()
            if self.deadline > 0 and begin - since + slowest > self.deadline / 1e3:
                return
            yield
            slowest = max(slowest, clock() - begin)


def lead(next_best: str, better: int, decisive: int) -> str:
    """How many futures put a choice ahead of the next best, of those that tell the two apart."""
    if decisive == 0:
        return f"No future tells it from the next best, {next_best}."
    return f"Ahead of the next best, {next_best}, in {better} of the {decisive} futures that tell them apart."
