"""How often: permits that are used up and come back with time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

MOST_CLIENTS = 10_000
"""So many are remembered; then those that have been away longest are forgotten."""


class Buckets:
    """For each client a number of permits, which come back with time."""

    def __init__(self, most: float, per_second: float, clock: Callable[[], float]) -> None:
        self._most, self._per_second, self._clock = most, per_second, clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> bool:
        """Use up one permit; False where there is none."""
        return self._use(client, 1.0)

    def has(self, client: str) -> bool:
        """Whether there is one."""
        return client not in self._left or self._use(client, 0.0)

    def _use(self, client: str, amount: float) -> bool:
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(client, (self._most, now))
            left = min(self._most, left + (now - since) * self._per_second)
            enough = left >= 1.0
            self._left[client] = (left - amount if enough else left, now)
            if len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
        return enough
