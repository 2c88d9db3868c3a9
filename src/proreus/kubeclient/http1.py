"""HTTP/1.1 over kept connections, with TLS: the few things that a client of one API server needs, and fast.

A scheduler writes a binding and an event for each pod, and hears of it twice: the general HTTP clients of
Python spend more on that than the decision takes. Needs httptools.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

from proreus.kubeclient.config import ClusterConfig
from proreus.kubeclient.errors import Silent, TooLarge, Unreachable, Untrusted
from proreus.kubeclient.tls import ContextSource
from proreus.kubeclient.transport import Request, Response, Stream

_CONNECT_SECONDS = 5.0
_MOST_BODY = 512 << 20
"""Bytes of an answer; a page of 500 pods has some five million."""
_MOST_BUFFERED = 4 << 20
"""Bytes of a stream that wait to be read before the server is held up."""
_IDLE_SECONDS = 60.0
"""A connection that rested for longer is not used again: whoever stands in between may have dropped it."""
_LONGEST_HEAD = 1 << 16
_SILENT_MS = 20_000


@dataclass(frozen=True)
class ConnectionLimits:
    """How much at once."""

    connections: int = 64
    body: int = _MOST_BODY


class Http1Transport:
    """Requests to one server; each connection carries one at a time."""

    def __init__(
        self, config: ClusterConfig, limits: ConnectionLimits | None = None, agent: str = "proreus"
    ) -> None:
        self._config, self._limits, self._agent = config, limits or ConnectionLimits(), agent
        parts = urlsplit(config.server)
        assert parts.hostname is not None, "the configuration was checked"
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._tls = ContextSource(config) if parts.scheme == "https" else None
        self._idle: deque[tuple[float, _Connection]] = deque()
        self._room = asyncio.Semaphore(self._limits.connections)

    async def send(self, request: Request) -> Response:
        """The answer, read in full."""
        async with self._room:
            connection = await self._connection(request.seconds)
            done = False
            try:
                async with asyncio.timeout(request.seconds):
                    answer = await connection.exchange(
                        await self._head(request), request.body, self._limits.body
                    )
                done = True
            except TimeoutError:
                raise Unreachable(
                    f"{self._config.server} does not answer {request.method} {_path_of(request)} "
                    f"within {request.seconds:g} s",
                    sent=True,
                ) from None
            finally:
                self._give_back(connection, keep=done)
            return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """On a connection of its own, which ends with it."""
        connection = await self._open()
        try:
            try:
                async with asyncio.timeout(request.seconds):
                    yielded = await connection.begin(await self._head(request), request.body)
            except TimeoutError:
                raise Unreachable(
                    f"{self._config.server} does not begin to answer {_path_of(request)} "
                    f"within {request.seconds:g} s",
                    sent=True,
                ) from None
            yield yielded
        finally:
            connection.abort()

    async def close(self) -> None:
        """Let go of all connections."""
        while self._idle:
            self._idle.popleft()[1].abort()

    async def _head(self, request: Request) -> bytes:
        authorization = await self._config.credentials.header()
        lines = [
            f"{request.method} {self._path}{request.target} HTTP/1.1",
            f"Host: {self._authority}",
            f"User-Agent: {self._agent}",
            "Accept: application/json",
        ]
        if authorization:
            lines.append(f"Authorization: {authorization}")
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines += [f"Content-Type: {request.media_type}", f"Content-Length: {len(request.body)}"]
        head = "\r\n".join(lines)
        if head.count("\r\n") != len(lines) - 1 or "\0" in head:
            raise ValueError("a line break in a request's head")
        return f"{head}\r\n\r\n".encode("latin-1")

    async def _connection(self, seconds: float) -> _Connection:
        now = asyncio.get_running_loop().time()
        while self._idle:
            since, connection = self._idle.pop()
            if connection.alive and now - since < _IDLE_SECONDS:
                return connection
            connection.abort()
        return await self._open(seconds)

    def _give_back(self, connection: _Connection, *, keep: bool) -> None:
        if keep and connection.reusable:
            self._idle.append((asyncio.get_running_loop().time(), connection))
        else:
            connection.abort()

    async def _open(self, seconds: float = _CONNECT_SECONDS) -> _Connection:
        loop = asyncio.get_running_loop()
        context = None if self._tls is None else await self._tls.context()
        try:
            async with asyncio.timeout(min(seconds, _CONNECT_SECONDS)):
                if self._config.proxy:
                    connection = await self._through_proxy(context)
                else:
                    name = None if context is None else (self._config.server_name or self._host)
                    _, connection = await loop.create_connection(
                        _Connection, self._host, self._port, ssl=context, server_hostname=name
                    )
        except TimeoutError:
            raise Unreachable(f"{self._config.server} does not answer in time", sent=False) from None
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(
                f"{self._config.server}: its certificate is not trusted: {error.verify_message} "
                f"(certificate-authority of {self._config.source or 'the configuration'})",
                sent=False,
            ) from error
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise Unreachable(f"{self._config.server} cannot be reached: {why}", sent=False) from error
        connection.named = self._config.server
        return connection

    async def _through_proxy(self, context: ssl.SSLContext | None) -> _Connection:
        """A tunnel that the proxy opens for us; TLS runs inside it, so that it sees nothing."""
        loop = asyncio.get_running_loop()
        proxy = urlsplit(self._config.proxy)
        where = f"{self._host}:{self._port}"
        transport, tunnel = await loop.create_connection(_Tunnel, proxy.hostname or "", proxy.port or 80)
        try:
            transport.write(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode("latin-1"))
            line = await tunnel.answered
            if line.split()[1:2] != ["200"]:
                raise OSError(f"proxy {self._config.proxy}: {line[:200]}")
            connection = _Connection()
            transport.set_protocol(connection)
            inner: asyncio.Transport | None = transport
            if context is not None:
                name = self._config.server_name or self._host
                inner = await loop.start_tls(transport, connection, context, server_hostname=name)
            if inner is None:
                raise OSError(f"proxy {self._config.proxy}: it ended the connection")
            connection.connection_made(inner)
            return connection
        except BaseException:
            transport.abort()
            raise


def _path_of(request: Request) -> str:
    return request.target.partition("?")[0]


class _Tunnel(asyncio.Protocol):
    """What a proxy says before it lets bytes through."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The first line."""
        self._heard = b""

    def data_received(self, data: bytes) -> None:
        """Until the empty line; the server says nothing before we do."""
        self._heard += data
        if self.answered.done():
            return
        if b"\r\n\r\n" in self._heard:
            self.answered.set_result(self._heard.split(b"\r\n", 1)[0].decode("latin-1"))
        elif len(self._heard) > _LONGEST_HEAD:
            self.answered.set_exception(OSError("the proxy does not speak HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        """It said no."""
        if not self.answered.done():
            self.answered.set_exception(OSError("the proxy ended the connection"))


class _Connection(asyncio.Protocol):
    """One connection and the answer that is coming over it."""

    def __init__(self) -> None:
        self.named = "the server"
        self.alive = False
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answer: _Answer | None = None
        self._lost: str = ""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport, self.alive = cast("asyncio.Transport", transport), True  # uvloop's is no subclass
        sock = transport.get_extra_info("socket")
        if sock is not None:
            _keep_alive(sock)

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer."""
        if self._parser is None or self._answer is None:
            self.abort()  # nobody asked: what comes next could be taken for an answer to something else
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"{self.named} does not speak HTTP: {error}")

    def eof_received(self) -> bool:
        """No more comes."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, by whomever."""
        self.alive = self.reusable = False
        why = f": {exc}" if exc else ""
        self._lost = f"{self.named} ended the connection{why}"
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer.broken(self._lost)

    # What the transport calls.

    async def exchange(self, head: bytes, body: bytes, most: int) -> Response:
        """One request and its whole answer."""
        answer = self._begin(head, body, most, None)
        await answer.complete
        return Response(answer.status, b"".join(answer.parts), answer.headers)

    async def begin(self, head: bytes, body: bytes) -> Stream:
        """One request, and its answer as it comes."""
        answer = self._begin(head, body, 0, self._flow)
        await answer.head
        return answer

    def abort(self) -> None:
        """No more of it."""
        self.alive = self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def _begin(self, head: bytes, body: bytes, most: int, flow: Callable[[bool], None] | None) -> _Answer:
        if not self.alive or self._transport is None:
            raise Unreachable(self._lost or f"{self.named} ended the connection", sent=False)
        answer = _Answer(most, flow)
        answer.done = self._done
        self._answer = answer
        self._parser = httptools.HttpResponseParser(answer)
        answer.parser = self._parser
        self.reusable = False
        self._transport.write(head + body)
        return answer

    def _done(self, keep: bool) -> None:
        self._answer = None
        self.reusable = keep and self.alive

    def _fail(self, why: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.broken(why)
        self.abort()

    def _flow(self, go_on: bool) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            with suppress(RuntimeError):  # uvloop: it is paused, or goes on, already
                (transport.resume_reading if go_on else transport.pause_reading)()


class _Answer:
    """An answer as the parser tells it."""

    def __init__(self, most: int, flow: Callable[[bool], None] | None) -> None:
        loop = asyncio.get_running_loop()
        self._most, self._flow = most, flow
        self.parser: httptools.HttpResponseParser | None = None
        self.done: Callable[[bool], None] = _nothing
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self._size = self._head_size = 0
        self.complete: asyncio.Future[None] = loop.create_future()
        self.head: asyncio.Future[None] = loop.create_future()
        self._news = asyncio.Event()
        self._ended = self._paused = False
        self._broken: Exception | None = None

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of the head."""
        self._head_size += len(name) + len(value)
        if self._head_size > _LONGEST_HEAD:
            raise ValueError("the head of the answer is too long")
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is there."""
        assert self.parser is not None
        status = self.parser.get_status_code()
        if status >= 200:
            self.status = status
            if not self.head.done():
                self.head.set_result(None)
        else:
            self.headers.clear()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._size += len(body)
        self.parts.append(body)
        if self._flow is None:
            if self._size > self._most:
                raise ValueError(f"the answer is longer than {self._most} bytes")
            return
        self._news.set()
        if self._size > _MOST_BUFFERED and not self._paused:
            self._paused = True
            self._flow(False)

    def on_message_complete(self) -> None:
        """That was all."""
        if self.status < 200:  # 100 Continue and the like: the answer is still to come
            return
        assert self.parser is not None
        self._ended = True
        self._news.set()
        self.done(self.parser.should_keep_alive())
        if not self.complete.done():
            self.complete.set_result(None)

    # What the connection calls.

    def broken(self, why: str) -> None:
        """There is no more of it."""
        if self._most and self._size > self._most:
            self._broken = TooLarge(f"the answer is longer than {self._most} bytes", self.status)
        else:
            self._broken = Unreachable(why, sent=True)
        for waited in (self.head, self.complete):
            if not waited.done():
                waited.set_exception(self._broken)
                waited.exception()  # one of the two is never waited for
        self._news.set()

    # What a reader of a stream calls.

    async def chunks(self, idle_seconds: float) -> AsyncIterator[bytes]:
        """What has come since; see `Stream`."""
        while True:
            if self.parts:
                chunk = b"".join(self.parts)
                self.parts.clear()
                self._size = 0
                if self._paused and self._flow is not None:
                    self._paused = False
                    self._flow(True)
                yield chunk
            elif self._broken is not None:
                raise self._broken
            elif self._ended:
                return
            else:
                self._news.clear()
                try:
                    async with asyncio.timeout(idle_seconds):
                        await self._news.wait()
                except TimeoutError:
                    raise Silent(f"nothing came for {idle_seconds:g} s", sent=True) from None

    async def read(self) -> bytes:
        """All of a short one, such as a Status."""
        parts = []
        size = 0
        async for chunk in self.chunks(_CONNECT_SECONDS):
            size += len(chunk)
            if size > 1 << 20:
                break
            parts.append(chunk)
        return b"".join(parts)


def _nothing(_: bool) -> None:
    """Before it is told otherwise."""


def _keep_alive(sock: socket.socket) -> None:
    """A machine that is gone without a word is noticed in twenty seconds, on a watch that is silent too."""
    with suppress(OSError):  # a socket of another family
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, value in (
            ("TCP_KEEPIDLE", 10),
            ("TCP_KEEPINTVL", 5),
            ("TCP_KEEPCNT", 2),
            ("TCP_USER_TIMEOUT", _SILENT_MS),
        ):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
