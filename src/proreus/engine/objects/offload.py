"""Work on large objects, done beside the event loop: reading, patching and checking them is plain Python, and
nobody is answered while the loop does it.

There is one pool for the process, since what is shared out is its interpreter: two threads, of which large
work holds one, and clients take turns (see `httpserver.work_queue`). The loop gives the interpreter up
whenever it reads, writes or waits, and has it back after Python's switch interval while a thread works:
5 ms each time unless told otherwise, so a request of ten such steps would take 50. Small work is done
at once: handing it over would take longer.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import TypeVar
from weakref import WeakKeyDictionary

from proreus.engine.objects.errors import TooManyRequests
from proreus.httpserver.work_queue import Shares, WorkQueue

SMALL_BYTES = 16 * 1024
"""Work on so much takes less than 20 ms, whatever it is."""
_LARGE_BYTES = 128 * 1024
_SHARES = Shares(threads=2, large=1, waiting=256, waiting_large=8)
_SHARE_SECONDS = 0.005
"""Of a round of the loop, for all work that can pause."""
_LEAST_SECONDS = 0.0005
"""Of it for each task."""
_SWITCH_SECONDS = 0.0005
"""After which a thread of the pool lets the loop go on."""
Result = TypeVar("Result")

on_behalf: ContextVar[str] = ContextVar("on_behalf", default="")
"""The client whose turn the work is; "" the engine itself, which is never told to come again for its size."""


async def offload(size: int, work: Callable[[], Result]) -> Result:
    """The work's result; `size`: bytes of all that it walks over. `TooManyRequests` where too much waits."""
    if size <= SMALL_BYTES:
        return work()
    client = on_behalf.get()
    return await asyncio.wrap_future(_pool().submit(client, bool(client) and size > _LARGE_BYTES, work))


@cache
def _pool() -> WorkQueue:
    sys.setswitchinterval(_SWITCH_SECONDS)
    return WorkQueue(
        lambda says: TooManyRequests(f"too much work on large objects: {says}"), _SHARES, "offload"
    )


class _Round:
    """One turn of a loop through all that is ready."""

    __slots__ = ("_least_until", "_task", "_until")

    def __init__(self) -> None:
        self._until = self._least_until = 0.0
        self._task = 0

    def enter(self, task: int, *, anew: bool) -> None:
        """This task works now; anew: others have had their turn since it last did."""
        if anew or task != self._task:
            self._task, self._least_until = task, time.perf_counter() + _LEAST_SECONDS

    def spent(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether all work that can pause has had its time in this round, and this task its least."""
        now = time.perf_counter()
        if not self._until:
            self._until = now + _SHARE_SECONDS
            loop.call_soon(self._end)
        return now > self._until and now > self._least_until

    def _end(self) -> None:
        self._until = 0.0


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Round] = WeakKeyDictionary()


class LoopPauses:
    """For work in the loop that is long only because it is about many: others have their turn in between.

    All such work together has a few milliseconds of each round of the loop, and each task at least a part of
    one, or the first would keep the others at a step a round. Were the time of each piece its own, a long row
    of short pieces would never pause, and many at once would take a multiple of it.
    """

    __slots__ = ("_loop", "_round", "_task")

    def __init__(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), id(asyncio.current_task())
        self._round = _rounds.setdefault(self._loop, _Round())
        self._round.enter(self._task, anew=False)

    @property
    def due(self) -> bool:
        """Whether it is the others' turn."""
        return self._round.spent(self._loop)

    async def take(self) -> None:
        """Let them."""
        await asyncio.sleep(0)
        self._round.enter(self._task, anew=True)
