"""Logs that say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from proreus.engine.runtimes.protocol import LogWanted


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
