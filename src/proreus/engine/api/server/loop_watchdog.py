"""How long the event loop is held: for as long nobody is answered, whoever holds it."""

from __future__ import annotations

import asyncio
import time

EVERY_SECONDS = 0.02
"""Between two looks: fifty a second cost next to nothing, and what is shorter bothers nobody."""


class Watchdog:
    """Looks all the time whether it is let to, and how much was worked meanwhile."""

    def __init__(self, every_seconds: float = EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self.longest = 0.0
        """Seconds for which it was not, since it began."""
        self.own = 0.0
        """The most seconds that the loop's thread itself worked between two looks."""
        self.process = 0.0
        """The most that all threads of the process worked between two: however loaded the machine is, this
        much is ours."""
        self._recent = self._recent_own = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            before, own, process = time.perf_counter(), time.thread_time(), time.process_time()
            await asyncio.sleep(self._every_seconds)
            held = time.perf_counter() - before - self._every_seconds
            self._recent = max(self._recent, held)
            self.longest = max(self.longest, held)
            worked = time.thread_time() - own
            self._recent_own = max(self._recent_own, worked)
            self.own = max(self.own, worked)
            self.process = max(self.process, time.process_time() - process)

    def take(self) -> float:
        """The longest since this was last asked."""
        recent, self._recent = self._recent, 0.0
        return recent

    def take_own(self) -> float:
        """The most that the loop's thread itself worked in one go, since this was last asked."""
        recent, self._recent_own = self._recent_own, 0.0
        return recent
