"""The HTTP side alone: how many at once, failures, and the end of a server."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import socket
import threading
from typing import Any

import pytest

from proreus.serving.admission import RequestAdmission
from proreus.serving.metrics import Measurements
from proreus.serving.server.http import HttpApp, HttpLimits
from proreus.serving.server.rest_server import RestServer
from proreus.serving.server.router import JSON, HandlerReply, Request, ResponseSpec, Route


def new_app(handle: Any, concurrency: int = 1024, *, blocking: bool = True) -> HttpApp:
    route = Route(handle, "Work.", ResponseSpec("Done.", {JSON: {}}), {JSON: {}}, blocking=blocking)
    limits = HttpLimits(concurrency=concurrency, log_every=1)
    return HttpApp({"/work": {"POST": route}}, RequestAdmission(), Measurements(), limits)


async def call(app: HttpApp) -> tuple[int, dict[str, Any]]:
    """One request through ASGI."""
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/work", "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return said[0]["status"], json.loads(said[1]["body"])


def test_more_at_once_than_allowed_are_told_to_come_again() -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def wait(request: Request) -> HandlerReply:
        begun.release()
        assert go_on.wait(60)
        return HandlerReply(b"{}")

    app = new_app(wait, concurrency=2)

    async def crowd() -> list[int]:
        first = [asyncio.ensure_future(call(app)) for _ in range(2)]
        for _ in first:
            assert await asyncio.to_thread(begun.acquire, timeout=60)
        late = await call(app)
        go_on.set()
        return [late[0], *[(await task)[0] for task in first], (await call(app))[0]]

    assert asyncio.run(crowd()) == [429, 200, 200, 200]
    assert app.measurements.counted("proreus_refusals", reason="exhausted") == 1
    app.close()


@pytest.mark.parametrize("blocking", [True, False])
def test_a_failure_of_ours_is_logged_with_its_request_and_told_without_details(
    blocking: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(request: Request) -> HandlerReply:
        raise RuntimeError("a secret detail")

    app = new_app(break_down, blocking=blocking)
    with caplog.at_level(logging.INFO, logger="proreus"):
        status, said = asyncio.run(call(app))
    assert status == 500 and "secret" not in said["error"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.fields["request_id"] == said["request_id"]  # type: ignore[attr-defined]
    assert "secret" in record.fields["detail"]  # type: ignore[attr-defined]
    assert app.measurements.counted("proreus_failures") == 1
    app.close()


def test_answered_requests_are_logged_as_often_as_asked(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app(lambda request: HandlerReply(b"{}"))
    with caplog.at_level(logging.INFO, logger="proreus"):
        asyncio.run(call(app))
    fields = caplog.records[-1].fields  # type: ignore[attr-defined]
    assert (fields["status"], fields["path"]) == (200, "/work")
    app.close()


def test_the_short_cut_says_how_it_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app(lambda request: HandlerReply(b"{}"), blocking=False)
    app.routes["/work"]["PUT"] = app.routes["/work"]["POST"]
    door = RestServer(app)
    port = door.start("127.0.0.1", 0)
    with (
        caplog.at_level(logging.INFO, logger="proreus"),
        socket.create_connection(("127.0.0.1", port), timeout=20) as whole,
    ):
        for method in (b"PUT", b"POST"):
            head = (
                b" /work HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
            )
            whole.sendall(method + head + b"{}")
            assert whole.recv(1000).startswith(b"HTTP/1.1 200")
    door.stop(1.0)
    asked = [record.fields["method"] for record in caplog.records if hasattr(record, "fields")]
    assert asked == ["PUT", "POST"]


def test_a_request_under_way_is_answered_when_the_server_ends() -> None:
    began, go_on = threading.Event(), threading.Event()

    def wait(request: Request) -> HandlerReply:
        began.set()
        assert go_on.wait(60)
        return HandlerReply(b'{"late": true}')

    door = RestServer(new_app(wait))
    port = door.start("127.0.0.1", 0)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/work", b"{}", {"content-type": "application/json"})
    assert began.wait(60)
    ending = threading.Thread(target=door.stop, args=(10.0,))
    ending.start()
    go_on.set()
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b'{"late": true}')
    connection.close()
    ending.join(20)
    assert not ending.is_alive()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()
