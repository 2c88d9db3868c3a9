"""The connection of the REST door: a short cut for the requests that matter, and limits on the heads of all.

uvicorn runs every request as a task, with events for its body and messages for its answer. That costs more
than a decision does. A request of a route that does not block, and that has arrived in one piece, needs
none of it: it is answered within the call that delivered its last byte. Everything else (bodies in pieces,
other routes, requests that overtake an unfinished one) goes the ordinary way, which answers the same.

A head must come within a time and a size, and there are only so many connections: uvicorn has no such limits.
"""

from __future__ import annotations

from asyncio.events import TimerHandle
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from proreus.serving.doors.http import Asked, HttpApp, Reply, Route

_LARGEST_HEAD = 64 * 1024


class QuickProtocol(HttpToolsProtocol):
    """One connection: uvicorn's, with a short cut into the application that it serves."""

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        if not isinstance(config.app, HttpApp):
            raise TypeError(f"the short cut leads into an HttpApp, not into {config.app!r}")
        self._http = config.app
        self._route: Route | None = None
        self._method = self._path = ""
        self._body = b""
        self._in_head = True
        self._head_bytes = 0
        self._impatience: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._http.limits.connections:
            transport.close()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._route is not None:  # it did not end with this piece: the ordinary way from here on
            self._route = None
            super().on_headers_complete()
            if self._body:
                super().on_body(self._body)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _LARGEST_HEAD and not self.transport.is_closing():
                self.send_400_response(f"The head of a request is at most {_LARGEST_HEAD} bytes long.")
            elif self._impatience is None:
                self._wait_for_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def _wait_for_head(self) -> None:
        self._impatience = self.loop.call_later(self._http.limits.body_seconds, self.transport.close)

    def _head_is_there(self) -> None:
        self._in_head = False
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def on_headers_complete(self) -> None:
        self._head_is_there()
        if (
            (self.cycle is None or self.cycle.response_complete)
            and not self.pipeline
            and not self.expect_100_continue
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        ):
            self._method = self.parser.get_method().decode("latin-1")
            self._path = self.url.decode("latin-1")
            self._route = self._http.quick(self._method, self._path)
            self._body = b""
        if self._route is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._route is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        if self._route is None:
            super().on_message_complete()
            return
        route, self._route = self._route, None
        client = self.client[0] if self.client else ""
        asked = Asked(self._method, self._path, self.headers, client)
        reply, headers = self._http.answer_now(route, asked, self._body)
        self.transport.write(_response(reply, headers))
        if reply.status >= 400 and reply.closes:
            self.transport.close()
        self.on_response_complete()


def _response(reply: Reply, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [STATUS_LINE[reply.status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines += (b"\r\n", reply.body)
    return b"".join(lines)
