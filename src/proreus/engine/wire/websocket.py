"""A WebSocket over a connection that was upgraded to one: whole messages, bounded in size.

The frames are read by the library `websockets`; fragments are put together, pings answered, and a client that
breaks the rules is told so and cut off.
"""

from __future__ import annotations

import base64
import binascii
from collections import deque

from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side
from websockets.utils import accept_key

from proreus.engine.wire.duplex import Duplex

MOST_BYTES = 2 * 1024 * 1024
"""Of one message; the official Python client sends up to a mebibyte and a byte."""


def handshake(key: str, subprotocol: str) -> list[tuple[bytes, bytes]]:
    """The headers of the answer to a client with this key; raises `ValueError` where it is none."""
    try:
        known = base64.b64decode(key, validate=True)
    except binascii.Error:
        known = b""
    if len(known) != 16:
        raise ValueError("Sec-WebSocket-Key is not 16 bytes in base64")
    return [
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"sec-websocket-accept", accept_key(key).encode()),
        (b"sec-websocket-protocol", subprotocol.encode()),
    ]


class WebSocket:
    """See the module; the server's end."""

    def __init__(self, duplex: Duplex, most_bytes: int = MOST_BYTES) -> None:
        self._duplex = duplex
        self._protocol = Protocol(Side.SERVER, max_size=most_bytes)
        self._frames: deque[Frame] = deque()
        self._message = bytearray()

    async def receive(self) -> bytes | None:
        """The next message, text or not; None once there are no more."""
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                    self._message += frame.data
                    if frame.fin:
                        message = bytes(self._message)
                        self._message.clear()
                        return message
                elif frame.opcode is Opcode.CLOSE:
                    return None
            data = await self._duplex.read()
            if not data:
                return None
            self._protocol.receive_data(data)
            for event in self._protocol.events_received():
                assert isinstance(event, Frame)  # requests and answers were read before
                self._frames.append(event)
            try:
                if not await self._flush() and not self._frames:
                    return None
            except ConnectionError:
                return None

    async def send(self, message: bytes) -> None:
        """Raises `ConnectionError` once it is closed."""
        try:
            self._protocol.send_binary(message)
        except InvalidState as error:
            raise ConnectionResetError("the WebSocket is closed") from error
        await self._flush()

    async def ping(self) -> None:
        """A sign of life; raises `ConnectionError` once it is closed."""
        try:
            self._protocol.send_ping(b"")
        except InvalidState as error:
            raise ConnectionResetError("the WebSocket is closed") from error
        await self._flush()

    async def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> None:
        """Say good-bye, if that was not said already."""
        try:
            self._protocol.send_close(code, reason)
        except InvalidState:
            return
        await self._flush()

    async def _flush(self) -> bool:
        """Send what is to be sent; whether it may go on."""
        pieces = self._protocol.data_to_send()
        if any(pieces):
            await self._duplex.write(b"".join(pieces))
        return b"" not in pieces


class TunnelledBytes:
    """A `Duplex` whose bytes travel in the messages of a WebSocket."""

    def __init__(self, socket: WebSocket, duplex: Duplex) -> None:
        self._socket, self._duplex = socket, duplex

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message is None:
                return b""
            if message:
                return message

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)

    def close(self) -> None:
        self._duplex.close()
