"""Ports of a pod, reached through the API: connections in streams of SPDY, or in channels of a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from proreus.engine.api.exec.session import Activity
from proreus.engine.api.exec.spdy_command import TYPE
from proreus.engine.api.exec.websocket_channels import ChannelSink
from proreus.engine.runtimes.protocol import RuntimeRefused
from proreus.engine.wire.duplex import BoundedPipe, Connection, Sink, Source
from proreus.engine.wire.spdy import SpdySession, SpdyStream
from proreus.engine.wire.websocket import WebSocket

Connect = Callable[[int], Awaitable[Connection]]
_MOST_CONNECTIONS = 128
_MOST_UNPAIRED = 64
MOST_PORTS = 16
_HIGHEST_PORT = 65535
_POLICY_VIOLATION = 1008


def port_of(text: str) -> int | None:
    """A port's number; None where it is none."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    return number if 0 < number <= _HIGHEST_PORT else None


@dataclass(frozen=True, slots=True)
class Forwarded:
    """One connection of the client's."""

    source: Source
    sink: Sink
    error: Sink
    """Why it came to nothing."""


async def forward(port: int, ends: Forwarded, connect: Connect, activity: Activity) -> None:
    """From its beginning to its end, in both directions."""
    try:
        connection = await connect(port)
    except RuntimeRefused as refused:
        await ends.error.write(str(refused).encode())
        await ends.sink.end()
        await ends.error.end()
        return
    into = asyncio.ensure_future(_copy(ends.source, connection, activity))
    try:
        await _copy(connection, ends.sink, activity)
        await ends.error.end()
    finally:
        into.cancel()
        await asyncio.gather(into, return_exceptions=True)
        connection.close()


async def _copy(source: Source, sink: Sink, activity: Activity) -> None:
    while data := await source.read():
        activity.note()
        await sink.write(data)
    await sink.end()


class _Tasks:
    """Connections under way."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()

    def start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def stop(self) -> None:
        running = tuple(self.running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _quietly(work: Awaitable[None]) -> None:
    """The end of one connection is of no consequence for the others."""
    try:
        await work
    except ConnectionError:
        return


class SpdyForwarding:
    """Two streams for each connection, one of them for errors, which the client pairs by a number."""

    def __init__(self, session: SpdySession, connect: Connect, activity: Activity) -> None:
        self._session, self._connect, self._activity = session, connect, activity
        self._unpaired: dict[str, SpdyStream] = {}
        self._tasks = _Tasks()

    async def run(self) -> None:
        """Until the client has gone."""
        try:
            await self._session.run(self._opened)
        finally:
            await self._tasks.stop()

    def _opened(self, stream: SpdyStream) -> None:
        kind, number = stream.headers.get(TYPE, ""), stream.headers.get("requestid", "")
        port = port_of(stream.headers.get("port", ""))
        other = self._unpaired.get(number)
        full = len(self._tasks.running) >= _MOST_CONNECTIONS or len(self._unpaired) >= _MOST_UNPAIRED
        if kind not in ("data", "error") or port is None or (other is None and full):
            self._tasks.start(stream.reset())
        elif other is None:
            self._unpaired[number] = stream
        elif other.headers.get(TYPE) == kind or other.headers.get("port") != stream.headers["port"]:
            self._tasks.start(stream.reset())
        else:
            del self._unpaired[number]
            data, error = (stream, other) if kind == "data" else (other, stream)
            ends = Forwarded(data, data, error)
            self._tasks.start(forward(port, ends, self._connect, self._activity))


class ChannelForwarding:
    """One connection for each port that the request names: two channels, for data and for errors."""

    def __init__(self, socket: WebSocket, ports: list[int], connect: Connect, activity: Activity) -> None:
        self._socket, self._ports, self._connect, self._activity = socket, ports, connect, activity
        self._pipes = {2 * place: BoundedPipe() for place in range(len(ports))}
        self._tasks = _Tasks()

    async def run(self) -> None:
        """Until the client has gone, or all connections have ended."""
        for place, port in enumerate(self._ports):
            data, error = (ChannelSink(self._socket, 2 * place + side) for side in (0, 1))
            for channel in (data, error):
                await channel.write(port.to_bytes(2, "little"))
            ends = Forwarded(self._pipes[2 * place], data, error)
            self._tasks.start(forward(port, ends, self._connect, self._activity))
        receiving = asyncio.ensure_future(self._receive())
        finished = asyncio.ensure_future(_all(self._tasks.running))
        try:
            await asyncio.wait((receiving, finished), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (receiving, finished):
                task.cancel()
            await self._tasks.stop()
            await asyncio.gather(receiving, finished, return_exceptions=True)

    async def _receive(self) -> None:
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            if message[0] in self._pipes:
                await self._pipes[message[0]].feed(message[1:])
            elif message[0] - 1 not in self._pipes:
                await self._socket.close(_POLICY_VIOLATION, f"there is no channel {message[0]} to write to")
                return


async def _all(running: set[asyncio.Task[None]]) -> None:
    await asyncio.wait(tuple(running))
