"""Every change once and in order, over whatever happens to the server in between."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable

import pytest

from proreus.kubeclient.client import ClientOptions, KubeClient, RetryPolicy
from proreus.kubeclient.errors import Silent
from proreus.kubeclient.fake import FakeApiServer
from proreus.kubeclient.reflector import Change, Reflector
from proreus.kubeclient.resources import PODS
from proreus.kubeclient.transport import Response

_OPTIONS = ClientOptions(retry=RetryPolicy(seconds=0.2, first=0.01, longest=0.02))


class _Follower:
    """What follows from what was told; each step must be possible."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {}
        self.told: list[Change] = []

    def hear(self, change: Change) -> None:
        self.told.append(change)
        name, uid = change.object["metadata"]["name"], change.object["metadata"]["uid"]
        match change.type:
            case "ADDED":
                assert name not in self.there
                self.there[name] = uid
            case "MODIFIED":
                assert self.there[name] == uid
            case _:
                assert self.there.pop(name) == uid


def _scene(work: Callable[[FakeApiServer, Reflector, _Follower], Awaitable[None]]) -> None:
    async def main() -> None:
        server = FakeApiServer()
        reflector = Reflector(KubeClient(server, _OPTIONS), PODS)
        follower = _Follower()
        reflector.subscribe(follower.hear)
        task = asyncio.create_task(reflector.run())
        try:
            async with asyncio.timeout(20):
                await work(server, reflector, follower)
        finally:
            task.cancel()

    asyncio.run(main())


async def _until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


def _pod(server: FakeApiServer, name: str) -> None:
    server.put("pods", {"metadata": {"name": name, "namespace": "d"}})


def test_a_broken_watch_goes_on_and_one_that_is_too_old_lists_anew() -> None:
    async def work(server: FakeApiServer, reflector: Reflector, follower: _Follower) -> None:
        _pod(server, "a")
        await reflector.synced.wait()
        await _until(lambda: "a" in follower.there)
        await _until(lambda: any("watch=true" in request.target for request in server.requests))
        await asyncio.sleep(0.01)
        server.cut_watches()
        _pod(server, "b")
        await _until(lambda: "b" in follower.there)
        assert reflector.lists == 1 and reflector.watches >= 2
        server.forget_history()
        _pod(server, "c")
        server.remove("pods", "a", "d")
        await _until(lambda: set(follower.there) == {"b", "c"})
        assert reflector.lists == 2

    _scene(work)


def test_silence_is_no_trouble_and_the_next_watch_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "proreus.kubeclient.reflector")

    async def silent(seconds: float) -> None:
        await asyncio.sleep(0.01)
        raise Silent(f"nothing came for {seconds:g} s", sent=True)

    async def work(server: FakeApiServer, reflector: Reflector, follower: _Follower) -> None:
        server.changed = silent  # type: ignore[method-assign]
        await _until(lambda: reflector.watches >= 3)
        assert reflector.trouble == ""
        _pod(server, "a")
        await _until(lambda: "a" in follower.there)
        assert reflector.lists == 1

    _scene(work)
    said = [record for record in caplog.records if "nothing came" in record.message]
    assert said and all(record.levelno == logging.DEBUG for record in said)


def test_a_server_that_is_away_is_waited_for_and_the_trouble_is_told() -> None:
    async def work(server: FakeApiServer, reflector: Reflector, follower: _Follower) -> None:
        await reflector.synced.wait()
        server.down = True
        server.cut_watches()
        await _until(lambda: bool(reflector.trouble))
        _pod(server, "a")
        server.down = False
        await _until(lambda: "a" in follower.there)
        assert not reflector.trouble

    _scene(work)


def test_a_store_that_was_restored_is_listed_anew() -> None:
    message = {"kind": "Status", "message": "Too large resource version: 9, current: 3", "code": 504}

    async def work(server: FakeApiServer, reflector: Reflector, follower: _Follower) -> None:
        await reflector.synced.wait()
        refused: list[str] = []

        def answer(request: object) -> Response | None:
            target = str(getattr(request, "target", ""))
            if "watch=true" in target and not refused:
                refused.append(target)
                body = json.dumps(message).encode()
                return Response(504, body, {"content-type": "application/json"})
            return None

        server.answer = answer
        server.cut_watches()
        await _until(lambda: reflector.lists == 2)
        _pod(server, "a")
        await _until(lambda: "a" in follower.there)

    _scene(work)


def test_a_resync_tells_all_that_was_acknowledged_before_it() -> None:
    async def work(server: FakeApiServer, reflector: Reflector, follower: _Follower) -> None:
        await reflector.synced.wait()
        for n in range(20):
            _pod(server, f"p{n}")
            await reflector.resync()
            assert f"p{n}" in follower.there

    _scene(work)


def test_whatever_happens_the_follower_ends_with_what_is_there() -> None:
    async def work(server: FakeApiServer, reflector: Reflector, follower: _Follower) -> None:
        lot = random.Random(5)
        for _ in range(400):
            name = f"p{lot.randrange(12)}"
            match lot.randrange(12):
                case 0:
                    server.cut_watches()
                case 1:
                    server.forget_history()
                case 2:
                    server.down = not server.down
                case 3 | 4 | 5 if any(pod["metadata"]["name"] == name for pod in server.all("pods")):
                    server.remove("pods", name, "d")
                case _:
                    _pod(server, name)
            if lot.random() < 0.3:
                await asyncio.sleep(0.002)
        server.down = False
        want = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in server.all("pods")}
        await _until(lambda: follower.there == want)

    _scene(work)
