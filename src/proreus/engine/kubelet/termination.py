"""How one attempt at a container is brought to its end, within a time that may be cut short meanwhile."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

EXTENSION = 2.0
"""Seconds to end in that a container has at least when its hook is through, as a kubelet gives it."""


class Termination:
    """First its `preStop` hook, then, when its turn has come, it is asked to end, and killed after the grace.

    stop: asks the container, and has it killed after so many seconds; with fewer, sooner.
    farewell: the hook, which tells itself what goes wrong with it.
    """

    def __init__(
        self,
        stop: Callable[[float], Awaitable[None]],
        farewell: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._stop, self._farewell = stop, farewell
        self._by = math.inf
        self._at_once = False
        self._turn, self._sooner = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def order(self, by: float) -> None:
        """It is to have ended at this moment of the steady clock; ordered again, the earlier one counts."""
        if by >= self._by:
            return
        self._by, self._at_once = by, by <= time.monotonic()
        self._sooner.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._end())

    def take_turn(self) -> None:
        """Whoever had to end before it has."""
        self._turn.set()

    def close(self) -> None:
        """It has ended, or nobody waits for that any more."""
        if self._task is not None:
            self._task.cancel()

    async def _end(self) -> None:
        if self._farewell is not None and self._left() > 0:
            await self._within(self._farewell())
            if not self._at_once:
                self._by = max(self._by, time.monotonic() + EXTENSION)
        await self._within(_happened(self._turn))
        while True:
            self._sooner.clear()
            await self._stop(self._left())
            await self._sooner.wait()

    async def _within(self, work: Coroutine[Any, Any, None]) -> None:
        """Until it is done or the time is over, which may come to be earlier."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done() and (left := self._left()) > 0:
                self._sooner.clear()
                sooner = asyncio.ensure_future(_happened(self._sooner))
                try:
                    await asyncio.wait({task, sooner}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    sooner.cancel()
        finally:
            task.cancel()
        await asyncio.wait({task})

    def _left(self) -> float:
        return max(0.0, self._by - time.monotonic())


async def _happened(event: asyncio.Event) -> None:
    await event.wait()
