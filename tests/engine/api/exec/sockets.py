"""Plain sockets, as tests of streams read them."""

from __future__ import annotations

import socket


def until_closed(connection: socket.socket) -> bytes:
    """All that comes until the other side ends or resets the connection, which is closed here too."""
    found = b""
    try:
        while data := connection.recv(65536):
            found += data
    except ConnectionResetError:
        return found
    finally:
        connection.close()
    return found
