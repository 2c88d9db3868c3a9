"""Watches: what they tell, where they begin, and what becomes of those that do not keep up.

Their time is played: what they wait for comes before their time is up, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import time
from typing import Any

import httpx
import pytest

from proreus.engine.api.k8s.negotiation import Form
from proreus.engine.api.k8s.watch import WatchAsked, Watches
from proreus.engine.api.server.options import ApiLimits, ApiOptions
from proreus.engine.objects.errors import Gone
from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore
from proreus.engine.watch.fan_out import FeedBounds, Feeds
from proreus.engine.watch.subscription import QueueBounds, WatchSelector
from tests.engine.api.live import live
from tests.engine.controllers.virtual_time import play


def _map(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}}


async def _registry() -> tuple[Registry, MemoryStore]:
    store = MemoryStore()
    registry = Registry(store)
    await registry.prepare()
    return registry, store


def _asked(after: int | None, matches: Any = None, seconds: float = 0.3, **more: bool) -> WatchAsked:
    wanted = WatchSelector(CONFIG_MAP, "default", matches)
    bookmarks = more.get("bookmarks", False)
    return WatchAsked(wanted, Form(), after, seconds, bookmarks, more.get("initial_end", False), "me")


async def _heard(watches: Watches, asked: WatchAsked) -> list[tuple[str, str]]:
    lines = b"".join([piece async for piece in watches.lines(asked)]).splitlines()
    events = [json.loads(line) for line in lines]
    return [(event["type"], event["object"].get("metadata", {}).get("name", "")) for event in events]


def test_a_watch_tells_what_stands_and_then_what_changes() -> None:
    async def scenario() -> list[tuple[str, str]]:
        registry, _ = await _registry()
        watches = Watches(registry, ApiLimits())
        await registry.create(CONFIG_MAP, _map("a"))
        hearing = asyncio.create_task(_heard(watches, _asked(None, bookmarks=True, initial_end=True)))
        await asyncio.sleep(0.1)
        await registry.create(CONFIG_MAP, _map("b"))
        await registry.delete(CONFIG_MAP, "default", "a")
        heard = await hearing
        await watches.stop()
        return heard

    assert play(scenario()) == [
        ("ADDED", "a"),
        ("BOOKMARK", ""),
        ("ADDED", "b"),
        ("DELETED", "a"),
        ("BOOKMARK", ""),
    ]


def test_what_begins_or_ceases_to_match_comes_and_goes() -> None:
    async def scenario() -> list[tuple[str, str]]:
        registry, _ = await _registry()
        watches = Watches(registry, ApiLimits())
        red = _asked(None, lambda obj: (obj["metadata"].get("labels") or {}).get("colour") == "red")
        hearing = asyncio.create_task(_heard(watches, red))
        await asyncio.sleep(0.1)
        await registry.create(CONFIG_MAP, _map("a", colour="blue"))
        for colour in ("red", "red2", "blue"):
            labels = {"colour": colour.rstrip("2"), "turn": colour}

            def change(obj: dict[str, Any], labels: dict[str, str] = labels) -> dict[str, Any]:
                return {**obj, "metadata": {**obj["metadata"], "labels": labels}}

            await registry.edit(CONFIG_MAP, "default", "a", change)
        heard = await hearing
        await watches.stop()
        return heard

    assert play(scenario()) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("remembered", [1, 100])
def test_a_watch_goes_on_behind_a_revision_remembered_or_not(remembered: int) -> None:
    async def scenario() -> list[tuple[str, str]]:
        registry, _ = await _registry()
        watches = Watches(registry, ApiLimits(remembered_events=remembered))
        first = await registry.create(CONFIG_MAP, _map("a"))
        await _heard(watches, _asked(None, seconds=0.05))
        for name in "bcd":
            await registry.create(CONFIG_MAP, _map(name))
        await asyncio.sleep(0.05)
        heard = await _heard(watches, _asked(int(first["metadata"]["resourceVersion"])))
        await watches.stop()
        return heard

    assert play(scenario()) == [("ADDED", "b"), ("ADDED", "c"), ("ADDED", "d")]


def test_a_watch_from_a_compacted_revision_hears_410() -> None:
    async def scenario() -> bytes:
        registry, store = await _registry()
        watches = Watches(registry, ApiLimits())
        for name in "abc":
            last = await registry.create(CONFIG_MAP, _map(name))
        await store.compact(int(last["metadata"]["resourceVersion"]))
        told = b"".join([piece async for piece in watches.lines(_asked(1))])
        await watches.stop()
        return told

    document = json.loads(play(scenario()))
    assert (document["type"], document["object"]["code"], document["object"]["reason"]) == (
        "ERROR",
        410,
        "Expired",
    )


def test_a_slow_watcher_is_cut_and_the_others_are_not() -> None:
    async def scenario() -> tuple[object, int]:
        registry, _ = await _registry()
        feeds = Feeds(registry, FeedBounds(1000, 1 << 30, QueueBounds(10, 1 << 30), 1 << 30))
        quick = await feeds.subscribe(WatchSelector(CONFIG_MAP), 10**6)
        slow = await feeds.subscribe(WatchSelector(CONFIG_MAP), (await registry.list(CONFIG_MAP)).revision)
        other = await feeds.subscribe(WatchSelector(CONFIG_MAP), (await registry.list(CONFIG_MAP)).revision)
        taken = 0
        for number in range(30):
            await registry.create(CONFIG_MAP, _map(f"m{number}"))
            await asyncio.sleep(0.002)
            taken += len(other.take(100, 1 << 20))
        await asyncio.sleep(0.05)
        taken += len(other.take(100, 1 << 20))
        assert quick.take(100, 1 << 20) == []
        await feeds.stop()
        return slow.refusal, taken

    refusal, taken = play(scenario())
    assert isinstance(refusal, Gone)
    assert taken == 30


def test_too_many_watches_are_refused_and_ended_ones_make_room() -> None:
    limits = ApiLimits(watches_per_client=2)
    with live(ApiOptions(limits=limits)) as door, door.client() as client:
        path = "/api/v1/configmaps?watch=true&timeoutSeconds=30"
        with client.stream("GET", path) as stream, door.client().stream("GET", path) as two:
            assert (stream.status_code, two.status_code) == (200, 200)
            assert _settled(door.client(), path) == 429
        assert _settled(door.client(), "/api/v1/configmaps?watch=true&timeoutSeconds=1", 200) == 200


def _settled(client: httpx.Client, path: str, wanted: int = 429) -> int:
    """The status, once it is the one waited for; the server hears of a connection's end a little later."""
    status, end = 0, time.monotonic() + 60
    while status != wanted and time.monotonic() < end:
        with client.stream("GET", path) as answer:
            status = answer.status_code
    return status


def test_what_one_transaction_changed_is_told_in_one_piece() -> None:
    """Else whoever goes on behind the last revision that it heard of would miss the rest."""

    async def scenario() -> list[int]:
        registry, _ = await _registry()
        watches = Watches(registry, ApiLimits())
        before = (await registry.list(CONFIG_MAP)).revision
        await registry.create(CONFIG_MAP, _map("alone"))
        made = [_map(f"m-{number}") for number in range(300)]
        await registry.create_many(CONFIG_MAP, made)  # in transactions of 128
        pieces = [piece.splitlines() async for piece in watches.lines(_asked(before)) if piece]
        await watches.stop()
        versions = [
            {json.loads(line)["object"]["metadata"]["resourceVersion"] for line in piece} for piece in pieces
        ]
        assert all(not one & other for one, other in itertools.pairwise(versions))
        return [len(piece) for piece in pieces]

    assert sum(play(scenario())) == 301


@pytest.mark.parametrize("query", ["watch=true&", "", "resourceVersionMatch=NotOlderThan&"])
def test_a_revision_still_to_come_is_504_in_words_that_clients_know(query: str) -> None:
    """It was 200 and silent for ever. The words are those of Kubernetes' API server."""
    with live() as door, door.client() as client:
        now = int(client.get("/api/v1/configmaps").json()["metadata"]["resourceVersion"])
        with client.stream("GET", f"/api/v1/configmaps?{query}resourceVersion={now + 1000}") as answer:
            assert answer.status_code == 504
            document = json.loads(answer.read())
        assert document["reason"] == "Timeout"
        assert document["message"] == f"Timeout: Too large resource version: {now + 1000}, current: {now}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        assert document["details"] == {"causes": [cause], "retryAfterSeconds": 1}
        assert client.get(f"/api/v1/configmaps?{query}resourceVersion={now}&timeoutSeconds=1").is_success


@pytest.mark.parametrize(
    "told",
    [
        {"rv": 10**9, "start": "/registry/configmaps/default/a"},
        {"rv": 2**62 - 1, "start": "/registry/configmaps/default/a"},
        {"rv": 1, "start": "/registry/secrets/default/a"},
        {"rv": 1, "start": "zzz"},
        {"rv": 1, "start": "/registry/configmaps/\0"},
        {"rv": -1, "start": "/registry/configmaps/default/a"},
        {"rv": "1", "start": 1},
        [],
    ],
)
def test_a_forged_continue_token_is_400(told: Any) -> None:
    """It was 503, as if the store were away."""
    token = base64.urlsafe_b64encode(json.dumps(told).encode()).decode()
    with live() as door, door.client() as client:
        answer = client.get("/api/v1/configmaps", params={"limit": 1, "continue": token})
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
