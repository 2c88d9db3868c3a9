"""Searches for garbage that refers to itself, kept short: nobody is answered while Python looks for it.

Python looks at all objects each time their number has grown by a quarter: with ten thousand pods that takes
most of a second, and finds next to nothing. So whatever a full search has found to be in use is set aside,
and the next one looks at what came to be since then only. What was set aside still goes when nobody refers to
it any more; only where it refers to itself it stays, until all is looked at again: after many short searches,
seldom, and rather when little happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

_FULL = 2
"""The generation whose search looks at everything that was not set aside."""
_YOUNG, _YOUNG_SEARCHES, _MIDDLE_SEARCHES = 10_000, 0, 0
"""A search follows more than so many new objects, one of the middle generation more than so many short
ones, and a full one more than so many of those, in place of Python's 700, 10 and 10: a pod takes some
hundred objects, and most of what a search after 700 found in use was garbage by the next. A full search has
about as much to look at as before, and nothing is looked at more often."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GcOptions:
    """When everything is looked at again."""

    short: int = 300
    """After so many short searches: each sets some ten thousand objects aside."""
    seconds: float = 600.0
    """But not more often than this."""
    busy_seconds: float = 3600.0
    """Nor than this, while there is no quiet moment between two looks."""
    look_seconds: float = 10.0
    """Between two looks at whether it is time."""


@dataclass
class GcTuning:
    """See the module; of the whole process, so there is one at a time."""

    options: GcOptions = GcOptions()
    clock: Callable[[], float] = time.monotonic
    short: int = 0
    """Searches since everything was looked at."""
    whole: int = 0
    """How often everything was looked at."""
    _looked: float = 0.0
    _short_before: int = 0
    """As of the last look at whether it is time."""

    @contextlib.contextmanager
    def kept_short(self) -> Iterator[None]:
        """Within: set aside what every full search leaves."""
        young, middle, full = gc.get_threshold()
        gc.set_threshold(_YOUNG, _YOUNG_SEARCHES, _MIDDLE_SEARCHES)
        gc.callbacks.append(self._searched)
        try:
            self._look_at_all()
            yield
        finally:
            gc.callbacks.remove(self._searched)
            gc.set_threshold(young, middle, full)
            gc.unfreeze()

    async def run(self) -> None:
        """Look at everything when it is time, until cancelled."""
        while True:
            await asyncio.sleep(self.options.look_seconds)
            self.look_again()

    def look_again(self) -> None:
        """Look at everything, if it is time."""
        busy, self._short_before = self.short != self._short_before, self.short
        least = self.options.busy_seconds if busy else self.options.seconds
        began = self.clock()
        if self.short < self.options.short or began - self._looked < least:
            return
        gc.unfreeze()
        garbage = self._look_at_all()
        self.whole += 1
        _log.debug("looked for garbage for %.2f s: %d objects", self.clock() - began, garbage)

    def _look_at_all(self) -> int:
        garbage = gc.collect()
        # Python waits for a quarter more than the last full search left: this one leaves next to nothing.
        gc.collect()
        self.short, self._looked = 0, self.clock()
        return garbage

    def _searched(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == _FULL:
            gc.freeze()
            self.short += 1
