"""TLS handshakes of a door: counted, and bounded in time.

A connection that shakes no hands is none of the server's connections yet, so it would escape their limits.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_log = logging.getLogger(__name__)


class Handshakes:
    """Accepts connections and shakes hands; where too many take their time, the oldest gives way."""

    def __init__(self, context: ssl.SSLContext, most: int, seconds: float = _SECONDS) -> None:
        self._context, self._most, self._seconds = context, most, seconds
        self._under_way: dict[asyncio.Task[None], None] = {}

    async def accept(self, listening: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
        """Accept connections, each for a protocol of its own, until cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
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
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                make, accepted, ssl=self._context, ssl_handshake_timeout=self._seconds
            )
        except asyncio.CancelledError:
            accepted.close()
            raise
        except (OSError, EOFError):  # no TLS, no patience, or no longer there
            accepted.close()
