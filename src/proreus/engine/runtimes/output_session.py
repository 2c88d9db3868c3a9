"""A session whose output somebody else makes: lines of a log, or of nothing at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

from proreus.engine.runtimes.protocol import OutputStream, TerminalSize
from proreus.engine.wire.duplex import BoundedPipe


class PrintedSession:
    """A `Session` that takes no input and ends, with this exit code, when there is no more output."""

    def __init__(self, printed: AsyncGenerator[tuple[OutputStream, bytes], None], exit_code: int = 0) -> None:
        self._exit_code = exit_code
        self._pipes = {output: BoundedPipe() for output in OutputStream}
        self._copying = asyncio.ensure_future(self._copy(printed))

    async def read(self, output: OutputStream) -> bytes:
        return await self._pipes[output].read()

    async def write(self, data: bytes) -> None:
        """Nobody wants it."""

    async def end_input(self) -> None:
        """There is none."""

    async def resize(self, size: TerminalSize) -> None:
        """There is no terminal."""

    async def wait(self) -> int:
        await asyncio.shield(self._copying)
        return self._exit_code

    async def close(self) -> None:
        self._copying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._copying

    async def _copy(self, printed: AsyncGenerator[tuple[OutputStream, bytes], None]) -> None:
        try:
            async with aclosing(printed) as pieces:
                async for output, text in pieces:
                    await self._pipes[output].feed(text)
        finally:
            for pipe in self._pipes.values():
                pipe.end()
