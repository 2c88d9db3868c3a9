"""A time limit on a computation that cannot be interrupted.

A compiled forward pass takes microseconds and must not pay for a thread. One that may be slow runs in a
thread of its own, and whoever asked stops waiting at the deadline; as long as that thread is busy, nobody
waits for it at all. Which of the two it is follows from how long it took lately.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")

_SHARE_INLINE = 0.25
"""Where it lately took less than this share of the time left, it runs at once, in the caller's thread."""
_WEIGHT = 0.2
"""Of the latest time in the moving average."""


class TooSlow(Exception):
    """The deadline passed, or would have."""


class Guard:
    """Runs a computation with a deadline; knows how long it usually takes."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._usual: float | None = None
        self._busy = False

    @property
    def usual_seconds(self) -> float | None:
        """The moving average of its time; None before the first run."""
        return self._usual

    def run(self, compute: Callable[[], Result], seconds_left: float) -> Result:
        """Its result; TooSlow where it does not come within `seconds_left`."""
        if seconds_left <= 0:
            raise TooSlow("no time was left")
        usual = self._usual
        if usual is not None and usual < _SHARE_INLINE * seconds_left:
            return self._timed(compute)
        if self._busy:
            raise TooSlow("an earlier decision is still being worked on")
        self._busy = True
        result: Future[Result] = Future()
        # A daemon: a computation that never ends must not keep the service from ending.
        threading.Thread(target=self._work, args=(compute, result), name="slow-model", daemon=True).start()
        try:
            return result.result(timeout=seconds_left)
        except TimeoutError:
            if result.done():
                raise  # the computation itself raised it
            raise TooSlow(f"no decision within {seconds_left * 1e3:.1f} ms") from None

    def _work(self, compute: Callable[[], Result], result: Future[Result]) -> None:
        try:
            result.set_result(self._timed(compute))
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            result.set_exception(error)
        finally:
            self._busy = False

    def _timed(self, compute: Callable[[], Result]) -> Result:
        begin = self._clock()
        try:
            return compute()
        finally:
            took = self._clock() - begin
            usual = self._usual
            self._usual = took if usual is None else usual + _WEIGHT * (took - usual)
