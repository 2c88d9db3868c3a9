"""Health and metrics of a scheduler on a port of its own: /livez, /healthz, /readyz, /metrics, and no more.

Plain HTTP for the kubelet and Prometheus. Nothing is read of a request but its first line; whoever is slow or
says too much is hung up on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOST_HEAD = 8192
_SECONDS = 5.0
_MOST_AT_ONCE = 32


@dataclass(frozen=True)
class Answer:
    """What is said to a path."""

    text: str
    good: bool = True


def readiness(told: Sequence[str], *, synced: bool) -> Answer:
    """To /readyz: told is what is wrong or worth saying; synced: everything has been listed once."""
    if synced:
        return Answer("\n".join(["ok", *told]) + "\n")
    return Answer("not ready: " + "\n".join(told or ["still listing"]) + "\n", good=False)


Answers = Mapping[str, Callable[[], Answer]]
"""By path."""


class StatusServer:
    """Answers GET for a few paths."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, sock: Any) -> None:
        """On a socket that listens."""
        self._server = await asyncio.start_server(self._serve, sock=sock, limit=_MOST_HEAD)

    async def stop(self) -> None:
        """No more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._open >= _MOST_AT_ONCE:
                return
            self._open += 1
            try:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answered(head))
                    await writer.drain()
            finally:
                self._open -= 1
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            return
        finally:
            writer.close()

    def _answered(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
            return _written("405 Method Not Allowed", "GET\n")
        path = words[1].split(b"?", 1)[0].decode("latin-1")
        asked = self._answers.get(path)
        if asked is None:
            return _written("404 Not Found", " ".join(sorted(self._answers)) + "\n")
        answer = asked()
        status = "200 OK" if answer.good else "503 Service Unavailable"
        whole = _written(status, answer.text)
        return whole if words[0] == b"GET" else whole.split(b"\r\n\r\n", 1)[0] + b"\r\n\r\n"


def _written(status: str, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
