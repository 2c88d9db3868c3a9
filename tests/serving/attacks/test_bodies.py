"""Long bodies: what they may hold up, what they may take, what is said back."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import pytest

from tests.serving.attacks.harness import HEAD, Attacked, heard, needs_proc, sent, size
from tests.serving.door_cases import ask

pytestmark = needs_proc
MIB = 1 << 20
STATE = [0.5] * 6


def post(path: str, body: bytes) -> bytes:
    """A whole request."""
    head = HEAD.replace(b"/predict", path.encode())
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_a_long_lone_state_is_refused_unread(attacked: Attacked) -> None:
    body = b'{"state":[' + b"0," * (16 * MIB) + b"NaN]}"
    with attacked.beside_an_honest_client():
        for _ in range(size(10, 2)):
            with attacked.plain() as plain:
                sent(plain, post("/predict", body))
                assert heard(plain).startswith((b"HTTP/1.1 413", b""))


@pytest.mark.parametrize("path", ["/update", "/v1/predict/batch"])
@pytest.mark.parametrize(
    "inside",
    [b"0,", b"[],", b"[0,0,0,0,0,0],", b'"y",', b"[[[["],
    ids=["numbers", "empty states", "states", "words", "brackets"],
)
def test_long_lists_of_anything_hold_up_nobody(attacked: Attacked, path: str, inside: bytes) -> None:
    body = b'{"states":[' + inside * (size(31 * MIB, 2 * MIB) // len(inside)) + b'NaN],"actions":[]}'
    with attacked.beside_an_honest_client(least=0.5):
        reply = ask(attacked.rest, path, body)
        assert reply.status in (400, 413), reply.body
        assert reply.json["field"], reply.body


def test_bodies_at_once_are_held_against_a_budget(attacked: Attacked) -> None:
    """More than fit: some are told to come again, and none of them is kept."""
    with attacked.beside_an_honest_client(least=2.0), contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(attacked.plain()) for _ in range(size(60, 5))]
        piece = b" " * (31 * MIB)
        head = HEAD.replace(b"/predict", b"/update") + b"Content-Length: %d\r\n\r\n" % (32 * MIB)
        threads = [threading.Thread(target=sent, args=(plain, head + piece)) for plain in crowd]
        for thread in threads:
            thread.start()
        said = []
        for plain in crowd:
            plain.settimeout(2)
            with contextlib.suppress(ConnectionError, TimeoutError):
                said.append(plain.recv(12))
        for plain in crowd:
            plain.close()
        for thread in threads:
            thread.join()
    assert b"HTTP/1.1 429" in said


def test_long_names_are_not_said_back(attacked: Attacked) -> None:
    name = "x" * size(30 * MIB, MIB)
    with attacked.beside_an_honest_client():
        for path in ("/predict", "/update", "/v1/decide"):
            reply = ask(attacked.rest, path, {name: 1})
            assert reply.status in (400, 413)
            assert len(reply.body) < 2_000
    reply = ask(attacked.rest, "/" + "y" * 30_000)
    assert reply.status == 404 and len(reply.body) < 2_000


def test_answers_that_nobody_takes_end_their_connection(attacked: Attacked) -> None:
    """Twelve clients that ask for long answers and do not read."""
    states = [STATE] * size(20_000, 5_000)
    request = post("/v1/predict/batch", json.dumps({"states": states}).encode())
    with attacked.beside_an_honest_client(), contextlib.ExitStack() as stack:
        for _ in range(12):
            sent(stack.enter_context(attacked.plain()), request)
        time.sleep(0.5)


def test_large_reports_of_one_client_leave_room_for_others(attacked: Attacked) -> None:
    """States of both lengths in turn: each is a record of its own, and the work takes long."""
    steps = size(8_000, 400)
    report = {
        "states": [STATE + [0.1, 0.1] * (k % 2) for k in range(steps)],
        "actions": [0] * steps,
        "rewards": [0.0] * steps,
        "dones": [True] * steps,
    }
    small = {"states": [STATE], "actions": [0], "rewards": [0.0], "dones": [True]}
    stop, statuses = threading.Event(), []

    def attack() -> None:
        while not stop.is_set():
            statuses.append(ask(attacked.rest, "/update", report).status)

    threads = [threading.Thread(target=attack) for _ in range(6)]
    with attacked.beside_an_honest_client():
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        begin = time.monotonic()
        assert ask(attacked.rest, "/update", small).status == 200
        took = time.monotonic() - begin
        stop.set()
        for thread in threads:
            thread.join()
    assert took < 30.0
    assert set(statuses) <= {200, 429}


def test_long_reports_and_batches_mean_what_short_ones_mean(attacked: Attacked) -> None:
    """Beyond a portion bodies are read bit by bit: the same answers, the same refusals."""
    states = [[k / 5_000, 0.2, 0.3, 0.4, 0.5, 0.6] for k in range(5_000)]
    short = ask(attacked.rest, "/v1/predict/batch", {"states": states[:100]}).json["actions"]
    long = ask(attacked.rest, "/v1/predict/batch", {"states": states}).json["actions"]
    assert len(long) == 5_000 and long[:100] == short
    columns = {"actions": [0] * 5_000, "rewards": [1.0] * 5_000, "dones": [True] * 5_000}
    report = {"states": states, **columns, "log_probs": None}
    assert ask(attacked.rest, "/update", report).json["logged"] == 5_000
    for field, value in (("states[4321]", [0.5]), ("states[4321][2]", [0, 0, "x", 0, 0, 0])):
        wrong = [*states[:4321], value, *states[4322:]]
        reply = ask(attacked.rest, "/update", {**report, "states": wrong})
        assert (reply.status, reply.json["field"]) == (400, field)
    nan = json.dumps({**report, "states": [*states[:4321], [0, 0, float("nan"), 0, 0, 0], *states[4322:]]})
    reply = ask(attacked.rest, "/update", nan.encode())
    assert (reply.status, reply.json["field"]) == (400, "states[4321][2]")
    reply = ask(attacked.rest, "/update", {**report, "rewards": [1.0] * 4_999})
    assert (reply.status, reply.json["field"]) == (400, "rewards")
    reply = ask(attacked.rest, "/update", {**report, "colour": 1})
    assert (reply.status, reply.json["field"]) == (400, "colour")
    del report["dones"]
    reply = ask(attacked.rest, "/update", report)
    assert (reply.status, reply.json["field"]) == (400, "dones")
