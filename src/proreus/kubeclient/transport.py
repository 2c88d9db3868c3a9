"""What the client needs of the network, and what an answer is: `http1` is real, `fake` in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an API."""

    method: str
    target: str
    """Path and query below the server's address."""
    body: bytes = b""
    media_type: str = "application/json"
    seconds: float = 30.0
    """For the whole answer; of a stream, for its head."""


@dataclass(frozen=True, slots=True)
class Response:
    """What was answered."""

    status: int
    body: bytes = field(repr=False, default=b"")
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""


class Stream(Protocol):
    """An answer that is read as it comes."""

    @property
    def status(self) -> int:
        """Of the head, which is there."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name."""
        ...

    def chunks(self, idle_seconds: float) -> AsyncIterator[bytes]:
        """Until it ends; an Unreachable where it breaks, or where nothing comes for so long."""
        ...

    async def read(self) -> bytes:
        """All of a short one."""
        ...


class Transport(Protocol):
    """Carries requests to one server."""

    async def send(self, request: Request) -> Response:
        """The answer; an Unreachable where there is none."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """The answer, as it comes."""
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...
