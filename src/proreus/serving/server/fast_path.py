"""The connection of the REST door: a short cut for the requests that matter.

uvicorn runs every request as a task, with events for its body and messages for its answer. That costs more
than a decision does. A request of a route that does not block, and that has arrived in one piece, needs
none of it: it is answered within the call that delivered its last byte. Everything else (bodies in pieces,
other routes, requests that overtake an unfinished one) goes the ordinary way, which answers the same.
"""

from __future__ import annotations

from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from proreus.httpserver.connection import BoundedProtocol
from proreus.httpserver.connection_limits import Crowd, Step
from proreus.serving.server.http import HttpApp
from proreus.serving.server.preconditions import RequestHead
from proreus.serving.server.router import HandlerReply, Route


class QuickProtocol(BoundedProtocol):
    """One connection, with a short cut into the application that it serves."""

    def __init__(self, config: Config, crowd: Crowd, **named: Any) -> None:
        super().__init__(config, crowd, **named)
        if not isinstance(config.app, HttpApp):
            raise TypeError(f"the short cut leads into an HttpApp, not into {config.app!r}")
        self._http = config.app
        self._route: Route | None = None
        self._method = self._path = ""
        self._body = b""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._route is not None and not self._rest:
            # It did not end with what has come: the ordinary way from here on.
            self._leave_short_cut()

    def on_headers_complete(self) -> None:
        if (
            not self.transport.is_closing()
            and not self.waits_for_us
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
        else:
            self.step = Step.BODY

    def on_body(self, body: bytes) -> None:
        if self._route is not None and len(self._body) + len(body) <= self._route.inline_bytes:
            self._of_body += len(body)
            self._body += body
            return
        if self._route is not None:  # too long to be answered at once
            self._leave_short_cut()
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._route is None or self.transport.is_closing():
            self._route = None
            super().on_message_complete()
            return
        self._ended = True
        self.step, self.since = Step.IDLE, self.loop.time()
        route, self._route = self._route, None
        self._in_a_row += 1
        asked = RequestHead(self._method, self._path, self.headers, self.address)
        reply, headers = self._http.answer_now(route, asked, self._body)
        self.transport.write(_response(reply, headers))
        if reply.status >= 400 and reply.closes:
            self.transport.close()
        self.server_state.total_requests += 1

    def _leave_short_cut(self) -> None:
        """What has come of the request so far goes the ordinary way; it has been counted."""
        self._route = None
        HttpToolsProtocol.on_headers_complete(self)
        if self._body:
            HttpToolsProtocol.on_body(self, self._body)


def _response(reply: HandlerReply, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [STATUS_LINE[reply.status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines += (b"\r\n", reply.body)
    return b"".join(lines)
