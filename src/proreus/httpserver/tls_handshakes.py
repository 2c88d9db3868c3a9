"""TLS handshakes of a door: counted, and bounded in time.

A connection that shakes no hands is none of the server's connections yet, so it would escape their limits.
A door may answer whoever is on this machine without TLS, too, on the same port: the first byte tells which of
the two a client speaks.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable

from proreus.httpserver.sockets import ACCEPTED_AT_ONCE

_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_HANDSHAKE = b"\x16"
"""The first byte of TLS, and of no request."""
_NOT_HERE = (
    b"HTTP/1.0 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"Client sent an HTTP request to an HTTPS server.\n"
)
_log = logging.getLogger(__name__)


class Handshakes:
    """Accepts connections and shakes hands; where too many take their time, the oldest gives way."""

    def __init__(
        self, context: ssl.SSLContext, most: int, seconds: float = _SECONDS, *, plain_here: bool = False
    ) -> None:
        """plain_here: whether clients of this machine are answered without TLS, too."""
        self._context, self._most, self._seconds = context, most, seconds
        self._plain_here = plain_here
        self._under_way: dict[asyncio.Task[None], None] = {}

    async def accept(self, listening: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
        """Accept connections, each for a protocol of its own, until cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        count = 0
        while True:
            count += 1
            if count % ACCEPTED_AT_ONCE == 0:  # where many wait, accepting does not wait for anything
                await asyncio.sleep(0)
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:  # the client has gone, or there are no more handles for now
                _log.warning("a connection could not be accepted: %s", error.strerror)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = loop.create_task(self._shake(accepted, make))
            self._under_way[task] = None
            task.add_done_callback(lambda done: self._under_way.pop(done, None))
            if len(self._under_way) > self._most:
                oldest = next(iter(self._under_way))
                del self._under_way[oldest]
                oldest.cancel()

    async def _shake(self, accepted: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._plain_here and not await self._speaks_tls(accepted):
                if _is_here(accepted):
                    await loop.connect_accepted_socket(make, accepted)
                else:
                    await loop.sock_sendall(accepted, _NOT_HERE)
                    accepted.close()
                return
            await loop.connect_accepted_socket(
                make, accepted, ssl=self._context, ssl_handshake_timeout=self._seconds
            )
        except asyncio.CancelledError:
            accepted.close()
            raise
        except (OSError, EOFError):  # no TLS, no patience, or no longer there
            accepted.close()

    async def _speaks_tls(self, accepted: socket.socket) -> bool:
        """By the first byte, which stays where it is; `OSError` where none comes."""
        loop = asyncio.get_running_loop()
        came = asyncio.Event()
        loop.add_reader(accepted, came.set)
        try:
            async with asyncio.timeout(self._seconds):
                await came.wait()
        finally:
            loop.remove_reader(accepted)
        first = accepted.recv(1, socket.MSG_PEEK)
        if not first:
            raise ConnectionError("the client has gone")
        return first == _HANDSHAKE


def _is_here(accepted: socket.socket) -> bool:
    """Whether the client is on this machine, which nobody else can listen in on."""
    address = ipaddress.ip_address(accepted.getpeername()[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
