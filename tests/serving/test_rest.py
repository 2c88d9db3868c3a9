"""The REST door: the k8s simulator's calls, and 4xx that name the field for what cannot be meant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from typing import Any

import numpy as np
import pytest
import uvicorn

from proreus.serving.admission import RequestAdmission
from proreus.serving.server.http import HttpApp, HttpLimits
from proreus.serving.server.rest_handlers import RestApi
from proreus.serving.server.rest_server import RestServer
from tests.httpserver.delays import noted
from tests.serving.door_cases import Doors, ask, open_doors, serving_options

STATE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
STEP = {"states": [STATE], "actions": [0], "rewards": [1.0], "dones": [True]}


def test_predict_answers_as_document_000_says(doors: Doors) -> None:
    reply = ask(doors.rest, "/predict", {"state": STATE})
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert 0 <= reply.json["action"] < 8
    assert reply.json["model_version"] == doors.running.application.service.version
    assert reply.json["decided_by"] == "model" and "top" not in reply.json


def test_small_answers_leave_at_once(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Python's own loop, too, which is there where uvloop is not."""
    delays = noted(monkeypatch)
    monkeypatch.setattr(uvicorn.Config, "get_loop_factory", lambda _: asyncio.new_event_loop)
    application = doors.running.application
    routes = RestApi(application, 1 << 20).routes()
    door = RestServer(HttpApp(routes, RequestAdmission(), application.service.measurements))
    port = door.start("127.0.0.1", 0)
    try:
        assert ask(port, "/health").status == 200
        assert delays and all(delays)
    finally:
        door.stop(1.0)


def test_optional_fields(doors: Doors) -> None:
    mask = [False] * 7 + [True]
    body = {"state": [*STATE, 0.01, 2.0], "deterministic": True, "mask": mask, "top_k": 3}
    reply = ask(doors.rest, "/predict", body)
    assert reply.json["action"] == 7 and reply.json["deterministic"] is True
    assert reply.json["top"] == [{"action": 7, "probability": 1.0}]
    assert reply.json["log_prob"] == pytest.approx(0.0)


def test_health(doors: Doors) -> None:
    reply = ask(doors.rest, "/health")
    assert reply.status == 200
    found = reply.json
    assert (found["status"], found["state_dim"], found["action_dim"]) == ("ok", 6, 8)
    assert found["learning"] is False


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/predict", {}, 400, "state"),
        ("/predict", {"state": STATE, "colour": 1}, 400, "colour"),
        ("/predict", {"state": STATE[:-1]}, 400, "state"),
        ("/predict", {"state": []}, 400, "state"),
        ("/predict", {"state": "0.1"}, 400, "state"),
        ("/predict", {"state": [*STATE[:3], "x", 0, 0]}, 400, "state[3]"),
        ("/predict", {"state": [*STATE[:3], None, 0, 0]}, 400, "state[3]"),
        ("/predict", {"state": [*STATE[:3], True, 0, 0]}, 400, "state[3]"),
        ("/predict", {"state": [[*STATE]]}, 400, "state[0]"),
        ("/predict", b'{"state":[0,NaN,0,0,0,0]}', 400, "state[1]"),
        ("/predict", b'{"state":[0,0,-Infinity,0,0,0]}', 400, "state[2]"),
        ("/predict", b'{"state":[0,0,0,1e999,0,0]}', 400, "state[3]"),
        ("/predict", {"state": STATE, "mask": [True]}, 400, "mask"),
        ("/predict", {"state": STATE, "mask": [1] * 8}, 400, "mask[0]"),
        ("/predict", {"state": STATE, "mask": [False] * 8}, 400, "mask"),
        ("/predict", {"state": STATE, "top_k": 0}, 400, "top_k"),
        ("/predict", {"state": STATE, "top_k": 9}, 400, "top_k"),
        ("/predict", {"state": STATE, "top_k": 1.5}, 400, "top_k"),
        ("/predict", {"state": STATE, "top_k": 10**30}, 400, "top_k"),
        ("/predict", {"state": STATE, "deterministic": "yes"}, 400, "deterministic"),
        ("/predict", [STATE], 400, "body"),
        ("/predict", b"", 400, "body"),
        ("/predict", b"{", 400, "body"),
        ("/predict", b"state=1", 400, "body"),
        ("/predict", b"\xff\xfe", 400, "body"),
        ("/predict", b'{"\xff":1}', 400, "body"),
        ("/predict", b"[" * 100_000, 400, "body"),
        ("/predict", b'{"a":' * 50_000, 400, "a"),
        ("/v1/decide", b'{"pod":{"name":"p","labels":' + b"[" * 50_000, 400, "pod.labels"),
        ("/v1/predict/batch", {"states": []}, 400, "states"),
        ("/v1/predict/batch", {"states": [STATE, STATE[:2]]}, 400, "states[1]"),
        ("/v1/predict/batch", {"states": [STATE[:2]]}, 400, "states[0]"),
        ("/v1/predict/batch", {"states": [STATE], "masks": []}, 400, "masks"),
        ("/v1/predict/batch", {"states": [STATE], "masks": [[True]]}, 400, "masks[0]"),
        ("/update", {**STEP, "actions": [8]}, 400, "actions[0]"),
        ("/update", {**STEP, "actions": [-1]}, 400, "actions[0]"),
        ("/update", {**STEP, "actions": [0.5]}, 400, "actions[0]"),
        ("/update", {**STEP, "actions": []}, 400, "actions"),
        ("/update", {**STEP, "rewards": [1, 2]}, 400, "rewards"),
        ("/update", {**STEP, "dones": [1]}, 400, "dones[0]"),
        ("/update", {**STEP, "states": [STATE[:4]]}, 400, "states[0]"),
        ("/update", {**STEP, "states": []}, 400, "states"),
        ("/update", {**STEP, "log_probs": [0.5]}, 400, "log_probs[0]"),
        ("/update", {**STEP, "log_probs": []}, 400, "log_probs"),
        ("/update", {**STEP, "model_version": 99}, 400, "model_version"),
        ("/update", {**STEP, "model_version": 10**40}, 400, "model_version"),
        ("/update", {"states": [STATE]}, 400, "actions"),
        (
            "/update",
            b'{"states":[[NaN,0,0,0,0,0]],"actions":[0],"rewards":[0],"dones":[true]}',
            400,
            "states[0][0]",
        ),
    ],
)
def test_bad_bodies_get_400_and_the_field(
    doors: Doors, path: str, body: Any, status: int, field: str
) -> None:
    reply = ask(doors.rest, path, body)
    assert (reply.status, reply.json["field"]) == (status, field), reply.json
    assert reply.json["request_id"] == reply.headers["x-request-id"]
    assert "\n" not in reply.json["error"]


def test_paths_methods_and_types(doors: Doors) -> None:
    assert ask(doors.rest, "/nothing").status == 404
    assert ask(doors.rest, "/v1/models/{}").status == 404
    assert ask(doors.rest, "/v1/models/%7B%7D/promote", b"", "POST").status == 404
    reply = ask(doors.rest, "/predict")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert ask(doors.rest, "/health", b"{}", "DELETE").status == 405
    reply = ask(doors.rest, "/predict", b"state=1", content_type="application/x-www-form-urlencoded")
    assert (reply.status, reply.json["field"]) == (415, "content-type")
    body = json.dumps({"state": STATE}).encode()
    assert ask(doors.rest, "/predict", body, content_type="application/json; charset=utf-8").status == 200


def test_request_ids_come_back(doors: Doors) -> None:
    assert ask(doors.rest, "/health", x_request_id="abc-1").headers["x-request-id"] == "abc-1"
    assert ask(doors.rest, "/health", x_request_id="b\tad <>").headers["x-request-id"] != "b\tad <>"


def test_a_deadline_is_a_number_above_0(doors: Doors) -> None:
    assert ask(doors.rest, "/predict", {"state": STATE}, x_deadline_ms="1e4").json["decided_by"] == "model"
    for bad in ("soon", "-1", "0", "nan"):
        reply = ask(doors.rest, "/predict", {"state": STATE}, x_deadline_ms=bad)
        assert (reply.status, reply.json["field"]) == (400, "x-deadline-ms")


def test_bytes_decide_as_json_does(doors: Doors) -> None:
    states = np.random.default_rng(0).random((300, 6))
    as_json = ask(doors.rest, "/v1/predict/batch", {"states": states.tolist()})
    as_bytes = ask(doors.rest, "/v1/predict/batch", states.tobytes(), content_type="application/octet-stream")
    records = np.frombuffer(as_bytes.body, dtype=[("action", "<i8"), ("log_prob", "<f8")])
    assert records["action"].tolist() == as_json.json["actions"]
    assert records["log_prob"].tolist() == as_json.json["log_probs"]
    assert as_bytes.headers["x-model-version"] == str(as_json.json["model_version"])
    for cut in (states.tobytes()[:-1], b""):
        reply = ask(doors.rest, "/v1/predict/batch", cut, content_type="application/octet-stream")
        assert (reply.status, reply.json["field"]) == (400, "body")
    states[7, 3] = np.nan
    reply = ask(doors.rest, "/v1/predict/batch", states.tobytes(), content_type="application/octet-stream")
    assert (reply.status, reply.json["field"]) == (400, "states[7][3]")


def test_bytes_that_are_not_http_close_the_connection_and_nothing_else(doors: Doors) -> None:
    for sent in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", doors.rest), timeout=10) as plain:
            plain.sendall(sent)
            assert plain.recv(100).startswith((b"HTTP/1.1 400", b""))
    assert ask(doors.rest, "/health").status == 200


def test_chunked_bodies_and_slow_ones(doors: Doors) -> None:
    body = json.dumps({"state": STATE}).encode()
    head = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", doors.rest), timeout=10) as plain:
        plain.sendall(head)
        for piece in (body[:10], body[10:]):
            plain.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        plain.sendall(b"0\r\n\r\n")
        assert plain.recv(1000).startswith(b"HTTP/1.1 200")


def test_pieces_and_queues_of_requests_are_answered_alike(doors: Doors) -> None:
    body = json.dumps({"state": STATE, "deterministic": True}).encode()
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    bad = whole.replace(b'"state"', b'"stage"')
    expected = ask(doors.rest, "/predict", body).body
    for pieces in (
        [whole],
        [whole[:10], whole[10:]],
        [whole[:-5], whole[-5:]],
        [whole + whole + bad + whole],
        [whole + whole[:-7], whole[-7:] + bad],
    ):
        with socket.create_connection(("127.0.0.1", doors.rest), timeout=10) as plain:
            for piece in pieces:
                plain.sendall(piece)
                time.sleep(0.02)
            plain.shutdown(socket.SHUT_WR)
            heard = b"".join(iter(lambda: plain.recv(65_536), b""))
        sent = b"".join(pieces)
        assert heard.count(b"HTTP/1.1 200") == heard.count(expected) == sent.count(b'"state"')
        assert heard.count(b"HTTP/1.1 400") == sent.count(b'"stage"')


def test_metrics_and_description(doors: Doors) -> None:
    ask(doors.rest, "/predict", {"state": STATE})
    text = ask(doors.rest, "/metrics").body.decode()
    assert 'proreus_request_seconds_count{door="rest",part="whole"}' in text
    assert 'proreus_request_seconds_count{door="rest",part="model"}' in text
    assert "proreus_model_info" in text and "proreus_fallbacks_total" in text
    described = ask(doors.rest, "/openapi.json").json
    paths = {(path, method) for path, methods in described["paths"].items() for method in methods}
    api = RestApi(doors.running.application, 1)
    routed = {(path, method.lower()) for path, methods in api.routes().items() for method in methods}
    assert paths == routed


def test_sizes_times_and_connections_are_limited(tmp_path: Any) -> None:
    limited = open_doors(
        serving_options(
            tmp_path,
            http=HttpLimits(body_bytes=2000, connections=20, body_seconds=1.0, idle_seconds=0.5),
        )
    )
    try:
        assert ask(limited.rest, "/predict", {"state": STATE, "x": "y" * 3000}).status == 413
        with socket.create_connection(("127.0.0.1", limited.rest), timeout=10) as plain:
            plain.sendall(
                b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100\r\n\r\n{"
            )
            assert plain.recv(1000).startswith(b"HTTP/1.1 408")
        for nothing in (b"", b"POST /predict HTTP/1.1\r\nHost"):
            with socket.create_connection(("127.0.0.1", limited.rest), timeout=10) as plain:
                plain.sendall(nothing)
                assert plain.recv(1000) == b""
        with socket.create_connection(("127.0.0.1", limited.rest), timeout=10) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\n")
            for _ in range(66):
                plain.sendall(b"x-filler: " + b"y" * 1000 + b"\r\n")
            assert b"at most 65536 bytes" in plain.recv(1000)
        with contextlib.ExitStack() as stack:
            crowd = [
                stack.enter_context(socket.create_connection(("127.0.0.1", limited.rest), timeout=10))
                for _ in range(40)
            ]
            assert crowd[-1].recv(1) == b""
    finally:
        limited.running.stop(1.0)


def test_rates_are_limited_but_for_probes(doors: Doors) -> None:
    application = doors.running.application
    routes = RestApi(application, 1 << 20).routes()
    door = RestServer(HttpApp(routes, RequestAdmission(rate=1.0), application.service.measurements))
    port = door.start("127.0.0.1", 0)
    try:
        codes = [ask(port, "/predict", {"state": STATE}).status for _ in range(8)]
        assert 429 in codes and set(codes) <= {200, 429}
        assert all(ask(port, "/health").status == 200 for _ in range(5))
    finally:
        door.stop(1.0)
