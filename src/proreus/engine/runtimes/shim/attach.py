"""Attaching to a container with a keeper: its output by the log as it grows, its input by a pipe."""

from __future__ import annotations

import os
from pathlib import Path

from proreus.engine.runtimes import logs
from proreus.engine.runtimes.backend import Written
from proreus.engine.runtimes.descriptors import Descriptor
from proreus.engine.runtimes.output_session import PrintedSession
from proreus.engine.runtimes.protocol import AttachWanted, RuntimeRefused
from proreus.engine.runtimes.shim import client, shim


def attach_kept(folder: Path, wanted: AttachWanted, written: Written) -> AttachedLog:
    """Raises `RuntimeRefused` where the container takes no input, or no more."""
    stdin = None
    if wanted.stdin:
        try:
            stdin = Descriptor(os.open(folder / shim.STDIN, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            raise RuntimeRefused(f"container {wanted.container} takes no more input") from error
    return AttachedLog(folder, stdin, written)


class AttachedLog(PrintedSession):
    """A session of the container itself: lines come when they are whole, and there is never a terminal."""

    def __init__(self, folder: Path, stdin: Descriptor | None, written: Written) -> None:
        super().__init__(logs.attached(written.log, written.ended))
        self._folder, self._stdin, self._once = folder, stdin, written.once

    async def write(self, data: bytes) -> None:
        if self._stdin is not None and not await self._stdin.write(data):
            self._leave()

    async def end_input(self) -> None:
        """The container's input goes on for the next client, unless it was for one alone."""
        if self._stdin is not None and self._once:
            await client.end_input(self._folder)
        self._leave()

    async def close(self) -> None:
        await self.end_input()
        await super().close()

    def _leave(self) -> None:
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None
