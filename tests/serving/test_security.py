"""Tokens and TLS at both doors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.model.errors import InputError
from proreus.serving.admission import RequestAdmission, read_token
from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import ClientOptions, RestClient, ServiceError
from proreus.serving.messages import Refusal, Refused
from tests.certificates import make_certificate
from tests.serving.door_cases import Doors, ask, open_doors, serving_options

TOKEN = "0123456789abcdef-token"
STATE = [0.5] * 6


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A service with a token and, where openssl is there to make a certificate, TLS."""
    folder = tmp_path_factory.mktemp("guarded")
    found = open_doors(serving_options(folder, token=TOKEN.encode(), credentials=make_certificate(folder)))
    yield found
    found.running.stop(1.0)


def _options(guarded: Doors, token: str) -> ClientOptions:
    credentials = guarded.running.options.credentials
    assert credentials is not None
    return ClientOptions(token=token, certificate=str(credentials[0]), retries=0)


def test_the_right_token_over_tls_is_answered_at_both_doors(guarded: Doors) -> None:
    options = _options(guarded, TOKEN)
    with (
        RestClient(f"https://localhost:{guarded.rest}", options) as rest,
        GrpcClient(f"localhost:{guarded.grpc}", options) as grpc,
    ):
        assert rest.predict(STATE) == grpc.predict(STATE)


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "x", "0" * len(TOKEN)])
def test_any_other_token_is_refused_at_both_doors(guarded: Doors, token: str) -> None:
    options = _options(guarded, token)
    with (
        RestClient(f"https://localhost:{guarded.rest}", options) as rest,
        GrpcClient(f"localhost:{guarded.grpc}", options) as grpc,
    ):
        for client in (rest, grpc):
            with pytest.raises(ServiceError) as caught:
                client.predict(STATE)
            assert (caught.value.code, caught.value.field) == ("unauthenticated", "authorization")
        with pytest.raises(ServiceError, match="authorization"):
            list(grpc.predict_stream([STATE]))
        assert rest.health().status == "ok"


def test_plain_text_is_not_answered_where_tls_is_spoken(guarded: Doors) -> None:
    client = RestClient(f"http://localhost:{guarded.rest}", ClientOptions(retries=0))
    with client, pytest.raises(ServiceError):
        client.health()


def test_a_service_without_a_token_asks_for_none(doors: Doors) -> None:
    assert ask(doors.rest, "/predict", {"state": STATE}, authorization="Bearer nonsense").status == 200


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "at least 16"), (b"short\n", "at least 16"), (b"0123456789 abcdef\n", "visible ASCII")],
)
def test_tokens_that_are_none_are_refused_at_the_start(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_token(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_token(tmp_path / "missing")


def test_a_token_is_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\nsecond line\n")
    assert read_token(path) == TOKEN.encode()


def test_each_client_has_a_rate_of_its_own() -> None:
    now = [0.0]
    admission = RequestAdmission(rate=2.0, clock=lambda: now[0])
    for client in ("a", "b"):
        admission.admit(None, client)
        admission.admit(None, client)
        with pytest.raises(Refused) as caught:
            admission.admit(None, client)
        assert caught.value.refusal is Refusal.EXHAUSTED
    now[0] = 0.5
    admission.admit(None, "a")
    with pytest.raises(Refused):
        admission.admit(None, "a")
