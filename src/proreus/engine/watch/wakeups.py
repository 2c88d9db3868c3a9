"""How many go on in one round of the event loop: where one change wakes a thousand watchers, whoever else
asks has a turn in between."""

from __future__ import annotations

import asyncio
from collections import deque


class WakeupRounds:
    """So many in a round; the others in the next ones, in their order."""

    def __init__(self, at_once: int) -> None:
        self._at_once = self._left = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._counting = False

    async def turn(self) -> None:
        """Until it is one's turn."""
        loop = asyncio.get_running_loop()
        if not self._counting:
            self._counting = True
            loop.call_soon(self._next, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left, self._counting = self._at_once, False
        while self._waiting and self._left:
            first = self._waiting.popleft()
            if not first.done():  # else its watcher has gone
                first.set_result(None)
                self._left -= 1
        if self._left < self._at_once:
            self._counting = True
            loop.call_soon(self._next, loop)
