"""Ports of pods, which share the machine's network."""

from __future__ import annotations

from proreus.engine.runtimes.protocol import RuntimeRefused
from proreus.engine.wire.duplex import Connection

_LOOPBACK, _CONNECT_SECONDS = ("127.0.0.1", "::1"), 10.0


async def reach(port: int) -> Connection:
    """A connection to whoever listens there; raises `RuntimeRefused`."""
    trouble = ""
    for host in _LOOPBACK:
        try:
            return await Connection.open(host, port, _CONNECT_SECONDS)
        except OSError as error:
            trouble = trouble or error.strerror or str(error) or type(error).__name__
    raise RuntimeRefused(f"connecting to port {port} of the pod: {trouble}")
