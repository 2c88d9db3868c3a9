"""Timers that a test puts on by hand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

BEGIN = 1_800_000_000.0


class _Alarm:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """It shall not happen."""
        self.cancelled = True


class HandTimers:
    """See `Timers`."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, _Alarm, Callable[..., None], tuple[Any, ...]]] = []

    def wall(self) -> float:
        """Seconds since 1970."""
        return BEGIN + self.now

    def steady(self) -> float:
        """Seconds played."""
        return self.now

    def call_at(self, when: float, act: Callable[..., None], *given: Any) -> _Alarm:
        """Call it then."""
        alarm = _Alarm()
        heapq.heappush(self._due, (max(when, self.now), next(self._order), alarm, act, given))
        return alarm

    def play(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, alarm, act, given = heapq.heappop(self._due)
            if not alarm.cancelled:
                act(*given)
        self.now = end
