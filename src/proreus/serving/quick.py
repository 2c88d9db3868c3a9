"""A short cut for the requests that matter: whole ones, on routes that answer at once.

uvicorn runs every request as a task, with events for its body and messages for its answer. That costs more
than a decision does. A request of a route that does not block, and that has arrived in one piece, needs
none of it: it is answered within the call that delivered its last byte. Everything else (bodies in pieces,
other routes, requests that overtake an unfinished one) goes the ordinary way, which answers the same.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from proreus.serving.http import Asked, HttpApp, Reply, Route


def quick_protocol(app: HttpApp) -> type[HttpToolsProtocol]:
    """uvicorn's protocol with the short cut to `app`."""

    class QuickProtocol(HttpToolsProtocol):
        """One connection."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._route: Route | None = None
            self._body = b""

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._route is not None:  # it did not end with this piece: the ordinary way from here on
                self._route = None
                super().on_headers_complete()
                if self._body:
                    super().on_body(self._body)

        def on_headers_complete(self) -> None:
            if (
                (self.cycle is None or self.cycle.response_complete)
                and not self.pipeline
                and not self.expect_100_continue
                and self.parser.should_keep_alive()
                and not self.parser.should_upgrade()
            ):
                path, method = self.url.decode("latin-1"), self.parser.get_method().decode("latin-1")
                self._route = app.quick(method, path)
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
            asked = Asked("POST", self.url.decode("latin-1"), self.headers, client)
            reply, headers = app.answer_now(route, asked, self._body)
            self.transport.write(_response(reply, headers))
            if reply.status >= 400 and reply.closes:
                self.transport.close()
            self.on_response_complete()

    return QuickProtocol


def _response(reply: Reply, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [STATUS_LINE[reply.status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines += (b"\r\n", reply.body)
    return b"".join(lines)
