"""How often a client asks: so many a second, and some at once, as client-go counts it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class RateLimit:
    """Permits that come back with time; whoever finds none waits in line."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError("a rate is above zero, and a burst at least one")
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._left, self._since = float(burst), clock()

    async def take(self) -> None:
        """Until it is one's turn."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._since) * self._per_second)
        self._since = now
        self._left -= 1.0
        if self._left < 0:
            await asyncio.sleep(-self._left / self._per_second)
