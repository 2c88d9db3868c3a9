"""The HTTP side of the REST door, without knowing what is asked: bodies, limits, errors, request ids.

Bare ASGI: the hot path makes one pass over the headers and one over the body, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from proreus.httpserver.byte_budget import ByteBudget
from proreus.httpserver.pages import ANSWERS, LONGEST_BODY, PageReply, PageRequest, Pages
from proreus.httpserver.work_queue import LAST_SECONDS, WorkQueue
from proreus.serving.admission import RequestAdmission, byte_budget, fair_turns
from proreus.serving.allowed_hosts import Visitors
from proreus.serving.messages import Refusal, Refused, shortened
from proreus.serving.metrics import Measurements
from proreus.serving.server.errors import failure_reply, refusal_reply
from proreus.serving.server.preconditions import RequestHead
from proreus.serving.server.router import (
    JSON,
    HandlerReply,
    Header,
    Request,
    ResponseSpec,
    Route,
    Router,
    Routes,
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_log = logging.getLogger(__name__)
LARGE_BODY = 64 * 1024
"""Bytes from which on a body is held against the budget, and its request counts as large work."""


@dataclass(frozen=True)
class HttpLimits:
    """What a client may ask of the REST door."""

    body_bytes: int = 32 * 1024 * 1024
    concurrency: int = 1024
    """Requests at work at once."""
    connections: int = 4096
    """Connections at once; for one more, those that have been idle longest are closed."""
    body_seconds: float = 10.0
    """How long the head of a request may take to come, and how long its body."""
    idle_seconds: float = 5.0
    """How long a connection may stay open between requests."""
    write_seconds: float = 20.0
    """How long an answer may take to be taken."""
    log_every: int = 0
    """Log one of so many answered requests; 0: none."""

    @property
    def held_bytes(self) -> int:
        """Of all large bodies that are there at once: four of the largest."""
        return max(4 * self.body_bytes, 4 * LARGE_BODY)


@dataclass
class HttpApp:
    """An ASGI application over a table of routes."""

    routes: Routes
    admission: RequestAdmission
    measurements: Measurements
    limits: HttpLimits = field(default_factory=HttpLimits)
    visitors: Visitors = field(default_factory=Visitors)
    turns: WorkQueue | None = None
    """Shared with another door; None: threads of its own."""
    pages: Pages | None = None
    """A dashboard: its files are for anybody, its answers for whoever is let in."""
    _working: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._router = Router(self.routes)
        self._turns = self.turns or fair_turns(name="rest")
        self._budget = byte_budget(self.limits.held_bytes)
        self._ids = _request_ids()
        self.measurements.gauge(
            "proreus_rest_requests", "REST requests under way.", lambda: float(self._working)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP exchange."""
        if scope["type"] == "http":
            await self._exchange(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    def close(self) -> None:
        """Let go of threads of its own."""
        if self.turns is None:
            self._turns.close(LAST_SECONDS)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        client, raw = scope.get("client"), scope.get("raw_path")
        path = scope["path"] if raw is None else raw.decode("latin-1").partition("?")[0]
        asked = RequestHead(scope["method"], path, scope["headers"], client[0] if client else "")
        body = _Body(self._budget, asked.client)
        try:
            if self.pages is not None and self._is_page(self.pages, asked):
                reply = await self._page(self.pages, asked, body, receive)
                await self._send(reply, asked, send)
                return
            route, part = self._router.find(asked.path, asked.method)
            self._admit(route, asked)
            if route.takes:
                await self._receive(body, receive, asked, self._longest(route))
            request = Request(
                body.content, asked.heads.media_type, part, asked.heads.seconds_left(), asked.client
            )
            if route.blocking or len(body.content) > route.inline_bytes:
                reply = await self._in_turn(route, request, asked)
            else:
                reply = route.handle(request)
        except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
            reply = self._failed(error, asked)
        finally:
            body.let_go()
        await self._send(reply, asked, send)

    async def _send(self, reply: HandlerReply, asked: RequestHead, send: Send) -> None:
        headers = self._finished(reply, asked)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    def _is_page(self, pages: Pages, asked: RequestHead) -> bool:
        return asked.path.startswith(ANSWERS) or (
            asked.method == "GET" and pages.file(asked.path) is not None
        )

    async def _page(self, pages: Pages, asked: RequestHead, body: _Body, receive: Receive) -> HandlerReply:
        """A file, or an answer of the dashboard."""
        found = pages.file(asked.path)
        if found is not None:
            asked.check(_FILE, self.visitors)
            return _as_reply(found)
        route = _PAGE_POST if asked.method == "POST" else _PAGE_GET
        self._admit(route, asked)
        if route.takes:
            await self._receive(body, receive, asked, LONGEST_BODY)
        request = PageRequest(
            asked.method,
            asked.path.removeprefix(ANSWERS),
            asked.client,
            bytes(body.content),
            self.visitors.page_changes,
        )
        return _as_reply(await pages.answer(request))

    def quick(self, method: str, path: str) -> Route | None:
        """The route that answers at once, if this is such a request: see `quick`."""
        route = self._router.exact(path, method)
        return None if route is None or route.blocking or not route.takes else route

    def answer_now(self, route: Route, asked: RequestHead, body: bytes) -> tuple[HandlerReply, list[Header]]:
        """The reply to a whole request of a route that does not block, and its headers."""
        try:
            self._admit(route, asked)
            if len(body) > self._longest(route):
                raise _too_large(self._longest(route))
            request = Request(body, asked.heads.media_type, "", asked.heads.seconds_left(), asked.client)
            reply = route.handle(request)
        except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
            reply = self._failed(error, asked)
        return reply, self._finished(reply, asked)

    def _admit(self, route: Route, asked: RequestHead) -> None:
        if not route.open and not self.admission.open:
            self.admission.admit(asked.heads.authorization, asked.client)
        asked.check(route, self.visitors)

    async def _in_turn(self, route: Route, request: Request, asked: RequestHead) -> HandlerReply:
        """Have it done by a thread, when it is the client's turn."""
        if not route.open and self._working >= self.limits.concurrency:
            raise Refused(Refusal.EXHAUSTED, f"more than {self.limits.concurrency} requests are under way")
        self._working += 1
        try:
            large = len(request.body) > LARGE_BODY
            return await asyncio.wrap_future(
                self._turns.submit(asked.client, large, lambda: route.handle(request))
            )
        finally:
            self._working -= 1

    def _failed(self, error: Exception, asked: RequestHead) -> HandlerReply:
        """What to answer where there is no answer."""
        request_id = self._id_of(asked)
        if isinstance(error, Refused):
            self.measurements.count("proreus_refusals", door="rest", reason=error.refusal.value)
            reply = refusal_reply(error, request_id)
            _report(asked, reply, str(error))
            return reply
        self.measurements.count("proreus_failures", door="rest")
        reply = failure_reply(request_id)
        _log.error("request failed", exc_info=error, extra={"fields": _fields(asked, reply, str(error))})
        return reply

    def _finished(self, reply: HandlerReply, asked: RequestHead) -> list[Header]:
        """The headers of a reply; its time is taken."""
        took = time.perf_counter() - asked.began
        self.measurements.took("rest", "whole", took)
        request_id = self._id_of(asked)
        every = self.limits.log_every
        if every and reply.status < 400 and secrets.randbelow(every) == 0:
            _report(asked, reply, f"{took * 1e3:.3f} ms")
        length = b"%d" % len(reply.body)
        return [*reply.headers, (b"content-length", length), (b"x-request-id", request_id)]

    def _id_of(self, asked: RequestHead) -> bytes:
        if not asked.heads.request_id:
            asked.heads.request_id = next(self._ids)
        return asked.heads.request_id

    def _longest(self, route: Route) -> int:
        longest = self.limits.body_bytes
        return longest if route.body_bytes is None else min(longest, route.body_bytes)

    async def _receive(self, body: _Body, receive: Receive, asked: RequestHead, longest: int) -> None:
        if asked.heads.length > longest:
            raise _too_large(longest)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(Refusal.INVALID, "ended early", "body")
                    body.add(message.get("body", b""))
                    if len(body.content) > longest:
                        raise _too_large(longest)
                    more = message.get("more_body", False)
        except TimeoutError:
            says = f"did not come within {self.limits.body_seconds:g} s"
            raise Refused(Refusal.TOO_SLOW, says, "body") from None


class _Body:
    """What has come of a body; a large one is held against the budget of its client."""

    __slots__ = ("_budget", "_client", "_held", "content")

    def __init__(self, budget: ByteBudget, client: str) -> None:
        self._budget, self._client, self._held = budget, client, 0
        self.content: bytes | bytearray = b""

    def add(self, piece: bytes) -> None:
        """One more piece."""
        if not self.content:
            self.content = piece
        else:
            if isinstance(self.content, bytes):
                self.content = bytearray(self.content)
            self.content += piece
        if len(self.content) > LARGE_BODY:
            more = len(self.content) - self._held
            self._budget.take(self._client, more)
            self._held += more

    def let_go(self) -> None:
        """It is no longer needed."""
        self.content = b""
        if self._held:
            self._budget.give_back(self._client, self._held)
            self._held = 0


def _as_reply(page: PageReply) -> HandlerReply:
    headers = tuple((name.encode(), value.encode()) for name, value in page.headers.items())
    return HandlerReply(page.body, page.status, headers)


def _nowhere(_: Request) -> HandlerReply:
    raise AssertionError("pages are answered by their dashboard")


_NOTHING_SAID = ResponseSpec("", {})
_FILE = Route(_nowhere, "", _NOTHING_SAID, open=True)
_PAGE_GET = Route(_nowhere, "", _NOTHING_SAID)
_PAGE_POST = Route(_nowhere, "", _NOTHING_SAID, {JSON: {}})


def _too_large(longest: int) -> Refused:
    return Refused(Refusal.TOO_LARGE, f"is larger than {longest} bytes", "body")


def _request_ids() -> Iterator[bytes]:
    """Unique and short: a random start, then a number."""
    start = secrets.token_hex(4)
    return (f"{start}-{number:x}".encode() for number in count(1))


def _fields(asked: RequestHead, reply: HandlerReply, detail: str) -> dict[str, object]:
    return {
        "request_id": asked.heads.request_id.decode(),
        "door": "rest",
        "client": asked.client,
        "method": asked.method,
        "path": shortened(asked.path),
        "status": reply.status,
        "detail": shortened(detail),
    }


def _report(asked: RequestHead, reply: HandlerReply, detail: str) -> None:
    if _log.isEnabledFor(logging.INFO):
        _log.info("request", extra={"fields": _fields(asked, reply, detail)})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
