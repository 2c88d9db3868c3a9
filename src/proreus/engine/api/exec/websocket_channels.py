"""Kubernetes' channels: messages of a WebSocket whose first byte says which stream the rest belongs to."""

from __future__ import annotations

from proreus.engine.api.exec.session import Ends, StreamsWanted
from proreus.engine.wire.duplex import BoundedPipe
from proreus.engine.wire.websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_POLICY_VIOLATION = 1008


class ChannelSink:
    """One of the streams towards the client."""

    def __init__(self, socket: WebSocket, channel: int) -> None:
        self._socket, self._mark = socket, bytes((channel,))

    async def write(self, data: bytes) -> None:
        await self._socket.send(self._mark + data)

    async def end(self) -> None:
        """A channel has no end of its own: the WebSocket's is the end of all."""


class CommandChannels:
    """The channels of a command: input, output, Status and the sizes of the terminal."""

    def __init__(self, socket: WebSocket, wanted: StreamsWanted, *, closes: bool) -> None:
        """closes: whether the client can end its input (from version 5 on)."""
        self._socket, self._closes = socket, closes
        self._pipes: dict[int, BoundedPipe] = {}
        if wanted.stdin:
            self._pipes[STDIN] = BoundedPipe()
        if wanted.tty:
            self._pipes[RESIZE] = BoundedPipe()
        self.ends = Ends(
            ChannelSink(socket, ERROR),
            self._pipes.get(STDIN),
            ChannelSink(socket, STDOUT) if wanted.stdout else None,
            ChannelSink(socket, STDERR) if wanted.stderr else None,
            self._pipes.get(RESIZE),
        )

    async def run(self) -> None:
        """Take what the client sends until it has gone, or breaks the rules."""
        # Clients wait for a first message, however empty, to know that they are heard.
        await self._socket.send(bytes((ERROR,)))
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == CLOSE and self._closes:
                for ended in data:
                    if ended in self._pipes:
                        self._pipes[ended].end()
            elif channel in self._pipes:
                await self._pipes[channel].feed(data)
            elif channel not in (STDIN, RESIZE):
                await self._socket.close(_POLICY_VIOLATION, f"there is no channel {channel} to write to")
                return
