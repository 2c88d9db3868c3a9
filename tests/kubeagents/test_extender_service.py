"""The extender over HTTP, over an API server in memory: the same answers, probes, and hostile callers."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proreus.kubeagents.extender.service import ExtenderService, ExtenderServiceOptions
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.fake import FakeApiServer
from proreus.model.errors import UsageError, WorkError
from tests.certificates import make_certificate
from tests.kube.control_plane import node, pod, wait_for
from tests.kubeagents.extender_scene import waiting


def _service(policy: str = "best_fit", *, binds: bool = False) -> tuple[ExtenderService, FakeApiServer]:
    made: list[FakeApiServer] = []

    def client() -> KubeClient:
        server = FakeApiServer()
        for name, cpu in (("large", "16"), ("small", "2")):
            server.put("nodes", node(name, {"cpu": cpu}))
        server.put("namespaces", {"metadata": {"name": "default"}})
        server.put("pods", pod("web", {"cpu": "1"}))
        made.append(server)
        return KubeClient(server)

    service = ExtenderService(ExtenderServiceOptions(policy, binds=binds, deadline=30.0), client)
    service.start()
    return service, made[0]


@pytest.fixture(scope="module")
def door() -> Iterator[tuple[ExtenderService, FakeApiServer, int]]:
    service, server = _service(binds=True)
    try:
        yield service, server, service.open_extender("127.0.0.1", 0)
    finally:
        service.stop(1.0)


def _ask(port: int, path: str, body: bytes | None, method: str = "POST") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        head = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body, head)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    try:
        return answer.status, json.loads(content)
    except ValueError:
        return answer.status, content.decode()


Door = tuple[ExtenderService, FakeApiServer, int]


def test_a_call_is_answered_as_kube_scheduler_reads_it(door: Door) -> None:
    body = json.dumps({"Pod": waiting("other", {"cpu": "1"}), "NodeNames": ["large", "small"]}).encode()
    code, scores = _ask(door[2], "/prioritize", body)
    assert (code, scores) == (200, [{"Host": "large", "Score": 0}, {"Host": "small", "Score": 10}])
    code, left = _ask(door[2], "/filter", body)
    assert code == 200 and left["NodeNames"] == ["large", "small"] and left["Error"] == ""


def test_a_binding_is_written_once(door: Door) -> None:
    uid = next(one for one in door[1].all("pods") if one["metadata"]["name"] == "web")["metadata"]["uid"]
    body = json.dumps({"PodName": "web", "PodNamespace": "default", "PodUID": uid, "Node": "small"}).encode()
    assert _ask(door[2], "/bind", body) == (200, {"Error": ""})
    assert next(iter(door[1].all("pods")))["spec"]["nodeName"] == "small"
    code, again = _ask(door[2], "/bind", body)
    assert code == 200 and again["Error"]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/filter", b"", 400),
        ("/filter", b"{", 400),
        ("/filter", b"[]", 400),
        ("/filter", b'{"Pod":1,"NodeNames":[]}', 400),
        ("/filter", b'{"Pod":{},"NodeNames":"a"}', 400),
        ("/filter", b'{"Pod":{},"Nodes":{"items":[{"metadata":{}}]}}', 400),
        ("/prioritize", b'{"Pod":{},"NodeNames":' + json.dumps(["n"] * 20_001).encode() + b"}", 400),
        ("/bind", b'{"PodName":"web"}', 400),
        ("/preempt", b'{"NodeNameToVictims":{}}', 400),
        ("/nothing", b"{}", 404),
        ("/prioritize", b'{"Pod":{},"NodeNames":[]}', 200),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(door: Door, path: str, body: bytes, code: int) -> None:
    assert _ask(door[2], path, body)[0] == code


def test_a_page_or_another_method_gets_no_answer(door: Door) -> None:
    assert _ask(door[2], "/filter", None, "GET")[0] == 405
    connection = http.client.HTTPConnection("127.0.0.1", door[2], timeout=30)
    head = {"Content-Type": "application/json", "Origin": "http://evil.example"}
    connection.request("POST", "/bind", b"{}", head)
    assert connection.getresponse().status == 403
    connection.close()


def test_probes_and_metrics(door: Door) -> None:
    service = door[0]
    port = service.open_http("127.0.0.1", 0)
    assert _ask(port, "/readyz", None, "GET") == (200, {"status": "ok", "trouble": ""})
    assert _ask(port, "/healthz", None, "GET")[1]["status"] == "ok"
    assert "proreus_extender_calls" in _ask(port, "/metrics", None, "GET")[1]
    assert _ask(port, "/filter", b"{}")[0] == 404


def test_many_at_once_are_all_answered(door: Door) -> None:
    body = json.dumps({"Pod": waiting("other", {"cpu": "1"}), "NodeNames": ["large", "small"]}).encode()
    answers: list[tuple[int, Any]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(_ask(door[2], "/prioritize", body))) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {code for code, _ in answers} == {200} and len(answers) == 20


def test_changes_of_the_cluster_come_in(door: Door) -> None:
    service, server, port = door
    loop = service.follower._loop
    assert loop is not None
    asyncio.run_coroutine_threadsafe(_put(server), loop).result(10)
    body = json.dumps({"Pod": waiting("other", {"cpu": "1"}), "NodeNames": ["large", "tiny"]}).encode()
    wait_for(lambda: _ask(port, "/prioritize", body)[1][1]["Score"] == 10, 10, "the new node is not known")


async def _put(server: FakeApiServer) -> None:
    server.put("nodes", node("tiny", {"cpu": "1"}))


def test_a_policy_that_is_not_there_is_told_at_the_start() -> None:
    with pytest.raises(UsageError):
        ExtenderService(ExtenderServiceOptions("no_such_policy"), lambda: KubeClient(FakeApiServer()))


def test_a_cluster_that_does_not_answer_is_told() -> None:
    def down() -> KubeClient:
        server = FakeApiServer()
        server.down = True
        return KubeClient(server)

    service = ExtenderService(ExtenderServiceOptions("best_fit"), down)
    try:
        with pytest.raises(WorkError, match="could not be listed"):
            service.start(seconds=1.0)
    finally:
        service.stop(0.5)


def test_without_a_certificate_of_its_own_nobody_is_answered(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    options = ExtenderServiceOptions(
        "best_fit", deadline=30.0, credentials=(certificate, key), clients=certificate
    )

    def client() -> KubeClient:
        server = FakeApiServer()
        server.put("nodes", node("large"))
        return KubeClient(server)

    service = ExtenderService(options, client)
    try:
        service.start()
        port = service.open_extender("127.0.0.1", 0)
        trusting = ssl.create_default_context(cafile=str(certificate))
        stranger = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=trusting)
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            stranger.request("GET", "/healthz")
            stranger.getresponse()
        stranger.close()
        trusting.load_cert_chain(certificate, key)
        known = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=trusting)
        known.request("GET", "/healthz")
        assert known.getresponse().status == 200
        known.close()
    finally:
        service.stop(1.0)
