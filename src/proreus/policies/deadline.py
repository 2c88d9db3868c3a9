"""A time limit on a computation that cannot be interrupted.

A compiled forward pass takes microseconds and must not pay for a thread. One that may be slow runs in a
thread of its own, and whoever asked stops waiting at the deadline; as long as too many such threads are busy,
nobody waits at all. Which of the two it is follows from how long it took lately: one quick run speaks for
it, since on a busy machine any run may be held up; a run past its deadline speaks against it.
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
"""Of a longer time than usual in the moving average; a shorter one counts at once."""
_MOST_AT_ONCE = 4
"""Threads that may be busy with it."""


class TooSlow(Exception):
    """The deadline passed, or would have."""


class Guard:
    """Runs a computation with a deadline; knows how long it usually takes."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, *, inline: bool = True) -> None:
        """inline: whether one that was quick so far runs at once; it then can miss one deadline by far."""
        self._clock, self._inline = clock, inline
        self._usual: float | None = None
        self._busy = threading.BoundedSemaphore(_MOST_AT_ONCE)

    def learn_pace(self, compute: Callable[[], object]) -> None:
        """Run it without a deadline, to know how long it takes."""
        self._timed(compute, float("inf"))

    def run(self, compute: Callable[[], Result], seconds_left: float) -> Result:
        """Its result; TooSlow where it does not come within `seconds_left`."""
        if seconds_left <= 0:
            raise TooSlow("no time was left")
        usual = self._usual
        if self._inline and usual is not None and usual < _SHARE_INLINE * seconds_left:
            return self._timed(compute, seconds_left)
        if not self._busy.acquire(blocking=False):
            raise TooSlow("earlier decisions are still being worked on")
        result: Future[Result] = Future()
        # A daemon: a computation that never ends must not keep the service from ending.
        work = (compute, result, seconds_left)
        threading.Thread(target=self._work, args=work, name="slow-model", daemon=True).start()
        try:
            return result.result(timeout=seconds_left)
        except TimeoutError:
            if result.done():
                raise  # the computation itself raised it
            raise TooSlow(f"no decision within {seconds_left * 1e3:.1f} ms") from None

    def _work(self, compute: Callable[[], Result], result: Future[Result], seconds_left: float) -> None:
        try:
            result.set_result(self._timed(compute, seconds_left))
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            result.set_exception(error)
        finally:
            self._busy.release()

    def _timed(self, compute: Callable[[], Result], seconds_left: float) -> Result:
        begin = self._clock()
        try:
            return compute()
        finally:
            took = self._clock() - begin
            usual = self._usual
            if usual is None or took < usual or took > seconds_left:
                self._usual = took
            else:
                self._usual = usual + _WEIGHT * (took - usual)
