"""What stores hold for watches is bounded by its number and by its bytes, however long objects are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from proreus.engine.store.history_size import Superseded
from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import Change, ChangeBatch, Compacted, Delete, KeyValue
from proreus.engine.store.sqlite.store import SQLiteStore
from proreus.engine.store.watch_feed import WatchFeed
from tests.engine.store.stores import changes, opened, put, watching


def _entry(key: str, revision: int, size: int) -> KeyValue:
    return KeyValue(key, bytes(size), 1, revision)


def _published(feed: WatchFeed, count: int, size: int, keys: int = 10) -> None:
    """So many changes of some keys, each with what stood before as a store reads it: another object."""
    for revision in range(feed.revision + 1, feed.revision + 1 + count):
        key = f"pods/{revision % keys}"
        before = _entry(key, revision - keys, size) if revision > keys else None
        feed.publish([Change(key, revision, _entry(key, revision, size), before)], revision)


def _values(feed: WatchFeed) -> list[bytes]:
    entries = [
        entry for change in feed._recent for entry in (change.entry, change.previous) if entry is not None
    ]
    return list({id(entry.value): entry.value for entry in entries}.values())


def test_a_feed_holds_no_more_bytes_than_it_may() -> None:
    async def story() -> None:
        feed = WatchFeed(0, 1_000, 100_000)
        _published(feed, 5_000, 1_000)
        assert sum(map(len, _values(feed))) <= 1.1 * 100_000
        assert 50 <= len(feed._recent) <= 60
        assert feed.floor == feed._recent[0].revision - 1
        _published(feed, 5_000, 10)  # short ones: their number is the bound
        assert 1_000 <= len(feed._recent) <= 1_100

    asyncio.run(story())


def test_little_is_forgotten_at_once_for_it_holds_up_the_loop() -> None:
    async def story() -> None:
        feed = WatchFeed(0, 1_600, 10_000_000)
        floors = []
        for _ in range(5_000):
            _published(feed, 1, 10)
            floors.append(feed.floor)
        assert max(later - before for before, later in pairwise(floors)) <= 101

    asyncio.run(story())


def test_a_value_is_held_once_though_two_changes_tell_of_it() -> None:
    async def story() -> None:
        feed = WatchFeed(0, 1_000, 10_000_000)
        _published(feed, 500, 1_000)
        assert len(_values(feed)) == 500
        assert len(feed._newest) == 10
        feed.publish([Change("pods/1", 501, None, _entry("pods/1", 491, 1_000))], 501)
        assert "pods/1" not in feed._newest
        feed.compact(501)
        assert (feed._bytes, feed._newest, feed._recent) == (0, {}, [])

    asyncio.run(story())


def test_a_watch_that_takes_nothing_holds_nothing_that_the_feed_has_forgotten() -> None:
    async def story() -> None:
        feed = WatchFeed(0, 1_000, 100_000)
        read_from: list[int] = []

        async def older(prefix: str, after: int) -> AsyncGenerator[ChangeBatch, None]:
            read_from.append(after)
            yield ChangeBatch((), feed.revision)

        watch = cast(AsyncGenerator[ChangeBatch, None], feed.follow("pods/", 0, older))
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        _published(feed, 1, 1_000)
        assert (await waiting).revision == 1
        _published(feed, 5_000, 1_000)
        (follower,) = feed._followers["pods/"]
        assert follower.lost and not follower.pending
        await anext(watch)
        assert read_from == [1]  # it goes on from where it was
        await watch.aclose()

    asyncio.run(story())


def test_history_is_forgotten_where_it_takes_too_much_room(tmp_path: Path) -> None:
    options = StoreOptions(history_bytes=200_000, held_bytes=50_000)

    async def story() -> None:
        path = tmp_path / "store.db"
        async with opened(lambda: SQLiteStore.open(path, options)) as store:
            assert isinstance(store, SQLiteStore)
            first = await put(store, "large", bytes(10_000))
            for _ in range(100):
                last = await put(store, "large", bytes(10_000))
            assert store._superseded.size <= 250_000
            with pytest.raises(Compacted):
                await changes(store, "", first, 1)
            assert len(await changes(store, "", last - 15, 15)) == 15
            before = store._superseded.size
        async with opened(lambda: SQLiteStore.open(path, options)) as store:
            assert isinstance(store, SQLiteStore)
            assert store._superseded.size == before  # counted anew

    asyncio.run(story())


def test_what_stands_is_no_reason_to_forget(tmp_path: Path) -> None:
    async def story() -> None:
        options = StoreOptions(history_bytes=200_000)
        async with opened(lambda: SQLiteStore.open(tmp_path / "store.db", options)) as store:
            assert isinstance(store, SQLiteStore)
            first = await put(store, "pods/0")
            for number in range(1, 100):
                await put(store, f"pods/{number}", bytes(10_000))
            assert len(await changes(store, "", first, 99)) == 99
            await store.commit([], [Delete("pods/1")])
            assert store._superseded.size == 10_000

    asyncio.run(story())


def test_a_watch_goes_on_over_what_was_forgotten_by_the_feed(tmp_path: Path) -> None:
    async def story() -> None:
        options = StoreOptions(held_bytes=20_000)
        async with opened(lambda: SQLiteStore.open(tmp_path / "store.db", options)) as store:
            start = await put(store, "pods/0")
            batches = watching(store, "pods/", start)
            await put(store, "pods/1")
            seen = [change.revision for change in (await anext(batches)).changes]
            for number in range(200):
                last = await put(store, f"pods/{number % 3}", bytes(1_000))
            while seen[-1] < last:
                seen += [change.revision for change in (await anext(batches)).changes]
            assert seen == list(range(start + 1, last + 1))
            await batches.aclose()

    asyncio.run(story())


def test_superseded_bytes_are_counted_by_revision() -> None:
    counted = Superseded()
    for revision in range(1, 11):
        for _ in range(3):
            counted.add(revision, 10)
    assert (counted.size, len(counted._by_revision)) == (300, 10)
    assert counted.surplus(300) == 0
    assert counted.surplus(299) == 1
    assert counted.surplus(0) == 10
    counted.forget(counted.surplus(100))
    assert counted.size == 90
