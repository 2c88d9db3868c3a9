"""Two streams of bytes, one each way, and a pipe that holds a bounded amount."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

_CHUNK = 64 * 1024


class Source(Protocol):
    """Where bytes come from."""

    async def read(self) -> bytes:
        """What there is, as soon as there is something; b"" at the end."""
        ...


class Sink(Protocol):
    """Where bytes go."""

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more; raises `ConnectionError` where nobody takes them any more."""
        ...

    async def end(self) -> None:
        """There are no more."""
        ...


class Duplex(Protocol):
    """A connection."""

    async def read(self) -> bytes:
        """What has come, as soon as there is something; b"" at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Bytes are in order, whoever waits: they are taken before this first gives way to others."""
        ...

    def close(self) -> None:
        """When what was written has been taken."""
        ...


class BoundedPipe:
    """Whoever feeds it waits while it is full."""

    def __init__(self, most: int = 256 * 1024) -> None:
        self._most = most
        self._held = bytearray()
        self._ended = self._unwanted = False
        self._changed = asyncio.Event()

    async def feed(self, data: bytes) -> None:
        """Returns when it is within its bound again; what nobody wants is dropped."""
        if self._ended or self._unwanted:
            return
        self._held += data
        self._tell()
        while len(self._held) > self._most and not self._unwanted:
            await self._wait()

    def end(self) -> None:
        """No more comes."""
        self._ended = True
        self._tell()

    def discard(self) -> None:
        """Nobody reads any more."""
        self._unwanted = True
        self._held.clear()
        self._tell()

    async def read(self) -> bytes:
        while not self._held and not self._ended and not self._unwanted:
            await self._wait()
        data = bytes(self._held)
        self._held.clear()
        self._tell()
        return data

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait(self) -> None:
        await self._changed.wait()


class Connection:
    """A `Duplex` that this process has made itself, with an end of its own in either direction."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int, seconds: float) -> Connection:
        """Raises `OSError`; one that takes too long is one."""
        async with asyncio.timeout(seconds):
            return cls(*await asyncio.open_connection(host, port, limit=_CHUNK))

    async def read(self) -> bytes:
        """See `Duplex`; a connection that was cut ends."""
        try:
            return await self._reader.read(_CHUNK)
        except OSError:
            return b""

    async def read_until(self, mark: bytes) -> bytes:
        """As far as the mark, within 64 KiB; raises `ConnectionError`."""
        try:
            return await self._reader.readuntil(mark)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionResetError("the answer is cut short") from error

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        if self._writer.can_write_eof():
            with contextlib.suppress(OSError):
                self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()
