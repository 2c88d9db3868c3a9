"""A connection of uvicorn's with limits on all that a client sends beside bodies.

Heads, trailers and the frames of chunks are bounded in size, and every step of an exchange in time:
`connection_limits` looks at all connections twice a second. uvicorn has no such limits.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from proreus.httpserver.connection_limits import Crowd, Step

_LARGEST_HEAD = 64 * 1024
_MOST_HEADERS = 128
_PIECE = 1024
"""What is read is looked at in pieces of this size: few requests fit in, and none is charged for more of
another than that."""
_MOST_AHEAD = 64
"""Requests that wait for the answer to an earlier one: more than the smallest ones that fit into a piece."""
_MOST_IN_A_ROW = 4
"""Requests of one connection, and a piece of them, that are answered before others have their turn."""
_FRAMES = 8
"""Bytes around a chunked body for each of its own; chunks of a single byte have five."""


class BoundedProtocol(HttpToolsProtocol):
    def __init__(self, config: Config, crowd: Crowd, **named: Any) -> None:
        super().__init__(config, **named)
        self._crowd = crowd
        self._answering: RequestResponseCycle | None = None
        """The request that is being worked on; `cycle` is the last that was read, and may wait behind it."""
        self._rest = b""
        """What has come and is to be read when others have had their turn."""
        self._in_a_row = 0
        """Requests that were answered within the call that brought them."""
        self._began = self._ended = False
        """Whether a request began, or ended, in the piece that is being read."""
        self._beside = self._of_body = 0
        """Bytes of the request that is being read: beside its body, and of it."""
        self.step = Step.IDLE
        self.since = self.loop.time()
        """When the request began, or the pause between two."""
        self.unread_since: float | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._crowd.welcome(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answering is not None and not self._answering.response_complete:
            # uvicorn tells only the last request that the client has gone: another would write to nobody,
            # with a traceback in the log, or never hear of it.
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        self._rest = b""
        self._crowd.farewell(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle

        async def until_given_up(scope: Any, receive: Any, send: Any) -> None:
            try:
                await app(scope, receive, send)
            except asyncio.CancelledError:  # only a server that ends gives up a request: no fault to log
                cycle.disconnected = True
                cycle.transport.close()

        super()._start_asgi_task(cycle, until_given_up)

    @property
    def address(self) -> str:
        """Of the client."""
        return self.client[0] if self.client else ""

    @property
    def waits_for_us(self) -> bool:
        """Whether an answer is being worked on, or its body waited for."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def held_back(self) -> bool:
        """Whether we do not read what the client sends, for the time being."""
        return self.flow.read_paused

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self.transport.get_write_buffer_size()

    @property
    def leaving(self) -> bool:
        """Whether it is being closed."""
        return self.transport.is_closing()

    def close(self) -> None:
        """When what was answered has been taken."""
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._rest:  # it came although nothing was to be read: it is read behind the rest
            self._rest += data
            self.flow.pause_reading()
            return
        self._in_a_row = 0
        if len(data) <= _PIECE:
            self._read(data)
        else:
            self._read_pieces(data)

    def _read_pieces(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self.transport.is_closing():
            if self._in_a_row >= _MOST_IN_A_ROW or self.pipeline:
                self._rest = data[start:]
                self.flow.pause_reading()
                if not self.pipeline:
                    self.loop.call_soon(self._go_on)
                return
            stop = start + max(_PIECE, self._body_left())
            self._read(data[start:stop])
            start = stop

    def _body_left(self) -> int:
        """Bytes of the body that are yet to come, where its length was told: no request is among them."""
        if self.step is not Step.BODY:
            return 0
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        return int(length) - self._of_body if length.isdigit() else 0

    def _go_on(self) -> None:
        """Read what was left when it was the others' turn, or when answers were due."""
        if not self._rest or self.parser is None or self.transport.is_closing():
            return
        rest, self._rest = self._rest, b""
        self.data_received(rest)
        self._resume_reading()

    def _resume_reading(self) -> None:
        if not (self._rest or self.pipeline or self.flow.write_paused):
            self.flow.resume_reading()

    def _read(self, data: bytes) -> None:
        of_body = self._of_body
        self._began = self._ended = False
        super().data_received(data)
        if not (self._began and self._ended):  # else nobody knows whose the bytes of the piece are
            self._beside += len(data) - (self._of_body - (0 if self._began else of_body))
            if self._beside > _LARGEST_HEAD + _FRAMES * self._of_body and not self.transport.is_closing():
                what = "frame of a body" if self.step is Step.BODY else "head of a request"
                self.send_400_response(f"The {what} is at most {_LARGEST_HEAD} bytes long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._began = True
        self._beside = self._of_body = 0
        self.step, self.since = Step.HEAD, self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.step is not Step.HEAD:
            return  # a trailer: nothing that counts may stand in one
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > _MOST_HEADERS and not self.transport.is_closing():
            self.send_400_response(f"A request has at most {_MOST_HEADERS} headers.")

    def on_headers_complete(self) -> None:
        self.step = Step.BODY  # since when it is there does not matter much: see `connection_limits`
        if self.transport.is_closing():
            return
        if len(self.pipeline) >= _MOST_AHEAD:
            self.transport.close()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._of_body += len(body)
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._ended = True
        self.step, self.since = Step.IDLE, self.loop.time()
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.step is not Step.HEAD:
            self.since = self.loop.time()
        super().on_response_complete()
        # `connection_limits` ends idle connections, whatever comes that is no request.
        self._unset_keepalive_if_required()
        if self._rest or self.flow.write_paused:
            self.flow.pause_reading()
        if self._rest and not self.pipeline:
            self.loop.call_soon(self._go_on)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Who does not take answers gets no more of them.
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._resume_reading()
