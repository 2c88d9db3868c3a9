"""Long lists are sent in portions: whole, of one revision, and bounded by bytes for those who do not read."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from proreus.engine.api.server.options import ApiLimits, ApiOptions
from tests.engine.api.live import Live, live

_PATH = "/api/v1/namespaces/default/configmaps"
_COUNT, _LENGTH = 60, 200_000
_TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
_LIMITS = ApiLimits(portion_bytes=1_000_000, listed_bytes=5_000_000)


@pytest.fixture(scope="module")
def door() -> Iterator[Live]:
    with live(ApiOptions(limits=_LIMITS)) as opened:
        with opened.client() as client:
            for number in range(_COUNT):
                made = {
                    "metadata": {"name": f"m{number:03}", "labels": {"odd": str(number % 2)}},
                    "data": {"a": "x" * _LENGTH},
                }
                assert client.post(_PATH, json=made).status_code == 201
        yield opened


def _names(listed: dict[str, Any]) -> list[str]:
    rows = listed.get("items") or [row["object"] for row in listed["rows"]]
    return [row["metadata"]["name"] for row in rows]


def test_a_list_of_many_portions_is_whole(door: Live) -> None:
    with door.client() as client:
        answer = client.get(_PATH)
        listed = answer.json()
        assert "content-length" not in answer.headers, "it was sent as it was read"
        assert _names(listed) == [f"m{number:03}" for number in range(_COUNT)]
        assert (listed["kind"], listed["metadata"].keys()) == ("ConfigMapList", {"resourceVersion"})
        table = client.get(_PATH, headers=_TABLE).json()
        assert table["kind"] == "Table" and table["columnDefinitions"]
        assert _names(table) == _names(listed)


@pytest.mark.parametrize("selector", ["odd=1", "odd=7"])
def test_what_was_selected_of_many_portions(door: Live, selector: str) -> None:
    with door.client() as client:
        listed = client.get(_PATH, params={"labelSelector": selector}).json()
    odd = [f"m{number:03}" for number in range(1, _COUNT, 2)]
    assert [item["metadata"]["name"] for item in listed["items"]] == (odd if selector == "odd=1" else [])


@pytest.mark.parametrize("limit", [1, 4, 5, 25, _COUNT, _COUNT + 1])
def test_limits_go_over_portions(door: Live, limit: int) -> None:
    names: list[str] = []
    with door.client() as client:
        query: dict[str, Any] = {"limit": limit}
        while True:
            listed = client.get(_PATH, params=query).json()
            assert len(listed["items"]) <= limit
            names += _names(listed)
            if "continue" not in listed["metadata"]:
                break
            assert len(listed["items"]) == limit
            assert listed["metadata"]["remainingItemCount"] == _COUNT - len(names)
            query["continue"] = listed["metadata"]["continue"]
    assert names == [f"m{number:03}" for number in range(_COUNT)]


def test_a_watch_begins_with_all_of_them_once(door: Live) -> None:
    with door.client() as client, client.stream("GET", f"{_PATH}?watch=1&timeoutSeconds=2") as watch:
        events = [json.loads(line) for line in watch.iter_lines()]
    assert [event["type"] for event in events] == ["ADDED"] * _COUNT
    assert [event["object"]["metadata"]["name"] for event in events] == [f"m{n:03}" for n in range(_COUNT)]


def _unread(door: Live, stack: ExitStack, query: str) -> socket.socket:
    asking = stack.enter_context(socket.socket())
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asking.connect(("127.0.0.1", door.port))
    asking.sendall(f"GET {_PATH}{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return asking


@pytest.mark.parametrize("query", ["", "?watch=1"])
def test_who_does_not_read_leaves_room_for_no_more_than_the_bounds(door: Live, query: str) -> None:
    with ExitStack() as stack, door.client() as client:
        for _ in range(12):
            _unread(door, stack, query)
        codes = _codes(client, 429)
        assert codes[-1] == 429, codes
        assert client.get("/api/v1/namespaces").status_code == 200, "what is short needs no room"
        assert client.get("/livez").status_code == 200
        stack.close()
        assert _codes(client, 200)[-1] == 200, "those have gone"


def _codes(client: httpx.Client, wanted: int) -> list[int]:
    """What a long list is answered, until it is that."""
    codes: list[int] = []
    until = time.monotonic() + 30
    while time.monotonic() < until and (not codes or codes[-1] != wanted):
        codes.append(client.get(_PATH).status_code)
    return codes
