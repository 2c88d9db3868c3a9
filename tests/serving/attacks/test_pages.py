"""Web pages in a browser on the same machine, and strangers beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from proreus.serving.allowed_hosts import Visitors
from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import ClientOptions, RestClient, ServiceError
from proreus.serving.service import RunningService
from tests.serving.door_cases import Doors, ask, open_doors, serving_options

STATE = [0.5] * 6
STEP = {"states": [STATE], "actions": [0], "rewards": [1.0], "dones": [True]}
CHANGES = ("/v1/models/1/promote", "/v1/models/rollback")


def test_a_page_can_neither_teach_nor_change_nor_read(doors: Doors) -> None:
    for simple in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        reply = ask(doors.rest, "/update", STEP, content_type=simple)
        assert (reply.status, reply.json["field"]) == (415, "content-type")
        for path in CHANGES:
            reply = ask(doors.rest, path, b"", "POST", content_type=simple)
            assert (reply.status, reply.json["field"]) == (415, "content-type")
    for path in ("/predict", "/update", "/health", "/metrics", *CHANGES):
        body = {"state": STATE} if path == "/predict" else STEP
        asked = (None, "GET") if path in ("/health", "/metrics") else (body, "POST")
        for origin in ("https://example.org", "null", "http://127.0.0.1:5000"):
            reply = ask(doors.rest, path, *asked, origin=origin)
            assert (reply.status, reply.json["field"]) == (403, "origin")
        # A name that its owner lets point to this machine.
        reply = ask(doors.rest, path, *asked, host=f"rebound.example.org:{doors.rest}")
        assert (reply.status, reply.json["field"]) == (403, "host")
    # Before a page may send JSON elsewhere, its browser asks like this.
    asked_first = ask(doors.rest, "/update", None, "OPTIONS", access_control_request_method="POST")
    assert asked_first.status == 405
    assert not [name for name in asked_first.headers if name.startswith("access-control")]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:5000", "127.8.8.8", "[::1]:9"])
def test_names_of_this_machine_are_answered_to(doors: Doors, host: str) -> None:
    assert ask(doors.rest, "/predict", {"state": STATE}, host=host).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1.example.org", "localhost.example", "[::2]", "10.0.0.1", "[", ""])
def test_names_like_those_of_this_machine_are_not(doors: Doors, host: str) -> None:
    assert ask(doors.rest, "/predict", {"state": STATE}, host=host).status == 403


def test_scripts_ask_as_they_always_did(doors: Doors) -> None:
    assert ask(doors.rest, "/predict", {"state": STATE}).status == 200
    assert ask(doors.rest, "/update", STEP).status == 200
    for headers in ({"content_type": "application/json"}, {"x_proreus_request": "1"}, {"authorization": "x"}):
        assert ask(doors.rest, "/v1/models/99/promote", None, "POST", **headers).status == 404
    with RestClient(doors.url) as client:
        assert client.promote(1).live == 1
        with pytest.raises(ServiceError, match="before"):
            client.rollback()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that could be reached from elsewhere, with no token."""
    running = RunningService(serving_options(tmp_path_factory.mktemp("wide")))
    running.start()
    yield running
    running.stop(1.0)


def test_strangers_are_answered_and_change_nothing(wide: RunningService) -> None:
    rest, port = wide.open_rest("0.0.0.0", 0), wide.open_grpc("0.0.0.0", 0)
    assert ask(rest, "/predict", {"state": STATE}, host="scheduler.example.org:5000").status == 200
    for path in ("/update", "/v1/update", *CHANGES):
        reply = ask(rest, path, STEP, "POST")
        assert reply.status == 403
        assert "--token-file" in reply.json["error"] and "--anonymous-updates" in reply.json["error"]
    with GrpcClient(f"127.0.0.1:{port}", ClientOptions(retries=0)) as client:
        assert 0 <= client.predict(STATE).action < 8
        with pytest.raises(ServiceError, match="--anonymous-updates") as caught:
            client.update([STATE], ([0], [1.0], [True]))
        assert caught.value.code == grpc.StatusCode.PERMISSION_DENIED.name.lower()
    assert wide.application.service.version == 1


@pytest.mark.parametrize("changes", [{"anonymous_updates": True}, {"token": b"0123456789abcdef"}])
def test_strangers_change_what_they_are_allowed_to(tmp_path: Path, changes: dict[str, object]) -> None:
    options = serving_options(tmp_path, **changes)
    running = RunningService(options)
    running.start()
    try:
        rest = running.open_rest("0.0.0.0", 0)
        known = {"authorization": "Bearer 0123456789abcdef"} if options.token else {}
        assert ask(rest, "/update", STEP, **known).status == 200
        assert ask(rest, "/v1/models/99/promote", b"", "POST", **known).status == 404
    finally:
        running.stop(1.0)


def test_a_service_may_have_names(tmp_path: Path) -> None:
    named = open_doors(serving_options(tmp_path, allowed_hosts=("Decisions.example.org",)))
    try:
        for host, status in (("decisions.example.org", 200), ("localhost", 200), ("other.example.org", 403)):
            assert ask(named.rest, "/predict", {"state": STATE}, host=host).status == status
    finally:
        named.running.stop(1.0)


def test_beyond_this_machine_names_count_where_there_are_any() -> None:
    anyone = Visitors.of("0.0.0.0", (), token=False, anonymous_updates=False)
    assert anyone.know(b"anything") and not anyone.changes
    visitors = Visitors.of("0.0.0.0", ("svc",), token=True, anonymous_updates=False)
    assert visitors.know(b"svc:5000") and not visitors.know(b"other") and visitors.changes
