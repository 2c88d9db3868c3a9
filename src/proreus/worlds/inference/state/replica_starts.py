"""Replicas that were asked for and do not serve yet, and how long that takes, learned from what is seen."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

_REMEMBERED = 16
_GIVEN_UP = 3.0
"""After so many times the usual start a replica is not expected any more: there may be no room for it."""
_LEAST_PATIENCE = 60.0
"""Seconds before which none is given up, however fast starts are said to be."""


@dataclass(frozen=True)
class _Order:
    at: float
    asked_for: bool
    """By scaling up; else a replica that serves no longer, whose return says little of new ones."""


class ReplicaStarts:
    """Of one pool."""

    def __init__(self, usual_seconds: float) -> None:
        self._usual = usual_seconds
        self._took: deque[float] = deque(maxlen=_REMEMBERED)
        self._orders: deque[_Order] = deque()
        self._serving: int | None = None
        self._wanted = 0

    @property
    def seconds(self) -> float:
        """From asking for a replica to its first request: the median of what was seen, else as told."""
        return median(self._took) if self._took else self._usual

    @property
    def seen(self) -> tuple[float, ...]:
        """The starts that were seen, the oldest first."""
        return tuple(self._took)

    def remember(self, seconds: tuple[float, ...]) -> None:
        """Starts that were seen by somebody before."""
        self._took.extend(seconds)

    def ordered(self, now: float, wanted: int) -> None:
        """So many are to serve."""
        # What was asked for before anybody looked may have been starting for a while.
        more = wanted > self._wanted and self._serving is not None
        self._wanted = wanted
        self._reconcile(now, asked_for=more)

    def looked(self, now: float, serving: int) -> None:
        """So many do; those that came are the ones that were asked for first."""
        came = 0 if self._serving is None else max(serving - self._serving, 0)
        for _ in range(min(came, len(self._orders))):
            order = self._orders.popleft()
            if order.asked_for:
                self._took.append(now - order.at)
        self._serving = serving
        self._reconcile(now, asked_for=False)

    def _reconcile(self, now: float, *, asked_for: bool) -> None:
        missing = max(self._wanted - (self._serving or 0), 0)
        while len(self._orders) > missing:  # Kubernetes removes first what is not ready
            self._orders.pop()
        while len(self._orders) < missing:
            self._orders.append(_Order(now, asked_for))

    def still_need(self, now: float) -> tuple[float, ...]:
        """Seconds of each that is expected, the soonest first; those that are overdue may come any moment."""
        usual = self.seconds
        ages = [now - order.at for order in self._orders]
        given_up = max(_GIVEN_UP * usual, _LEAST_PATIENCE)
        return tuple(sorted(max(usual - age, 0.0) for age in ages if age <= given_up))
