"""Listening sockets."""

from __future__ import annotations

import errno
import socket

from proreus.httpserver.host_names import bare
from proreus.model.errors import WorkError

BACKLOG = 4096
"""Connections that wait to be accepted; what the system allows may be less."""
ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before whoever is there already has a turn."""


class AddressInUse(WorkError):
    """Somebody listens there already."""


def listen(host: str, port: int, what: str = "REST") -> socket.socket:
    """A listening socket; an address in use or unknown is one clear line."""
    address = bare(host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Where a socket says that it is TCP, asyncio sends small answers at once; else each waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((address, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        kind = AddressInUse if error.errno == errno.EADDRINUSE else WorkError
        raise kind(f"{what} cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listening
