"""What hostile clients cost a server in a process of its own: its memory, how long its loop is held, and what
an honest client waits, which has a process of its own too. At the same time another honest client asks a
second server that nobody attacks: what that one waits is the load of the machine, not ours.

    python -m tests.engine.api.attacks [--seconds 5] [name ...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import httpx
import uvloop

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.loop_watchdog import Watchdog
from proreus.engine.api.server.server import ApiServer
from proreus.engine.gc_tuning import GcTuning
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore
from tests.engine.api.heavy import HEAVY, Heavy
from tests.engine.api.live import as_up
from tests.engine.api.quiet_logs import QuietLogs

_HEAD = b"HTTP/1.1\r\nhost: localhost\r\n"
_MEBIBYTE = 1024 * 1024
_SPAWN = multiprocessing.get_context("spawn")
Attack = Callable[[int, float], None]


def _serve(connection: Connection) -> None:
    """A server as `proreus up` has it: its loop, its searches for garbage, TLS beside plain requests."""

    async def main(folder: Path) -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        await registry.create(
            POD,
            {
                "metadata": {"name": "quiet", "namespace": "default"},
                "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            },
        )
        options = as_up(folder)
        server = ApiServer(create_app(registry, options, ApiDependencies(logs=QuietLogs())), options)
        await server.start()
        watchdog = Watchdog(0.005)
        watching = asyncio.create_task(watchdog.run())
        connection.send(server.port)
        while not connection.poll():
            await asyncio.sleep(0.05)
        watching.cancel()
        await server.stop()
        connection.send((watchdog.longest, watchdog.own, watchdog.process, time.process_time()))

    with (
        tempfile.TemporaryDirectory() as name,
        GcTuning().kept_short(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(main(Path(name)))


def _ask_honestly(port: int, connection: Connection) -> None:
    """What a client waits that reads, writes and asks after the server's health, one after the other."""
    waits: list[float] = []
    refused = 0
    path = "/api/v1/namespaces/default/configmaps/honest"
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        client.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "honest"}})
        connection.send("ready")
        number = 0
        while not connection.poll():
            number += 1
            began = time.perf_counter()
            match number % 3:
                case 0:
                    answer = client.get("/api/v1/namespaces/default")
                case 1:
                    merge = {"content-type": "application/merge-patch+json"}
                    change = json.dumps({"data": {"number": str(number)}})
                    answer = client.patch(path, content=change, headers=merge)
                case _:
                    answer = client.get("/livez")
            waits.append(time.perf_counter() - began)
            refused += answer.status_code != 200
            time.sleep(0.01)
    connection.send((waits, refused))


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def _send(connection: socket.socket, data: bytes, times: int = 1) -> None:
    """As much as the server takes."""
    with suppress(OSError):
        for _ in range(times):
            connection.sendall(data)


def _held(count: int, port: int, data: bytes, seconds: float) -> None:
    """So many connections that send this and stay."""
    opened = []
    for _ in range(count):
        connection = _connect(port)
        connection.settimeout(0.2)
        _send(connection, data)
        opened.append(connection)
    time.sleep(seconds)
    for connection in opened:
        connection.close()


def trailers(port: int, _: float) -> None:
    """100 MB of trailers behind a request."""
    with _connect(port) as connection:
        _send(connection, b"GET /healthz " + _HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n")
        _send(connection, b"x: y\r\n" * 20_000, 800)


def bodies(port: int, seconds: float) -> None:
    """200 bodies of nearly 3 MiB, none of which ends."""
    head = b"POST /api/v1/namespaces/default/pods " + _HEAD + b"content-type: application/json\r\n"
    length = 3 * _MEBIBYTE
    _held(200, port, head + b"content-length: %d\r\n\r\n" % length + b" " * (length - 10), seconds)


def idlers(port: int, seconds: float) -> None:
    """2,000 connections that send half a head."""
    _held(2000, port, b"GET /healthz " + _HEAD + b"x: ", seconds)


def followers(port: int, seconds: float) -> None:
    """400 that follow the log of a pod that says nothing, hang up, and come again."""
    ask = b"GET /api/v1/namespaces/default/pods/quiet/log?follow=1 " + _HEAD + b"\r\n"
    _held(400, port, ask, seconds / 2)
    _held(400, port, ask, seconds / 2)


def watchers(port: int, _: float) -> None:
    """300 watchers that read nothing while 2,000 objects of 4 kB come."""
    opened = []
    for _number in range(300):
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


def beginners(port: int, seconds: float) -> None:
    """80 MB of objects; 150 lists and 150 watches that begin with them, and nobody reads."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for number in range(160):
            body = {"metadata": {"name": f"m{number}"}, "data": {f"k{key}": "x" * 50 for key in range(8_000)}}
            client.post("/api/v1/namespaces/default/configmaps", json=body)
    for query in (b"", b"?watch=1"):
        _held(150, port, b"GET /api/v1/configmaps" + query + b" " + _HEAD + b"\r\n", seconds)


def unread(port: int, seconds: float) -> None:
    """50 connections that ask for 180 kB a hundred times and take nothing."""
    _held(50, port, (b"GET /openapi/v2 " + _HEAD + b"\r\n") * 100, seconds)


def lists(port: int, seconds: float) -> None:
    """16 MB of objects, listed by 64 at once as objects and as tables, again and again."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for number in range(4000):
            body = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 4000}}
            client.post("/api/v1/namespaces/default/configmaps", json=body)
    _each(64, seconds, lambda client: client.get("/api/v1/configmaps", headers=_TABLES), port)


_TABLES = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def deep(port: int, seconds: float) -> None:
    """Bodies of 3 MB of brackets."""
    typed = {"content-type": "application/json"}
    path = "/api/v1/namespaces/default/pods"

    def send(client: httpx.Client) -> None:
        for text in (b"[" * 3_000_000, b'{"a":' * 500_000):
            client.post(path, content=text, headers=typed)

    _each(2, seconds, send, port)


def _each(clients: int, seconds: float, send: Callable[[httpx.Client], Any], port: int) -> None:
    """That many clients, each one request after the other."""
    until = time.monotonic() + seconds

    def go_on() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while time.monotonic() < until:
                with suppress(httpx.TransportError):
                    send(client)

    threads = [threading.Thread(target=go_on) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _heavily(heavy: Heavy) -> Attack:
    def attack(port: int, seconds: float) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            heavy.setup(client)
        body = heavy.body()
        _each(4, seconds, lambda client: heavy.send(client, body), port)

    return attack


ATTACKS: dict[str, Attack] = {
    **{
        attack.__name__: attack
        for attack in (trailers, bodies, idlers, followers, watchers, beginners, unread, lists, deep)
    },
    **{heavy.name: _heavily(heavy) for heavy in HEAVY},
}


def _memory(process: int) -> float:
    """Resident, in MiB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / _MEBIBYTE


def _attack(name: str, port: int, seconds: float) -> None:
    ATTACKS[name](port, seconds)


@dataclass(frozen=True)
class _Pair:
    """A server and its honest client, both processes of their own."""

    server: SpawnProcess
    serving: Connection
    client: SpawnProcess
    asking: Connection
    port: int

    @property
    def pid(self) -> int:
        """Of the server."""
        assert self.server.pid is not None
        return self.server.pid

    def finish(self) -> tuple[list[float], int, tuple[float, ...]]:
        """What the client waited, sorted; how often it was refused; what the server's watchdog saw."""
        self.asking.send("enough")
        waits, refused = self.asking.recv()
        self.serving.send("enough")
        held = self.serving.recv()
        for process in (self.client, self.server):
            process.join(10)
            process.kill()
        return sorted(waits), refused, held


def _pair() -> _Pair:
    serving, served = _SPAWN.Pipe()
    server = _SPAWN.Process(target=_serve, args=(served,), daemon=True)
    server.start()
    port: int = serving.recv()
    asking, asked = _SPAWN.Pipe()
    client = _SPAWN.Process(target=_ask_honestly, args=(port, asked), daemon=True)
    client.start()
    assert asking.recv() == "ready"
    return _Pair(server, serving, client, asking, port)


def _p99(waits: list[float]) -> float:
    return round(waits[int(len(waits) * 0.99)] * 1e3, 1)


def measure(name: str, seconds: float = 5.0) -> dict[str, Any]:
    """One attack on a fresh server: attacker, server and honest client are three processes."""
    spared, attacked = _pair(), _pair()
    before = most = _memory(attacked.pid)
    began = time.monotonic()
    attacker = _SPAWN.Process(target=_attack, args=(name, attacked.port, seconds), daemon=True)
    attacker.start()
    while attacker.is_alive():
        most = max(most, _memory(attacked.pid))
        time.sleep(0.02)
    time.sleep(1.0)  # what they left behind
    most = max(most, _memory(attacked.pid))
    waits, refused, (held, own, process, cpu) = attacked.finish()
    lasted = time.monotonic() - began
    calm, _, (calm_held, *_rest) = spared.finish()
    attacker.join(10)
    attacker.kill()
    return {
        "attack": name,
        "before_mib": round(before),
        "most_mib": round(most),
        "honest_requests": len(waits),
        "honest_refused": refused,
        "honest_p50_ms": round(statistics.median(waits) * 1e3, 1),
        "honest_p99_ms": _p99(waits),
        "honest_max_ms": round(waits[-1] * 1e3, 1),
        "baseline_p99_ms": _p99(calm),
        "baseline_max_ms": round(calm[-1] * 1e3, 1),
        "loop_held_ms": round(held * 1e3, 1),
        "held_by_loop_ms": round(own * 1e3, 1),
        "held_by_process_ms": round(process * 1e3, 1),
        "baseline_loop_held_ms": round(calm_held * 1e3, 1),
        "server_cores": round(cpu / lasted, 2),
        "attacker_failed": attacker.exitcode != 0,
    }


def main() -> None:
    """One line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("names", nargs="*")
    wanted = parser.parse_args()
    for name in ATTACKS:
        if not wanted.names or any(part in name for part in wanted.names):
            print(json.dumps(measure(name, wanted.seconds)), flush=True)  # noqa: T201 - a command


if __name__ == "__main__":
    main()
