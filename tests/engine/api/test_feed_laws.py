"""The law of watches: every change behind their revision, once and in order, or 410, whatever happens.

Stores here list slowly, as an etcd does that is busy, and forget their history while watchers come and go.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.api.k8s.negotiation import Form
from proreus.engine.api.k8s.watch import WatchAsked, Watches
from proreus.engine.api.server.options import ApiLimits
from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.registry import Registry
from proreus.engine.store.etcd.address import EtcdAddress
from proreus.engine.store.etcd.store import EtcdStore
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import ChangeBatch, Listing, Store, Unavailable
from proreus.engine.watch.subscription import WatchSelector
from tests.engine.controllers.virtual_time import play
from tests.engine.store.etcd_servers import etcd_cluster

LIST_SECONDS = 0.5


class SlowMemory(MemoryStore):
    """Lists take their time; what is listed is what stands in the end."""

    async def list(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
    ) -> Listing:
        await asyncio.sleep(LIST_SECONDS)
        return await super().list(prefix, after=after, limit=limit, revision=revision, most_bytes=most_bytes)


class SlowEtcd(EtcdStore):
    """An etcd whose lists take their time, and whose changes are heard only while `hearing` is set."""

    slow = 0.3

    def __init__(self, address: EtcdAddress, options: StoreOptions) -> None:
        super().__init__(address, options)
        self.hearing = asyncio.Event()
        self.hearing.set()

    async def list(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
    ) -> Listing:
        await asyncio.sleep(self.slow)
        return await super().list(prefix, after=after, limit=limit, revision=revision, most_bytes=most_bytes)

    async def _history(self, prefix: str, after: int) -> AsyncGenerator[ChangeBatch, None]:
        await self.hearing.wait()
        async with aclosing(super()._history(prefix, after)) as batches:
            async for batch in batches:
                if not self.hearing.is_set():
                    raise Unavailable("the connection is lost")
                yield batch


def _map(name: str, number: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"number": str(number)}}


def _asked(after: int, seconds: float) -> WatchAsked:
    return WatchAsked(WatchSelector(CONFIG_MAP, "default"), Form(), after, seconds, False, False, "me")


@dataclass
class Watcher:
    """What one watcher heard."""

    after: int
    revisions: list[int] = field(default_factory=list)
    code: int = 0
    """Of the error that ended it."""

    async def listen(self, watches: Watches, seconds: float) -> None:
        """Hear everything that it is told."""
        async for piece in watches.lines(_asked(self.after, seconds)):
            for line in piece.splitlines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self.code = event["object"]["code"]
                else:
                    self.revisions.append(int(event["object"]["metadata"]["resourceVersion"]))

    def broken(self, made: list[int]) -> str:
        """How the law was broken; "": it holds."""
        wanted = [revision for revision in made if revision > self.after]
        if self.code:
            kept = self.code == 410 and self.revisions == wanted[: len(self.revisions)]
        else:
            kept = self.revisions == wanted
        missing = sorted(set(wanted) - set(self.revisions))
        return (
            "" if kept else f"after {self.after}: heard {len(self.revisions)}, error {self.code}, {missing=}"
        )


async def _prepared(store: Store) -> Registry:
    registry = Registry(store)
    await registry.prepare()
    return registry


async def _change(registry: Registry, made: list[int], number: int) -> None:
    name = f"m{number % 7}"
    try:
        if number % 5 == 4:
            await registry.delete(CONFIG_MAP, "default", name)
            made.append(await _revision(registry))
            return
        changed = await registry.edit(CONFIG_MAP, "default", name, lambda obj: {**obj, **_data(len(made))})
    except NotFound:
        changed = await registry.create(CONFIG_MAP, _map(name, number))
    made.append(int(changed["metadata"]["resourceVersion"]))


def _data(unlike: int) -> dict[str, Any]:
    return {"data": {"number": f"change {unlike}"}}


async def _revision(registry: Registry) -> int:
    """Of the store; nothing else writes there."""
    return (await registry.store.commit([], [])).revision


def test_who_joins_while_a_feed_lists_anew_is_told_what_changes_meanwhile() -> None:
    async def scenario() -> list[str]:
        store = SlowMemory()
        registry = await _prepared(store)
        watches = Watches(registry, ApiLimits())
        made: list[int] = []
        await _change(registry, made, 0)
        first = Watcher(made[-1])
        watchers = [first]
        listening = [asyncio.create_task(first.listen(watches, 60))]
        await asyncio.sleep(2 * LIST_SECONDS)
        for number in range(10, 14):  # all in one turn of the loop: the feed hears of none of them
            await _change(registry, made, number)
        await store.compact(made[-1])
        for _ in range(4):  # while it lists
            await asyncio.sleep(LIST_SECONDS / 5)
            watcher = Watcher(made[-1])
            watchers.append(watcher)
            listening.append(asyncio.create_task(watcher.listen(watches, 60)))
            await asyncio.sleep(0)
            await _change(registry, made, len(made) * 5)
        await asyncio.sleep(5)
        await _change(registry, made, 1)
        await asyncio.gather(*listening)
        await watches.stop()
        assert first.code == 410
        return [broken for watcher in watchers if (broken := watcher.broken(made))]

    assert play(scenario()) == []


async def _story(store: Store, seed: int, rounds: int, pause: float) -> tuple[list[Watcher], list[int]]:
    """Changes, compactions and watchers at drawn moments."""
    draw = random.Random(seed)
    registry = await _prepared(store)
    watches = Watches(registry, ApiLimits(remembered_events=draw.choice([1, 5, 4096])))
    made: list[int] = []
    watchers: list[Watcher] = []
    listening: list[asyncio.Task[None]] = []
    for number in range(rounds):
        for _ in range(draw.choice([0, 1, 1, 3, 20])):
            await _change(registry, made, draw.randrange(1000))
        if made and draw.random() < 0.3:
            await store.compact(made[draw.randrange(max(0, len(made) - 5), len(made))])
        if made and draw.random() < 0.8:
            watcher = Watcher(made[draw.randrange(max(0, len(made) - 8), len(made))])
            watchers.append(watcher)
            listening.append(asyncio.create_task(watcher.listen(watches, pause * (rounds - number) + 6)))
        await asyncio.sleep(draw.uniform(0, pause))
    await asyncio.gather(*listening)
    await watches.stop()
    return watchers, made


@pytest.mark.parametrize("seed", range(40))
def test_every_change_once_and_in_order_or_410(seed: int) -> None:
    watchers, made = play(_story(SlowMemory(), seed, rounds=60, pause=LIST_SECONDS))
    assert [broken for watcher in watchers if (broken := watcher.broken(made))] == []
    assert any(watcher.revisions for watcher in watchers)


def test_every_change_once_and_in_order_or_410_of_a_slow_etcd(tmp_path: Path) -> None:
    async def scenario() -> tuple[list[Watcher], list[int], int]:
        with etcd_cluster(tmp_path) as cluster:
            address = EtcdAddress((cluster.members[0].endpoint,), root="/laws/")
            store = await SlowEtcd.open(address, StoreOptions(compact_seconds=0))
            assert isinstance(store, SlowEtcd)
            try:
                return await _crowd(store)
            finally:
                await store.close()

    watchers, made, cut = asyncio.run(scenario())
    assert [broken for watcher in watchers if (broken := watcher.broken(made))] == []
    assert cut, "the feed was never compacted away"


async def _crowd(store: SlowEtcd) -> tuple[list[Watcher], list[int], int]:
    """A hundred join while history goes: compaction overtakes the store's own feed."""
    registry = await _prepared(store)
    watches = Watches(registry, ApiLimits())
    made: list[int] = []
    watchers: list[Watcher] = []
    listening: list[asyncio.Task[None]] = []
    await _change(registry, made, 0)

    def join() -> None:
        watcher = Watcher(made[-1])
        watchers.append(watcher)
        listening.append(asyncio.create_task(watcher.listen(watches, 12)))

    join()
    await asyncio.sleep(1)
    for turn in range(4):
        store.hearing.clear()
        for number in range(5):
            await _change(registry, made, 10 * turn + number)
        await asyncio.sleep(0.3)
        await store.compact(made[-1])
        store.hearing.set()  # and etcd says that what comes next is gone
        for number in range(30):
            join()
            if number % 3 == 0:
                await _change(registry, made, 100 * turn + number)
            await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    await _change(registry, made, 1)
    await asyncio.gather(*listening)
    await watches.stop()
    return watchers, made, sum(watcher.code == 410 for watcher in watchers)


def test_a_feed_that_cannot_be_read_is_told_to_who_joins() -> None:
    """And to nobody for longer than that: with the store back, watches are as before."""

    class Away(MemoryStore):
        away = True

        async def list(
            self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
        ) -> Listing:
            if self.away:
                raise Unavailable("nobody answers")
            return await super().list(
                prefix, after=after, limit=limit, revision=revision, most_bytes=most_bytes
            )

    async def scenario() -> tuple[int, list[str]]:
        store = Away()
        registry = await _prepared(store)
        watches = Watches(registry, ApiLimits())
        made: list[int] = []
        await _change(registry, made, 0)
        refused = Watcher(made[-1])
        await refused.listen(watches, 30)
        store.away = False
        await asyncio.sleep(1)
        watcher = Watcher(made[-1])
        listening = asyncio.create_task(watcher.listen(watches, 5))
        await asyncio.sleep(0.1)
        await _change(registry, made, 1)
        await listening
        await watches.stop()
        return refused.code, [watcher.broken(made)]

    assert play(scenario()) == (503, [""])
