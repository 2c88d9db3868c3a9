"""Whether an event loop goes on, and logs that say nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from proreus.engine.runtimes.protocol import LogWanted

_EVERY_SECONDS = 0.005


class Watchdog:
    """Looks every few milliseconds whether it is let to, and who had the processor when it was not."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds for which it was not."""
        self.own = 0.0
        """Seconds of those that the loop's thread itself worked."""
        self.process = 0.0
        """Seconds of those that all threads of the process worked; the rest is the machine's load."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            before, own, process = time.perf_counter(), time.thread_time(), time.process_time()
            await asyncio.sleep(_EVERY_SECONDS)
            held = time.perf_counter() - before - _EVERY_SECONDS
            if held > self.longest:
                self.longest = held
                self.own, self.process = time.thread_time() - own, time.process_time() - process


class QuietLogs:
    """Of pods that run and say nothing."""

    def __init__(self) -> None:
        self.reading = 0

    async def logs(self, uid: str, wanted: LogWanted) -> AsyncIterator[bytes]:
        """Nothing, for as long as it is followed."""
        self.reading += 1
        try:
            if wanted.follow:
                await asyncio.Event().wait()
            for line in tuple[bytes, ...]():
                yield line
        finally:
            self.reading -= 1
