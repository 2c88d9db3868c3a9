"""Those who follow logs take no room from others, and leave when they hang up."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvloop

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.options import ApiLimits, ApiOptions
from proreus.engine.api.server.server import ApiServer
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore
from tests.engine.api.quiet_logs import QuietLogs

_LIMITS = ApiLimits(concurrency=16, per_client=8)
_LOG = "/api/v1/namespaces/default/pods/quiet/log"
_SECONDS = 20.0


@pytest.fixture
def quiet() -> Iterator[tuple[int, QuietLogs]]:
    """A door to a pod that runs and says nothing."""
    ready, logs, opened = threading.Event(), QuietLogs(), list[tuple[int, asyncio.AbstractEventLoop]]()
    ending = asyncio.Event()

    async def main() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await registry.create(POD, {"metadata": {"name": "quiet"}, "spec": spec})
        options = ApiOptions(limits=_LIMITS)
        server = ApiServer(create_app(registry, options, ApiDependencies(logs=logs)), options)
        await server.start()
        opened.append((server.port, asyncio.get_running_loop()))
        ready.set()
        await ending.wait()
        await server.stop()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `proreus up` has it
            runner.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(_SECONDS)
    port, loop = opened[0]
    try:
        yield port, logs
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(_SECONDS)


def _until(logs: QuietLogs, count: int) -> None:
    until = time.monotonic() + _SECONDS
    while logs.reading != count and time.monotonic() < until:
        time.sleep(0.02)
    assert logs.reading == count


def test_followers_of_a_quiet_pod_lock_nobody_out(quiet: tuple[int, QuietLogs]) -> None:
    port, logs = quiet
    ask = f"GET {_LOG}?follow=1 HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    followers = [socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) for _ in range(40)]
    for follower in followers:
        follower.sendall(ask)
    _until(logs, 40)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_SECONDS) as client:
        assert client.get("/api/v1/pods").status_code == 200
        assert client.get("/livez").status_code == client.get("/readyz").status_code == 200
    for follower in followers:
        follower.close()
    _until(logs, 0)


def test_who_asks_for_more_behind_it_and_hangs_up_is_noticed_too(quiet: tuple[int, QuietLogs]) -> None:
    """What runs is then not the last request that was read."""
    port, logs = quiet
    ask = f"GET {_LOG}?follow=1 HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    followers = [socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) for _ in range(20)]
    for follower in followers:
        follower.sendall(ask * 3)
    _until(logs, 20)
    for follower in followers:
        assert follower.recv(12) == b"HTTP/1.1 200"
        follower.close()
    _until(logs, 0)


def test_nothing_is_logged_of_those_who_hang_up_before_their_answers(
    quiet: tuple[int, QuietLogs], caplog: pytest.LogCaptureFixture
) -> None:
    port, _ = quiet
    ask = b"GET /openapi/v2 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for reset in (True, False) * 10:
        with socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(ask * 100)
            time.sleep(0.05)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_SECONDS) as client:
        for _ in range(10):
            assert client.get("/livez").status_code == 200
            time.sleep(0.05)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("query", "code", "names"),
    [
        ("sinceTime=x", 400, "sinceTime"),
        ("sinceSeconds=0", 422, "sinceSeconds"),
        ("limitBytes=0", 422, "limitBytes"),
        ("tailLines=-1", 400, "tailLines"),
        ("follow=maybe", 400, "follow"),
        ("stream=Stdin", 422, "stream"),
        ("sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z", 422, "at most one"),
    ],
)
def test_what_no_log_can_be_asked_for(
    quiet: tuple[int, QuietLogs], query: str, code: int, names: str
) -> None:
    answer = httpx.get(f"http://127.0.0.1:{quiet[0]}{_LOG}?{query}")
    assert (answer.status_code, names in answer.json()["message"]) == (code, True)
