"""Heads, trailers, pipelines, connections that are parked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from proreus.serving.admission import RequestAdmission
from proreus.serving.metrics import Measurements
from proreus.serving.server.http import HttpApp, HttpLimits
from proreus.serving.server.rest_server import RestServer
from proreus.serving.server.router import JSON, HandlerReply, ResponseSpec, Route
from tests.serving.attacks.harness import FULL, HEAD, Attacked, heard, needs_proc, sent, size

pytestmark = needs_proc
CHUNKED = b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = json.dumps({"state": [0.5] * 6}).encode()
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


def test_trailers_without_end_are_cut_off(attacked: Attacked) -> None:
    with attacked.beside_an_honest_client(), attacked.plain() as plain:
        plain.sendall(CHUNKED + b"0\r\n")
        line = b"x-filler: " + b"y" * 1000 + b"\r\n"
        assert not all(sent(plain, line * 64) for _ in range(size(2_000, 100)))


def test_one_trailer_line_without_end_is_cut_off(attacked: Attacked) -> None:
    with attacked.plain() as plain:
        plain.sendall(CHUNKED + b"0\r\nx: ")
        assert not all(sent(plain, b"y" * 65_536) for _ in range(100))


def test_frames_around_tiny_chunks_are_bounded(attacked: Attacked) -> None:
    with attacked.plain() as plain:
        plain.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"1;" + b"x" * 8_000 + b"\r\n \r\n"
        assert not all(sent(plain, piece) for _ in range(1_000))


def test_heads_of_many_lines_are_cut_off(attacked: Attacked) -> None:
    with attacked.plain() as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 10_000)
        assert b"at most 128 headers" in heard(plain)


@pytest.fixture(scope="module")
def hasty() -> Iterator[int]:
    """The port of a door that has little patience."""
    limits = HttpLimits(idle_seconds=0.4, body_seconds=1.5)
    route = Route(lambda _: HandlerReply(b"{}"), "Work.", ResponseSpec("Done.", {JSON: {}}), {JSON: {}})
    probe = Route(lambda _: HandlerReply(b"{}"), "Probe.", ResponseSpec("Done.", {JSON: {}}), open=True)
    door = RestServer(
        HttpApp(
            {"/predict": {"POST": route}, "/health": {"GET": probe}},
            RequestAdmission(),
            Measurements(),
            limits,
        )
    )
    yield door.start("127.0.0.1", 0)
    door.stop(1.0)


@pytest.mark.parametrize(
    ("request_", "drop", "most"), [(b"", b"\r\n", 2.0), (b"Content-Length: 10\r\n", b"x", 5.0)]
)
def test_connections_cannot_be_parked_by_what_is_no_request(
    hasty: int, request_: bytes, drop: bytes, most: float
) -> None:
    """One CRLF, or one byte of a body that nobody reads, after an answer."""
    with socket.create_connection(("127.0.0.1", hasty), timeout=20) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + request_ + b"\r\n")
        assert plain.recv(4096).startswith(b"HTTP/1.1 200")
        plain.sendall(drop)
        began = time.monotonic()
        assert heard(plain) == b""
        assert time.monotonic() - began < most


def test_who_parks_all_connections_there_may_be_loses_them_to_others(attacked: Attacked) -> None:
    with contextlib.ExitStack() as stack:
        parked = []
        for _ in range(4_300 if FULL else 300):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", attacked.rest), timeout=30))
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            parked.append(plain)
        with attacked.beside_an_honest_client():
            for plain in parked:
                sent(plain, b"\r\n")


def answers(plain: socket.socket, count: int) -> int:
    """How many of so many answers are a 200."""
    plain.settimeout(30)
    said = b""
    while said.count(b"HTTP/1.1 ") < count:
        piece = plain.recv(65_536)
        if not piece:
            break
        said += piece
    return said.count(b"HTTP/1.1 200")


def test_pipelines_are_answered_in_turn_with_others(attacked: Attacked) -> None:
    """Thousands of requests in one piece: everyone else is answered meanwhile, and so are all of them."""
    many = size(4_000, 500)
    with attacked.beside_an_honest_client(), contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(attacked.plain()) for _ in range(4)]
        sending = [threading.Thread(target=sent, args=(plain, WHOLE * many)) for plain in crowd]
        for thread in sending:
            thread.start()
        assert [answers(plain, many) for plain in crowd] == [many] * 4
        for thread in sending:
            thread.join()


def test_a_piece_that_ends_inside_a_head_is_no_fault(attacked: Attacked) -> None:
    many = 600  # 100 kB
    with attacked.plain() as plain:
        plain.sendall(WHOLE * many + WHOLE[:20])
        time.sleep(0.2)
        plain.sendall(WHOLE[20:])
        assert answers(plain, many + 1) == many + 1


def test_a_slow_request_behind_a_quick_one_is_answered(hasty: int) -> None:
    """It once fell victim to the time that an idle connection has."""
    with socket.create_connection(("127.0.0.1", hasty), timeout=20) as plain:
        plain.sendall(WHOLE + WHOLE[:-5])
        assert plain.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(1.2)
        plain.sendall(WHOLE[-5:])
        assert plain.recv(4096).startswith(b"HTTP/1.1 200")


def test_requests_far_ahead_of_their_answers_wait_for_them(attacked: Attacked) -> None:
    many = size(5_000, 500)
    with attacked.beside_an_honest_client(), attacked.plain() as plain:
        sending = threading.Thread(
            target=sent, args=(plain, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * many)
        )
        sending.start()
        assert answers(plain, many) == many
        sending.join()


def test_answers_that_nobody_takes_do_not_pile_up(attacked: Attacked) -> None:
    with attacked.beside_an_honest_client(least=2.0), contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(attacked.plain()) for _ in range(size(64, 8))]
        for plain in crowd:
            plain.settimeout(0.2)
        until = time.monotonic() + size(20, 2)
        while time.monotonic() < until:
            for plain in crowd:
                sent(plain, WHOLE * 200)


def test_a_thousand_connects_at_once_are_answered_soon(attacked: Attacked) -> None:
    many = size(1_000, 300)
    with contextlib.ExitStack() as stack:
        crowd = []
        began = time.monotonic()
        for _ in range(many):
            plain = stack.enter_context(socket.socket())
            plain.setblocking(False)
            plain.connect_ex(("127.0.0.1", attacked.rest))
            crowd.append(plain)
        for plain in crowd:
            plain.settimeout(30)
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for plain in crowd:
            assert plain.recv(4096).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - began < (2.0 if FULL else 30.0)
