"""An event loop whose time is played, not waited for: where nothing is ready, the next timer is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
BEGIN = 1_800_000_000.0


class _NoWaiting(selectors.DefaultSelector):
    """Polls; the time that would have been waited is what the clock is put on by."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now."""
        ready = super().select(0)
        if not ready and timeout is not None and timeout > 0:
            self.passed += timeout
        elif not ready and timeout is None:
            raise RuntimeError("nothing is left that could ever happen")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._clock = _NoWaiting()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds played."""
        return self._clock.passed

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """At once: virtual time would run away from a thread."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is whoever awaits that deals with it
            done.set_exception(error)
        return done

    def wall(self) -> float:
        """The same as a date."""
        return BEGIN + self._clock.passed


def play(main: Coroutine[Any, Any, T]) -> T:
    """Run it in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def loop_now() -> VirtualLoop:
    """The loop that plays."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
