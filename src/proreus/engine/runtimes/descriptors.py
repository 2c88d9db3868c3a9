"""A pipe or a terminal of this process, read and written without blocking the loop."""

from __future__ import annotations

import asyncio
import errno
import os

_CHUNK = 64 * 1024


class Descriptor:
    """One file descriptor; one task reads it, and one writes it."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd, self._loop = fd, asyncio.get_running_loop()
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._last = self._closed = False

    def fileno(self) -> int:
        """While it is open."""
        return self._fd

    async def read(self) -> bytes:
        """What there is, as soon as there is something; b"" at the end."""
        while not self._closed:
            try:
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:
                if self._last:
                    return b""
                await self._until_readable()
            except OSError as error:
                if error.errno != errno.EIO:  # so ends a terminal whose last process is gone
                    raise
                return b""
        return b""

    async def write(self, data: bytes) -> bool:
        """All of it; whether anybody was there to read it."""
        left = memoryview(data)
        while left and not self._closed:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await self._until_writable()
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO):
                    raise
                return False
        return not self._closed

    def finish(self) -> None:
        """What has come may still be read, but no more is waited for."""
        self._last = True
        _wake(self._reading)

    def close(self) -> None:
        """Whoever waits finds the end."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            _wake(self._reading)
            _wake(self._writing)
            os.close(self._fd)

    async def _until_readable(self) -> None:
        waiting = self._reading = self._loop.create_future()
        self._loop.add_reader(self._fd, _wake, waiting)
        try:
            await waiting
        finally:
            if not self._closed:
                self._loop.remove_reader(self._fd)

    async def _until_writable(self) -> None:
        waiting = self._writing = self._loop.create_future()
        self._loop.add_writer(self._fd, _wake, waiting)
        try:
            await waiting
        finally:
            if not self._closed:
                self._loop.remove_writer(self._fd)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
