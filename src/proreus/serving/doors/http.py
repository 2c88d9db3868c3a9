"""The HTTP side of the REST door, without knowing what is asked: bodies, limits, errors, request ids.

Bare ASGI: the hot path makes one pass over the headers and one over the body, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any, assert_never

from proreus.serving.admission import Admission
from proreus.serving.metrics import Measurements
from proreus.serving.values import ENCODER, ErrorAnswer, Refusal, Refused, invalid

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON, BYTES = "application/json", "application/octet-stream"
_JSON_HEADER: Header = (b"content-type", b"application/json")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler gets."""

    body: bytes
    media_type: str
    part: str
    """What stands in the path where the route has braces."""
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler gives."""

    body: bytes
    status: int = 200
    headers: tuple[Header, ...] = (_JSON_HEADER,)

    @property
    def closes(self) -> bool:
        """Whether the connection ends with it."""
        return (b"connection", b"close") in self.headers


Schema = type[Any] | dict[str, Any]
"""What a body is: a type, written as JSON, or OpenAPI's own words for anything else."""


@dataclass(frozen=True)
class Answer:
    """What a route answers with when it refuses nothing."""

    says: str
    content: Mapping[str, Schema]
    """By media type."""


@dataclass(frozen=True)
class Route:
    """One method of one path: who answers it, and all that its description says (see `openapi`)."""

    handle: Callable[[Request], Reply]
    summary: str
    answer: Answer
    takes: Mapping[str, Schema] = field(default_factory=dict)
    """The body, by media type; none: a body is not read."""
    own_refusals: tuple[Refusal, ...] = ()
    """Beside those that any request, or any body, may meet."""
    blocking: bool = False
    """Whether it may take long and so gets a thread."""
    open: bool = False
    """Whether it needs no token and counts towards no rate: probes."""

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why a request of it may get no answer."""
        any_request = () if self.open else (Refusal.UNAUTHENTICATED, Refusal.EXHAUSTED)
        return (*any_request, *(_BODY_REFUSALS if self.takes else ()), *self.own_refusals)


_BODY_REFUSALS = (Refusal.INVALID, Refusal.TOO_SLOW, Refusal.TOO_LARGE, Refusal.WRONG_TYPE)
Routes = dict[str, dict[str, Route]]
"""By path, then by method. A path may have one part in braces, which stands for anything but a slash."""


@dataclass(frozen=True)
class HttpLimits:
    """What a client may ask of the REST door."""

    body_bytes: int = 32 * 1024 * 1024
    concurrency: int = 1024
    """Requests under way at once."""
    connections: int = 4096
    """Connections at once; more are closed at once."""
    body_seconds: float = 10.0
    """How long the head of a request may take to come, and how long its body."""
    log_every: int = 0
    """Log one of so many answered requests; 0: none."""


@dataclass
class HttpApp:
    """An ASGI application over a table of routes."""

    routes: Routes
    admission: Admission
    measurements: Measurements
    limits: HttpLimits = field(default_factory=HttpLimits)
    _under_way: int = field(default=0, init=False)
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="rest"), init=False
    )

    def __post_init__(self) -> None:
        self._exact = {path: methods for path, methods in self.routes.items() if "{" not in path}
        self._patterns = [
            (re.compile(re.sub(r"\\{.*\\}", "([^/]+)", re.escape(path))), methods)
            for path, methods in self.routes.items()
            if "{" in path
        ]
        self._ids = _request_ids()
        self.measurements.gauge(
            "proreus_rest_requests", "REST requests under way.", lambda: float(self._under_way)
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
        """Let go of the threads."""
        self._threads.shutdown(wait=True)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        asked = Asked(scope["method"], scope["path"], scope["headers"], client[0] if client else "")
        self._under_way += 1
        try:
            route, part = self._find(asked.path, asked.method)
            self._admit(route, asked)
            body = await self._body(receive, asked.heads) if route.takes else b""
            request = Request(body, asked.heads.media_type or JSON, part, asked.heads.seconds_left())
            if route.blocking:
                loop = asyncio.get_running_loop()
                reply = await loop.run_in_executor(self._threads, route.handle, request)
            else:
                reply = route.handle(request)
        except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
            reply = self._failed(error, asked)
        finally:
            self._under_way -= 1
        headers = self._finished(reply, asked)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    def quick(self, method: str, path: str) -> Route | None:
        """The route that answers at once, if this is such a request: see `quick`."""
        route = self._exact.get(path, {}).get(method)
        return None if route is None or route.blocking or not route.takes else route

    def answer_now(self, route: Route, asked: Asked, body: bytes) -> tuple[Reply, list[Header]]:
        """The reply to a whole request of a route that does not block, and its headers."""
        try:
            self._admit(route, asked)
            if len(body) > self.limits.body_bytes:
                raise self._too_large()
            request = Request(body, asked.heads.media_type or JSON, "", asked.heads.seconds_left())
            reply = route.handle(request)
        except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
            reply = self._failed(error, asked)
        return reply, self._finished(reply, asked)

    def _admit(self, route: Route, asked: Asked) -> None:
        if not route.open:
            if not self.admission.open:
                self.admission.admit(asked.heads.authorization, asked.client)
            if self._under_way > self.limits.concurrency:
                says = f"more than {self.limits.concurrency} requests are under way"
                raise Refused(Refusal.EXHAUSTED, says)
        media_type = asked.heads.media_type or JSON
        if route.takes and media_type not in route.takes:
            says = f"{media_type!r} is not {' or '.join(route.takes)}"
            raise Refused(Refusal.WRONG_TYPE, says, "content-type")

    def _failed(self, error: Exception, asked: Asked) -> Reply:
        """What to answer where there is no answer."""
        request_id = self._id_of(asked)
        if isinstance(error, Refused):
            self.measurements.count("proreus_refusals", door="rest", reason=error.refusal.value)
            reply = _refusal(error, request_id)
            _report(asked, reply, str(error))
            return reply
        self.measurements.count("proreus_failures", door="rest")
        says = ErrorAnswer("the service failed; its log says why", "failed", "", request_id.decode())
        reply = Reply(ENCODER.encode(says), 500)
        _log.error("request failed", exc_info=error, extra={"fields": _fields(asked, reply, str(error))})
        return reply

    def _finished(self, reply: Reply, asked: Asked) -> list[Header]:
        """The headers of a reply; its time is taken."""
        took = time.perf_counter() - asked.began
        self.measurements.took("rest", "whole", took)
        request_id = self._id_of(asked)
        every = self.limits.log_every
        if every and reply.status < 400 and secrets.randbelow(every) == 0:
            _report(asked, reply, f"{took * 1e3:.3f} ms")
        length = b"%d" % len(reply.body)
        return [*reply.headers, (b"content-length", length), (b"x-request-id", request_id)]

    def _id_of(self, asked: Asked) -> bytes:
        if not asked.heads.request_id:
            asked.heads.request_id = next(self._ids)
        return asked.heads.request_id

    def _find(self, path: str, method: str) -> tuple[Route, str]:
        methods, part = self._exact.get(path), ""
        if methods is None:
            for pattern, candidates in self._patterns:
                found = pattern.fullmatch(path)
                if found is not None:
                    methods, part = candidates, found[1]
                    break
            else:
                raise Refused(Refusal.NOT_FOUND, f"there is no {path!r}; see /openapi.json", "path")
        route = methods.get(method)
        if route is None:
            raise _WrongMethod(path, tuple(methods))
        return route, part

    async def _body(self, receive: Receive, heads: _Heads) -> bytes:
        if heads.length > self.limits.body_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await self._whole_body(receive)
        except TimeoutError:
            says = f"did not come within {self.limits.body_seconds:g} s"
            raise Refused(Refusal.TOO_SLOW, says, "body") from None

    async def _whole_body(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(Refusal.INVALID, "ended early", "body")
            chunk = message.get("body", b"")
            chunks.append(chunk)
            size += len(chunk)
            if size > self.limits.body_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(chunks)

    def _too_large(self) -> Refused:
        return Refused(Refusal.TOO_LARGE, f"is larger than {self.limits.body_bytes} bytes", "body")


class Asked:
    """What is known of a request before its body is read."""

    __slots__ = ("began", "client", "heads", "method", "path")

    def __init__(self, method: str, path: str, headers: list[Header], client: str) -> None:
        self.began = time.perf_counter()
        self.method, self.path, self.client = method, path, client
        self.heads = _Heads(headers)


class _WrongMethod(Refused):
    """A path that exists, asked in another way than it can be."""

    def __init__(self, path: str, allowed: tuple[str, ...]) -> None:
        super().__init__(Refusal.WRONG_METHOD, f"{path} takes {' or '.join(allowed)}", "method")
        self.allowed = allowed


class _Heads:
    """The few headers that matter, from one pass over all of them."""

    __slots__ = ("authorization", "deadline", "length", "media_type", "request_id")

    def __init__(self, headers: list[Header]) -> None:
        self.authorization: bytes | None = None
        self.deadline: bytes | None = None
        self.media_type = ""
        self.length = 0
        self.request_id = b""
        for name, value in headers:
            if name == b"content-type":
                self.media_type = value.decode("latin-1").partition(";")[0].strip().lower()
            elif name == b"content-length":
                self.length = int(value) if value.isdigit() else 0
            elif name == b"authorization":
                self.authorization = value
            elif name == b"x-deadline-ms":
                self.deadline = value
            elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                self.request_id = value

    def seconds_left(self) -> float:
        """What the client's deadline leaves."""
        if self.deadline is None:
            return math.inf
        try:
            milliseconds = float(self.deadline)
        except ValueError:
            milliseconds = math.nan
        if not 0 < milliseconds < math.inf:
            raise invalid("x-deadline-ms", "is not a number above 0")
        return milliseconds / 1e3


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


def status_of(refusal: Refusal) -> int:
    """The HTTP status of a refusal."""
    match refusal:
        case Refusal.INVALID:
            return 400
        case Refusal.UNAUTHENTICATED:
            return 401
        case Refusal.NOT_FOUND:
            return 404
        case Refusal.WRONG_METHOD:
            return 405
        case Refusal.TOO_SLOW:
            return 408
        case Refusal.CONFLICT:
            return 409
        case Refusal.TOO_LARGE:
            return 413
        case Refusal.WRONG_TYPE:
            return 415
        case Refusal.EXHAUSTED:
            return 429
        case Refusal.UNAVAILABLE:
            return 503
        case _:
            assert_never(refusal)


def _refusal(refused: Refused, request_id: bytes) -> Reply:
    answer = ErrorAnswer(str(refused), refused.refusal.value, refused.field, request_id.decode())
    headers: list[Header] = [_JSON_HEADER]
    match refused.refusal:
        case Refusal.WRONG_METHOD if isinstance(refused, _WrongMethod):
            headers.append((b"allow", ", ".join(refused.allowed).encode()))
        case Refusal.UNAUTHENTICATED:
            headers.append((b"www-authenticate", b"Bearer"))
        case Refusal.EXHAUSTED | Refusal.UNAVAILABLE:
            headers.append((b"retry-after", b"1"))
        case Refusal.TOO_LARGE | Refusal.TOO_SLOW:
            headers.append((b"connection", b"close"))
        case _:
            pass
    return Reply(ENCODER.encode(answer), status_of(refused.refusal), tuple(headers))


def _request_ids() -> Iterator[bytes]:
    """Unique and short: a random start, then a number."""
    start = secrets.token_hex(4)
    return (f"{start}-{number:x}".encode() for number in count(1))


def _fields(asked: Asked, reply: Reply, detail: str) -> dict[str, object]:
    return {
        "request_id": asked.heads.request_id.decode(),
        "door": "rest",
        "method": asked.method,
        "path": asked.path,
        "status": reply.status,
        "detail": detail,
    }


def _report(asked: Asked, reply: Reply, detail: str) -> None:
    if _log.isEnabledFor(logging.INFO):
        _log.info("request", extra={"fields": _fields(asked, reply, detail)})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
