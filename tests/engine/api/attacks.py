"""What hostile clients cost a server in a process of its own: its memory, and what an honest client waits.

python -m tests.engine.api.attacks
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from proreus.engine.api.application import create_app
from proreus.engine.api.options import ApiOptions
from proreus.engine.api.server import ApiServer
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore

_HEAD = b"HTTP/1.1\r\nhost: localhost\r\n"
_MEBIBYTE = 1024 * 1024


def _serve(told: Connection) -> None:
    async def main() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        options = ApiOptions()
        server = ApiServer(create_app(registry, options), options)
        await server.start()
        told.send(server.port)
        await asyncio.Event().wait()

    asyncio.run(main())


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def _send(connection: socket.socket, data: bytes, times: int = 1) -> None:
    """As much as the server takes."""
    try:
        for _ in range(times):
            connection.sendall(data)
    except OSError:
        return


def trailers(port: int) -> None:
    """100 MB of trailers behind a request."""
    with _connect(port) as connection:
        _send(connection, b"GET /healthz " + _HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n")
        _send(connection, b"x: y\r\n" * 20_000, 800)


def bodies(port: int) -> None:
    """200 bodies of nearly 3 MiB, none of which ends."""
    head = b"POST /api/v1/namespaces/default/pods " + _HEAD + b"content-type: application/json\r\n"
    length = 3 * _MEBIBYTE
    opened = []
    for _ in range(200):
        connection = _connect(port)
        _send(connection, head + b"content-length: %d\r\n\r\n" % length + b" " * (length - 10))
        opened.append(connection)
    time.sleep(3)
    for connection in opened:
        connection.close()


def idlers(port: int) -> None:
    """2,000 connections that send half a head."""
    opened = []
    for _ in range(2000):
        connection = _connect(port)
        _send(connection, b"GET /healthz " + _HEAD + b"x: ")
        opened.append(connection)
    time.sleep(3)
    for connection in opened:
        connection.close()


def watchers(port: int) -> None:
    """300 watchers that read nothing while 2,000 objects of 4 kB come."""
    opened = []
    for _ in range(300):
        connection = _connect(port)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        _send(connection, b"GET /api/v1/configmaps?watch=1 " + _HEAD + b"\r\n")
        opened.append(connection)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for number in range(2000):
            body = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 4000}}
            client.post("/api/v1/namespaces/default/configmaps", json=body)
    for connection in opened:
        connection.close()


def unread(port: int) -> None:
    """50 connections that ask for 180 kB a hundred times and take nothing."""
    opened = []
    for _ in range(50):
        connection = _connect(port)
        connection.settimeout(0.2)
        _send(connection, (b"GET /openapi/v2 " + _HEAD + b"\r\n") * 100)
        opened.append(connection)
    time.sleep(3)
    for connection in opened:
        connection.close()


def deep(port: int) -> None:
    """200 bodies of 3 MB of brackets."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for text in (b"[" * 3_000_000, b'{"a":' * 500_000) * 20:
            typed = {"content-type": "application/json"}
            client.post("/api/v1/namespaces/default/pods", content=text, headers=typed)


ATTACKS: tuple[Callable[[int], None], ...] = (trailers, bodies, idlers, watchers, unread, deep)


def _memory(process: int) -> float:
    """Resident, in MiB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / _MEBIBYTE


def measure(attack: Callable[[int], None]) -> dict[str, object]:
    """One attack on a fresh server."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    port: int = ours.recv()
    assert server.pid is not None
    before = most = _memory(server.pid)
    waits: list[float] = []
    attacking = threading.Thread(target=attack, args=(port,))
    attacking.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as honest:
        while attacking.is_alive() or len(waits) < 50:
            began = time.perf_counter()
            assert honest.get("/api/v1/namespaces/default").status_code == 200
            waits.append(time.perf_counter() - began)
            most = max(most, _memory(server.pid))
            time.sleep(0.02)
    attacking.join()
    server.terminate()
    waits.sort()
    return {
        "attack": attack.__name__,
        "before_mib": round(before),
        "most_mib": round(most),
        "honest_p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1),
        "honest_max_ms": round(waits[-1] * 1e3, 1),
    }


if __name__ == "__main__":
    for one in ATTACKS:
        print(json.dumps(measure(one)), flush=True)  # noqa: T201 - a command
