"""The connection of the REST door: a short cut for the requests that matter, and limits on all of them.

uvicorn runs every request as a task, with events for its body and messages for its answer. That costs more
than a decision does. A request of a route that does not block, and that has arrived in one piece, needs
none of it: it is answered within the call that delivered its last byte. Everything else (bodies in pieces,
other routes, requests that overtake an unfinished one) goes the ordinary way, which answers the same.

What a client sends beside bodies (heads, trailers, the frames of chunks) is bounded in size, and every step
of an exchange in time: `patience` looks at all connections twice a second. uvicorn has no such limits.
"""

from __future__ import annotations

from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from proreus.serving.doors.asked import Asked
from proreus.serving.doors.http import HttpApp
from proreus.serving.doors.patience import Crowd, Step
from proreus.serving.doors.routing import Reply, Route

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


class QuickProtocol(HttpToolsProtocol):
    """One connection: uvicorn's, with a short cut into the application that it serves."""

    def __init__(self, config: Config, crowd: Crowd, **named: Any) -> None:
        super().__init__(config, **named)
        if not isinstance(config.app, HttpApp):
            raise TypeError(f"the short cut leads into an HttpApp, not into {config.app!r}")
        self._http, self._crowd = config.app, crowd
        self._route: Route | None = None
        self._method = self._path = ""
        self._body = b""
        self._rest = b""
        """What has come and is to be read when others have had their turn."""
        self._in_a_row = 0
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
        super().connection_lost(exc)
        self._rest = b""
        self._crowd.farewell(self)

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
        """Now."""
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
        if self._route is not None and not self._rest:
            # It did not end with what has come: the ordinary way from here on.
            self._route = None
            super().on_headers_complete()
            if self._body:
                super().on_body(self._body)

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
        told = next((value for name, value in self.headers if name == b"content-length"), b"0")
        return int(told) - self._of_body if told.isdigit() else 0

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
        self.step = Step.BODY  # since when it is there does not matter much: see `patience`
        if self.transport.is_closing():
            return
        if (
            not self.waits_for_us
            and not self.pipeline
            and not self.expect_100_continue
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        ):
            self._method = self.parser.get_method().decode("latin-1")
            self._path = self.url.decode("latin-1")
            self._route = self._http.quick(self._method, self._path)
            self._body = b""
        if self._route is not None:
            return
        if len(self.pipeline) >= _MOST_AHEAD:
            self.transport.close()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._of_body += len(body)
        if self._route is not None and len(self._body) + len(body) <= self._route.inline_bytes:
            self._body += body
            return
        if self._route is not None:  # too long to be answered at once
            self._route = None
            super().on_headers_complete()
            super().on_body(self._body)
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._ended = True
        self.step, self.since = Step.IDLE, self.loop.time()
        if self.transport.is_closing():
            return
        if self._route is None:
            super().on_message_complete()
            return
        route, self._route = self._route, None
        self._in_a_row += 1
        asked = Asked(self._method, self._path, self.headers, self.address)
        reply, headers = self._http.answer_now(route, asked, self._body)
        self.transport.write(_response(reply, headers))
        if reply.status >= 400 and reply.closes:
            self.transport.close()
        self.server_state.total_requests += 1

    def on_response_complete(self) -> None:
        if self.step is Step.IDLE:
            self.since = self.loop.time()
        super().on_response_complete()
        # `patience` ends idle connections, whatever comes that is no request.
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


def _response(reply: Reply, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [STATUS_LINE[reply.status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines += (b"\r\n", reply.body)
    return b"".join(lines)
