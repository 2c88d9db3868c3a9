"""What every request passes: is it meant for this door, who asks, is there room, and what became of it.

Bare ASGI around everything: refusals become Status objects, changes and refusals go to the audit log.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from proreus.engine.api.server.audit import AuditLog
from proreus.engine.api.server.authentication import Authenticator
from proreus.engine.api.server.concurrency_limit import Seats
from proreus.engine.api.server.options import ApiLimits
from proreus.engine.api.server.reply import (
    Answer,
    Header,
    Reply,
    Stream,
    Switch,
    encode,
    send_reply,
    send_stream,
)
from proreus.engine.api.server.request import ApiRequest, Receive, Scope, Send
from proreus.engine.api.server.status import (
    RETRY_SECONDS,
    RequestTimeout,
    Unauthorized,
    failure,
    internal_error,
)
from proreus.engine.objects.errors import Forbidden, StatusError, TooLarge, TooManyRequests, Unserviceable
from proreus.engine.objects.offload import on_behalf
from proreus.engine.store.protocol import StoreError
from proreus.httpserver.byte_budget import ByteBudget
from proreus.httpserver.host_names import is_named

_log = logging.getLogger(__name__)
_OPEN_PATHS = frozenset({b"/healthz", b"/livez", b"/readyz"})
_READS = frozenset({"GET", "HEAD"})
_SWITCHED = 101
_LONGEST_TOLD = 1024
"""Of what a client has sent, in logs."""
_FULL = "too many requests are under way; try again"
Endpoint = Callable[[ApiRequest], Awaitable[Answer]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass
class Counts:
    """What the door has done, for its metrics."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By verb and status."""
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By verb; streams are not in it."""
    working: int = 0
    streams: int = 0
    switched: int = 0
    """Connections that have left HTTP for exec, attach or port-forward."""


class Middleware:
    """Runs endpoints behind the checks; shared by every route of the door."""

    def __init__(
        self,
        doorkeeper: Authenticator,
        names: frozenset[str] | None,
        limits: ApiLimits,
        audit: AuditLog | None,
    ) -> None:
        self._doorkeeper, self._names, self._limits, self._audit = doorkeeper, names, limits, audit
        self._budget = ByteBudget(limits.held_bytes, lambda: TooManyRequests(_FULL))
        self._seats = Seats(limits.concurrency, limits.per_client, _FULL)
        self._health_seats = Seats(limits.health, limits.health, _FULL)
        self.counts = Counts()

    def around(self, endpoint: Endpoint) -> GatedRequest:
        """The endpoint as an ASGI application."""
        return GatedRequest(self, endpoint)

    def before(self, app: Application) -> Application:
        """A page for anybody, which holds nothing: under the names of this server alone."""

        async def named(scope: Scope, receive: Receive, send: Send) -> None:
            asked = ApiRequest(scope, receive, self._limits, self._budget)
            try:
                self._check_name(asked)
            except Forbidden as error:
                await self._finish(asked, self._failed(error, asked), time.perf_counter(), receive, send)
            else:
                await app(scope, receive, send)

        return named

    async def run(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        asked = ApiRequest(scope, receive, self._limits, self._budget)
        began = time.perf_counter()
        seats = self._health_seats if asked.path in _OPEN_PATHS else self._seats
        behalf = on_behalf.set(asked.client or "?")
        try:
            self._admit(asked)
            with seats.seated(asked.client):
                self.counts.working += 1
                try:
                    answer = await endpoint(asked)
                finally:
                    self.counts.working -= 1
        except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
            answer = self._failed(error, asked)
        finally:
            asked.let_go()
            on_behalf.reset(behalf)
        await self._finish(asked, answer, began, receive, send)

    async def _finish(
        self, asked: ApiRequest, answer: Answer, began: float, receive: Receive, send: Send
    ) -> None:
        verb = asked.doing or asked.method.lower()
        if isinstance(answer, Stream):
            refused = await self._stream(answer, verb, receive, send)
            if refused is None:
                return
            answer = self._failed(refused, asked)
        if isinstance(answer, Switch):
            self.counts.requests[verb, _SWITCHED] += 1
            self.counts.switched += 1
            if self._audit is not None:
                self._write_down(self._audit, asked, verb, _SWITCHED, time.perf_counter() - began)
            try:
                await answer.run()
            finally:
                self.counts.switched -= 1
            return
        self.counts.requests[verb, answer.status] += 1
        self.counts.seconds[verb] += time.perf_counter() - began
        if self._audit is not None and (asked.method not in _READS or answer.status in (401, 403, 429)):
            self._write_down(self._audit, asked, verb, answer.status, time.perf_counter() - began)
        if asked.method == "HEAD":
            answer = Reply(b"", answer.status, answer.media_type, answer.headers)
        await send_reply(answer, send)

    async def _stream(self, answer: Stream, verb: str, receive: Receive, send: Send) -> StatusError | None:
        """Why nothing of it was sent, if so."""
        self.counts.requests[verb, 200] += 1
        self.counts.streams += 1
        try:
            await send_stream(answer, receive, send)
        except StatusError as refused:
            self.counts.requests[verb, 200] -= 1
            return refused
        finally:
            self.counts.streams -= 1
        return None

    def _admit(self, asked: ApiRequest) -> None:
        """Refuse what a web page may have sent, and whoever is not known."""
        self._check_name(asked)
        if asked.site in (b"cross-site", b"same-site"):
            raise Forbidden("pages of other sites are not answered")
        if asked.origin is not None and asked.origin.partition(b"://")[2] != asked.host:
            raise Forbidden("pages of other sites are not answered")
        if asked.path not in _OPEN_PATHS:
            asked.identity = self._doorkeeper.identify(asked.authorization, asked.client)

    def _check_name(self, asked: ApiRequest) -> None:
        """A page under another name might be led here by its own name server."""
        if self._names is not None and (asked.host is None or not is_named(asked.host, self._names)):
            raise Forbidden(
                f"{(asked.host or b'').decode('latin-1')[:200]!r} is not a name of this server; "
                "--allowed-host NAME makes it one"
            )

    def _write_down(self, audit: AuditLog, asked: ApiRequest, verb: str, status: int, seconds: float) -> None:
        shown = self._doorkeeper.without_tokens
        audit.write(
            {
                "user": asked.identity.name if status != 401 else "",
                "role": asked.identity.role.value if status != 401 else "",
                "client": asked.client,
                "agent": shown(asked.agent[:_LONGEST_TOLD]),
                "verb": verb,
                "path": shown(asked.path[:_LONGEST_TOLD]),
                "status": status,
                "milliseconds": round(seconds * 1e3, 3),
            },
            time.time(),
        )

    def _failed(self, error: Exception, asked: ApiRequest) -> Reply:
        """What to answer where there is no answer."""
        if isinstance(error, StoreError):
            error = Unserviceable(f"the store cannot do it now: {error}")
        if not isinstance(error, StatusError):
            path = self._doorkeeper.without_tokens(asked.path[:_LONGEST_TOLD])
            _log.error("%s %s failed", asked.method, path[:200], exc_info=error)
            return Reply(encode(internal_error()), 500)
        headers: tuple[Header, ...] = ()
        match error:
            case Unauthorized():
                headers = ((b"www-authenticate", b'Bearer realm="proreus"'),)
            case TooManyRequests():  # where the store is away, kubectl would ask ten times before it says so
                headers = ((b"retry-after", b"%d" % RETRY_SECONDS),)
            case TooLarge() | RequestTimeout():
                headers = ((b"connection", b"close"),)
            case _:
                pass
        return Reply(encode(failure(error)), error.code, headers=headers)


class GatedRequest:
    """An endpoint behind the gate."""

    def __init__(self, gate: Middleware, endpoint: Endpoint) -> None:
        self._gate, self._endpoint = gate, endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        await self._gate.run(self._endpoint, scope, receive, send)
