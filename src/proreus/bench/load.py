"""The load on a service: many clients in one process and one loop, with requests that are made beforehand.

Every client is one connection that sends a request, reads the whole answer, and sends again (a closed
loop). The bytes of requests are prepared, answers are only measured out, so the generator spends a few
microseconds per request and is not what is measured. It is the same for every service over HTTP/1.1; for
gRPC it speaks the frames of HTTP/2 itself (`load_http2`).

Run as a process of its own: `python -m proreus.bench.load` reads a plan and prints a result, as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass
from typing import Protocol

from proreus.bench.load_http2 import Http2Exchange

_RECEIVE = 1 << 18


@dataclass(frozen=True)
class LoadPlan:
    """What to ask, how often at once, and for how long."""

    host: str
    port: int
    path: str
    bodies: tuple[str, ...]
    """Base64; client k starts with body k and goes round."""
    protocol: str = "http1"
    """http1, grpc, or grpcio: the same calls as grpc, by that library's client."""
    media_type: str = "application/json"
    clients: int = 64
    seconds: float = 3.0
    warm_seconds: float = 0.5
    """Asked before the measurement begins."""
    token: str = ""
    """Sent with every request of HTTP/1.1; "": none."""


@dataclass(frozen=True)
class LoadResult:
    requests: int
    warmed: int
    """Requests before the measurement began."""
    seconds: float
    failures: int
    p50: float
    p99: float
    generator_share: float
    """Of one core that the generator used."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


class Exchange(Protocol):
    """One connection's side of a protocol."""

    def greeting(self) -> bytes:
        """What is sent once, before the first request."""
        ...

    def request(self, body: bytes) -> bytes:
        """The bytes that ask for one answer."""
        ...

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """(+1 for a complete answer, -1 for a failure, 0 for neither yet; bytes to send back)."""
        ...

    @property
    def over(self) -> bool:
        """Whether the server ends the connection with this answer."""
        ...


class Http1Exchange:
    """Requests of HTTP/1.1 on a connection that stays open."""

    def __init__(self, plan: LoadPlan) -> None:
        token = f"Authorization: Bearer {plan.token}\r\n" if plan.token else ""
        self._head = (
            f"POST {plan.path} HTTP/1.1\r\nHost: {plan.host}:{plan.port}\r\n{token}"
            f"Content-Type: {plan.media_type}\r\nContent-Length: %d\r\n\r\n"
        ).encode()
        self._buffer = b""
        self.over = False

    def greeting(self) -> bytes:
        return b""

    def request(self, body: bytes) -> bytes:
        """The request as it goes over the wire."""
        return self._head % len(body) + body

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """Looks for the end of the answer by its content-length."""
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            self._buffer = buffer
            return 0, b""
        head = buffer[:end].lower()
        at = head.find(b"content-length:") + 15
        stop = head.find(b"\r\n", at)
        length = int(head[at : stop if stop >= 0 else end])
        if len(buffer) < end + 4 + length:
            self._buffer = buffer
            return 0, b""
        self._buffer = b""
        self.over = b"connection: close" in head
        return (1 if buffer[:10] in (b"HTTP/1.1 2", b"HTTP/1.0 2") else -1), b""


class _Client:
    """A connection, its requests, and when the one under way was sent."""

    def __init__(self, plan: LoadPlan, index: int, bodies: list[bytes]) -> None:
        self._plan, self._bodies, self._next = plan, bodies, index
        self.sent_at = 0.0
        self.connect()

    def connect(self) -> None:
        """A new connection, greeted."""
        plan = self._plan
        self.exchange: Exchange = (
            Http2Exchange(plan.host, plan.port, plan.path) if plan.protocol == "grpc" else Http1Exchange(plan)
        )
        self.socket = socket.create_connection((plan.host, plan.port), timeout=10.0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(self.exchange.greeting())

    def ask(self, selector: selectors.BaseSelector) -> None:
        """Send the next request, over a new connection where the server ended the last one."""
        self.sent_at = time.perf_counter()
        if self.exchange.over:
            selector.unregister(self.socket)
            self.socket.close()
            self.connect()
            selector.register(self.socket, selectors.EVENT_READ, self)
        body = self._bodies[self._next % len(self._bodies)]
        self._next += 1
        self.socket.sendall(self.exchange.request(body))


def generate_load(plan: LoadPlan) -> LoadResult:
    """Ask for as long as the plan says; every client has at most one request under way."""
    bodies = [base64.b64decode(body) for body in plan.bodies]
    if plan.protocol == "grpcio":
        return _by_grpcio(plan, bodies)
    clients = [_Client(plan, index, bodies) for index in range(plan.clients)]
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.ask(selector)
        warm, _ = _go_round(selector, time.perf_counter() + plan.warm_seconds)
        began, cpu = time.perf_counter(), time.process_time()
        times, failures = _go_round(selector, began + plan.seconds)
        took, spent = time.perf_counter() - began, time.process_time() - cpu
    for client in clients:
        client.socket.close()
    return _result(times, len(warm), (took, spent / took), failures)


def _by_grpcio(plan: LoadPlan, bodies: list[bytes]) -> LoadResult:
    from proreus.bench.load_grpcio import ask_by_grpcio  # nobody else needs the library

    cpu = time.process_time()
    seconds = (plan.warm_seconds, plan.seconds)
    address = f"{plan.host}:{plan.port}"
    times, warmed, took = asyncio.run(ask_by_grpcio(address, plan.path, bodies, plan.clients, seconds))
    share = (time.process_time() - cpu) / (took + plan.warm_seconds)
    return _result(times, warmed, (took, share), 0)


def _result(times: list[float], warmed: int, spent: tuple[float, float], failures: int) -> LoadResult:
    """spent: seconds, and the generator's share of one core."""
    times.sort()
    return LoadResult(
        requests=len(times),
        warmed=warmed,
        seconds=spent[0],
        failures=failures,
        p50=times[len(times) // 2] if times else float("inf"),
        p99=times[int(len(times) * 0.99)] if times else float("inf"),
        generator_share=spent[1],
    )


def _go_round(selector: selectors.BaseSelector, until: float) -> tuple[list[float], int]:
    """Answer times until then, and how many answers were refusals or cut off."""
    times: list[float] = []
    failures = 0
    clock = time.perf_counter
    while clock() < until:
        for key, _ in selector.select(0.05):
            client: _Client = key.data
            data = client.socket.recv(_RECEIVE)
            if not data:
                raise ConnectionError("the service hung up")
            done, reply = client.exchange.feed(data)
            if reply:
                client.socket.sendall(reply)
            if done:
                if done > 0:
                    times.append(clock() - client.sent_at)
                else:
                    failures += 1
                client.ask(selector)
    return times, failures


def main() -> None:
    """Plan in, result out, as JSON."""
    fields = json.loads(sys.stdin.read())
    result = generate_load(LoadPlan(**{**fields, "bodies": tuple(fields["bodies"])}))
    sys.stdout.write(json.dumps(asdict(result)) + "\n")


if __name__ == "__main__":
    main()
