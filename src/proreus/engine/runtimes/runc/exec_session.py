"""A command in a container of runc's; one that runc cannot begin is told as a shell tells it."""

from __future__ import annotations

import asyncio
import json

from proreus.engine.runtimes.commands import SpawnedCommand, not_started
from proreus.engine.runtimes.protocol import OutputStream, TerminalSize

LOG_FORMAT = ("--log-format", "json")
_BEGINS, _SAYS = b"{", b"exec failed"
"""The line that runc writes on the command's stderr, or its terminal, where it could not begin it."""
_RUNC_FAILED = 255
_LONGEST = 64 * 1024


class RuncCommand:
    """A `ContainerSession` over `runc exec`, which shares its streams and its exit code with the command."""

    def __init__(self, command: SpawnedCommand, *, tty: bool) -> None:
        self._command = command
        self._told_on = OutputStream.STDOUT if tty else OutputStream.STDERR
        self._first: asyncio.Future[tuple[bytes, int | None]] = asyncio.ensure_future(self._read_first())
        self._handed_out = False

    async def read(self, output: OutputStream) -> bytes:
        if output is not self._told_on or self._handed_out:
            return await self._command.read(output)
        first, _ = await asyncio.shield(self._first)
        self._handed_out = True
        return first

    async def write(self, data: bytes) -> None:
        await self._command.write(data)

    async def end_input(self) -> None:
        await self._command.end_input()

    async def resize(self, size: TerminalSize) -> None:
        await self._command.resize(size)

    async def wait(self) -> int:
        code = await self._command.wait()
        if code != _RUNC_FAILED:
            return code
        _, refused = await asyncio.shield(self._first)
        return code if refused is None else refused

    async def close(self) -> None:
        await self._command.close()
        self._first.cancel()
        await asyncio.gather(self._first, return_exceptions=True)

    async def _read_first(self) -> tuple[bytes, int | None]:
        """What comes first where runc would complain; and the exit code, where it does."""
        first = await self._command.read(self._told_on)
        if not (first.startswith(_BEGINS) and _SAYS in first):
            return first, None
        while len(first) < _LONGEST and (more := await self._command.read(self._told_on)):
            first += more
        refused = not_started(_message(first)) if await self._command.wait() == _RUNC_FAILED else None
        return (first, None) if refused is None else (refused.stderr, refused.exit_code)


def _message(line: bytes) -> str:
    """What a line of runc's log says; "" where it is none."""
    try:
        return str(json.loads(line)["msg"])
    except (ValueError, KeyError, TypeError):
        return ""
