"""Time as something that is handed in, so that an hour of pods is played in a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Cancellable(Protocol):
    """Something that is to happen, until it is called off."""

    def cancel(self) -> None:
        """It shall not happen."""
        ...


class Timers(Protocol):
    """A wall clock for what is written down, a steady one for what is waited for."""

    def wall(self) -> float:
        """Seconds since 1970; may jump."""
        ...

    def steady(self) -> float:
        """Seconds since some moment; never jumps."""
        ...

    def call_at(self, when: float, act: Callable[..., None], *given: Any) -> Cancellable:
        """Call it when the steady clock shows `when`; what is due already comes soon, never at once."""
        ...


class LoopTimers:
    """The running event loop's time, and the machine's wall clock unless another is given."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._loop = asyncio.get_running_loop()
        self._wall = wall

    def wall(self) -> float:
        """Seconds since 1970."""
        return self._wall()

    def steady(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def call_at(self, when: float, act: Callable[..., None], *given: Any) -> Cancellable:
        """As `asyncio.loop.call_at`."""
        return self._loop.call_at(when, act, *given)


# Now, as both clocks show it.


class Moment(NamedTuple):
    """What is written down is of the wall clock; what is waited for is of the steady one: it cannot jump."""

    wall: float
    steady: float
