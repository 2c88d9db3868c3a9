"""Whether small answers leave at once: the kernel's delay of each connection that a server has accepted."""

from __future__ import annotations

import asyncio
import socket

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def noted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """TCP_NODELAY of each, as they come."""
    seen: list[int] = []
    original = HttpToolsProtocol.connection_made

    def connection_made(self: HttpToolsProtocol, transport: asyncio.Transport) -> None:
        accepted = transport.get_extra_info("socket")
        seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        original(self, transport)

    monkeypatch.setattr(HttpToolsProtocol, "connection_made", connection_made)
    return seen
