"""Connections that leave HTTP by `Upgrade`: the bytes behind the answer 101 belong to whoever accepted it.

The request passes every check of the door as any other does. Its scope then has an `Upgrade` among its
extensions: who accepts it gets the connection as a stream of bytes; who does not answers as usual, and the
connection ends, since nobody knows what the client would send next.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from uvicorn.config import Config

from proreus.httpserver.connection import BoundedProtocol
from proreus.httpserver.connection_limits import Crowd

EXTENSION = "proreus.upgrade"
_MOST_WAITING = 256 * 1024
"""Bytes that have come and that nobody has taken yet: no more are read meanwhile."""


class Upgrade:
    """The offer of a client to go on in another protocol."""

    def __init__(self, connection: UpgradableProtocol, protocol: str) -> None:
        self._connection = connection
        self.protocol = protocol
        """As the header names it, in small letters: "websocket", "spdy/3.1"."""

    def accept(self, headers: Sequence[tuple[bytes, bytes]]) -> Upgraded:
        """Answer 101 with these headers; from here on the bytes are the caller's."""
        return self._connection.switch(headers)


class Upgraded:
    """A connection as two streams of bytes, with bounds on what waits in either."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting = bytearray()
        self._ended = False
        self._lost = asyncio.Event()
        self._something = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    async def read(self) -> bytes:
        """What has come, as soon as there is something; b"" once nothing comes any more."""
        while not self._waiting and not self._ended:
            self._something.clear()
            await self._something.wait()
        data = bytes(self._waiting)
        self._waiting.clear()
        if data and not self._transport.is_closing():
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more; raises `ConnectionResetError` once the client has gone."""
        if self._lost.is_set() or self._transport.is_closing():
            raise ConnectionResetError("the client has gone")
        self._transport.write(data)
        await self._may_write.wait()
        if self._lost.is_set():
            raise ConnectionResetError("the client has gone")

    async def gone(self) -> None:
        """Until the connection is lost, whoever ended it."""
        await self._lost.wait()

    def close(self) -> None:
        """When what was written has been taken."""
        if not self._transport.is_closing():  # one of TLS that is closed twice cannot be aborted any more
            self._transport.close()

    def abort(self) -> None:
        """Now, whatever was written."""
        self._transport.abort()

    def feed(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) > _MOST_WAITING:
            self._transport.pause_reading()
        self._something.set()

    def feed_end(self, *, lost: bool) -> None:
        """No more come; where the connection is lost, none can be sent either."""
        self._ended = True
        self._something.set()
        if lost:
            self._lost.set()
            self._may_write.set()

    def hold(self, full: bool) -> None:
        """Whether the client takes too little of what is written to it."""
        if full:
            self._may_write.clear()
        else:
            self._may_write.set()


class UpgradableProtocol(BoundedProtocol):
    def __init__(self, config: Config, crowd: Crowd, **named: Any) -> None:
        super().__init__(config, crowd, **named)
        self._offered = False
        self._upgraded: Upgraded | None = None

    @property
    def waits_for_us(self) -> bool:
        """An upgraded connection is never idle: how long it may be quiet is its user's to say."""
        return self._upgraded is not None or super().waits_for_us

    @property
    def unread(self) -> int:
        """A terminal may stand still for as long as its user likes; what waits for it is bounded."""
        return 0 if self._upgraded is not None else super().unread

    def _unsupported_upgrade_warning(self) -> None:
        """Clients ask for HTTP/2 all the time: no reason for a line in the log."""

    def on_headers_complete(self) -> None:
        self._offered = self.parser.should_upgrade()
        if self._offered:
            wanted = (self._get_upgrade() or b"").decode("latin-1")
            extensions: dict[str, Any] = {EXTENSION: Upgrade(self, wanted)}
            self.scope["extensions"] = extensions
        before = self.cycle
        super().on_headers_complete()
        if self._offered and self.cycle is not None and self.cycle is not before:
            self.cycle.keep_alive = False

    def switch(self, headers: Sequence[tuple[bytes, bytes]]) -> Upgraded:
        if self.transport.is_closing() or self.cycle is None or self.cycle.response_started:
            raise ConnectionResetError("the client has gone")
        self._upgraded = Upgraded(self.transport)
        self.cycle.response_started = self.cycle.response_complete = True
        held = self.transport.get_extra_info("socket")
        if held is not None and held.family in (socket.AF_INET, socket.AF_INET6):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        lines = [b"HTTP/1.1 101 Switching Protocols", *(name + b": " + value for name, value in headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n")
        self.flow.resume_reading()
        return self._upgraded

    def data_received(self, data: bytes) -> None:
        if self._upgraded is not None:
            self._upgraded.feed(data)
        elif self._offered:
            self.transport.abort()  # nothing may come before the answer
        else:
            super().data_received(data)

    def eof_received(self) -> None:
        super().eof_received()
        if self._upgraded is not None:
            self._upgraded.feed_end(lost=False)

    def shutdown(self) -> None:
        """The server ends; see `Upgraded.close`."""
        if not self.transport.is_closing():
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._upgraded is not None:
            self._upgraded.feed_end(lost=True)

    def pause_writing(self) -> None:
        if self._upgraded is not None:
            self._upgraded.hold(True)
        else:
            super().pause_writing()

    def resume_writing(self) -> None:
        if self._upgraded is not None:
            self._upgraded.hold(False)
        else:
            super().resume_writing()
