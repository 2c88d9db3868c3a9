"""Nobody waits while a large object is worked on: how long the loop is held by requests that cost most."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from proreus.engine.api.server.loop_watchdog import Watchdog
from tests.engine.api.heavy import HEAVY, Heavy
from tests.engine.api.live import Live, live

_HELD_SECONDS = 0.3
_MOST_SECONDS = 0.5
"""100 ms is promised on a machine of one's own; the suite shares two cores. Without care it is 5 to 60 s."""


@pytest.fixture(scope="module")
def door() -> Iterator[Live]:
    with live() as opened:
        yield opened


@pytest.mark.parametrize("heavy", HEAVY, ids=lambda heavy: heavy.name)
def test_the_loop_goes_on(door: Live, heavy: Heavy) -> None:
    """The least of three, and no more than the process worked meanwhile: a machine that is busy with other
    things holds everybody."""
    with door.client() as client:
        heavy.setup(client)
        body = heavy.body()
        held = []
        for _ in range(3):
            watchdog = Watchdog(0.005)
            watching = asyncio.run_coroutine_threadsafe(watchdog.run(), door.loop)
            time.sleep(0.05)
            answer = heavy.send(client, body)
            time.sleep(0.05)
            watching.cancel()
            held.append(min(watchdog.longest, watchdog.process))
            assert answer.status_code in heavy.codes, answer.text[:500]
            if held[-1] < _MOST_SECONDS:
                break
        print(f"{heavy.name}: held for {min(held) * 1e3:.0f} ms")  # noqa: T201 - shown with -s
        assert min(held) < _MOST_SECONDS


def _held(client: httpx.Client) -> tuple[float, float]:
    """The longest hold since this was last asked, and since the start, as the metrics tell it."""
    told = client.get("/v1/metrics?format=json").json()
    names = ("proreus_api_loop_held_seconds", "proreus_api_loop_held_longest_seconds")
    recent, longest = (told[name]["samples"][0]["value"] for name in names)
    return recent, longest


def test_the_metrics_tell_how_long_the_loop_was_held() -> None:
    with live() as door, door.client() as client:
        _held(client)
        door.loop.call_soon_threadsafe(time.sleep, _HELD_SECONDS)
        time.sleep(_HELD_SECONDS + 0.2)
        recent, longest = _held(client)
        assert _HELD_SECONDS / 2 < recent <= longest
        time.sleep(0.1)
        recent, later = _held(client)
        assert recent < longest <= later, "the first is of the time since it was last asked"


def _worked(client: httpx.Client) -> float:
    told = client.get("/v1/metrics?format=json").json()
    return float(told["proreus_api_loop_worked_seconds"]["samples"][0]["value"])


def test_the_metrics_tell_what_of_it_the_loop_worked() -> None:
    def work() -> None:
        until = time.thread_time() + _HELD_SECONDS
        while time.thread_time() < until:
            pass

    with live() as door, door.client() as client:
        _worked(client)
        door.loop.call_soon_threadsafe(time.sleep, _HELD_SECONDS)
        time.sleep(_HELD_SECONDS + 0.2)
        assert _worked(client) < _HELD_SECONDS / 2, "who sleeps does not work"
        done = threading.Event()
        door.loop.call_soon_threadsafe(work)
        door.loop.call_soon_threadsafe(door.loop.call_later, 0.2, done.set)
        assert done.wait(30)
        assert _worked(client) >= _HELD_SECONDS
