"""Tokens: guessed, put where they do not belong, left where others can read them; TLS without a handshake."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.cli.serve import Security, ServeArguments, check_host
from proreus.model.errors import InputError, UsageError
from proreus.serving.admission import RequestAdmission, read_token
from proreus.serving.messages import Refusal, Refused
from proreus.serving.server.http import HttpLimits
from tests.certificates import make_certificate
from tests.serving.door_cases import Doors, ask, open_doors, serving_options
from tests.serving.test_security import TOKEN

STATE = [0.5] * 6
RIGHT = f"Bearer {TOKEN}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    found = open_doors(serving_options(tmp_path_factory.mktemp("guarded"), token=TOKEN.encode()))
    yield found
    found.running.stop(1.0)


def test_a_token_in_a_trailer_is_none(guarded: Doors) -> None:
    body = b'{"state":[0.5,0.5,0.5,0.5,0.5,0.5]}'
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(body), body)
    with socket.create_connection(("127.0.0.1", guarded.rest), timeout=20) as plain:
        plain.sendall(head + chunks + b"Authorization: " + RIGHT.encode() + b"\r\n\r\n")
        assert plain.recv(4096).startswith(b"HTTP/1.1 401")


def test_an_encoded_slash_does_not_route(guarded: Doors) -> None:
    for path in (
        "/v1/models%2f1%2fpromote",
        "/v1/models/1%2Fpromote",
        "/v1/models/%31/promote",
        "/%70redict",
    ):
        assert ask(guarded.rest, path, b"{}", "POST", authorization=RIGHT).status in (404, 405)
    assert guarded.running.application.service.version == 1


def test_wrong_tokens_are_slowed_down_by_address() -> None:
    now = [0.0]
    admission = RequestAdmission(TOKEN.encode(), clock=lambda: now[0])

    def refusal(token: bytes, client: str) -> Refusal | None:
        try:
            admission.admit(b"Bearer " + token, client)
        except Refused as refused:
            return refused.refusal
        return None

    tried = [refusal(b"guess-%d" % k, "stranger") for k in range(100)]
    assert tried.count(Refusal.UNAUTHENTICATED) == 20 and tried.count(Refusal.EXHAUSTED) == 80
    # Not even the right one, for now: what cannot be tried cannot be found.
    assert refusal(TOKEN.encode(), "stranger") is Refusal.EXHAUSTED
    assert refusal(TOKEN.encode(), "other") is None
    now[0] = 1.5
    assert refusal(b"guess", "stranger") is Refusal.UNAUTHENTICATED
    assert refusal(b"guess", "stranger") is Refusal.EXHAUSTED
    # Whoever has shown the token is not shut out by a neighbour's guesses.
    for _ in range(100):
        refusal(b"guess", "other")
    assert refusal(TOKEN.encode(), "other") is None


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_a_token_that_others_may_read_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o644)
    assert read_token(path) == TOKEN.encode()
    assert "chmod 600" in caplog.text and TOKEN not in caplog.text
    with pytest.raises(InputError, match="--strict"):
        read_token(path, strict=True)
    path.chmod(0o600)
    caplog.clear()
    assert read_token(path, strict=True) == TOKEN.encode() and not caplog.text


def test_strict_is_not_content_with_tls() -> None:
    security = Security(tls_cert=Path("cert"), tls_key=Path("key"), strict=True)
    with pytest.raises(UsageError, match="authenticates nobody"):
        check_host(ServeArguments(6, 8, host="0.0.0.0", security=security))


def test_handshakes_that_do_not_come_make_room(tmp_path: Path) -> None:
    """Forty connections where ten may shake hands: those that came first give way."""
    options = serving_options(
        tmp_path, credentials=make_certificate(tmp_path), http=HttpLimits(connections=40)
    )
    shy = open_doors(options)
    try:
        with contextlib.ExitStack() as stack:
            crowd = [
                stack.enter_context(socket.create_connection(("127.0.0.1", shy.rest), timeout=60))
                for _ in range(40)
            ]
            began = time.monotonic()
            assert crowd[0].recv(1) == b""
            assert time.monotonic() - began < 8
            crowd[-1].settimeout(60)
            assert crowd[-1].recv(1) == b""
            assert time.monotonic() - began < 60
    finally:
        shy.running.stop(1.0)
