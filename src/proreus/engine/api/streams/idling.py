"""How long streams may be quiet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PING_SECONDS = 30.0
"""Between signs of life of ours: a client that is no more does not answer them, and its connection breaks."""


class Activity:
    """When something last moved, in either direction."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock = asyncio.get_running_loop().time
        self._last = self._clock()

    def note(self) -> None:
        """Something moves."""
        self._last = self._clock()

    async def ended(self) -> None:
        """When nothing has moved for too long."""
        while (left := self._last + self._seconds - self._clock()) > 0:
            await asyncio.sleep(left)


async def keep_alive(ping: Callable[[], Awaitable[None]]) -> None:
    """Again and again, until it cannot be sent."""
    while True:
        await asyncio.sleep(PING_SECONDS)
        try:
            await ping()
        except ConnectionError:
            return
