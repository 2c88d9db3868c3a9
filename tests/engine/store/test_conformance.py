"""What the protocol says, of every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from proreus.engine.store.protocol import (
    ABSENT,
    Change,
    ChangeBatch,
    Compacted,
    Delete,
    KeyValue,
    NoSuchLease,
    Put,
    Store,
    StoreError,
    Unchanged,
)
from proreus.engine.store.validation import MOST_BYTES
from tests.engine.store.stores import Opener, changes, opened, put


def run(opening: Opener, scenario: Callable[[Store], Awaitable[None]]) -> None:
    """One test's story, on a store that is closed afterwards."""

    async def story() -> None:
        async with opened(opening) as store:
            await scenario(store)

    asyncio.run(story())


def test_a_key_has_its_value_and_revisions(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        assert await store.get("pods/a") is None
        first = await store.commit([Unchanged("pods/a", ABSENT)], [Put("pods/a", b"1")])
        assert first.done
        assert await store.get("pods/a") == KeyValue("pods/a", b"1", first.revision, first.revision)
        second = await store.commit([Unchanged("pods/a", first.revision)], [Put("pods/a", b"")])
        assert second.revision == first.revision + 1
        assert await store.get("pods/a") == KeyValue("pods/a", b"", first.revision, second.revision)
        third = await store.commit([], [Delete("pods/a")])
        assert third.revision == second.revision + 1
        assert await store.get("pods/a") is None
        again = await put(store, "pods/a", b"2")
        assert await store.get("pods/a") == KeyValue("pods/a", b"2", again, again)

    run(opening, scenario)


def test_bytes_come_back_as_they_were(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        for key, value in (
            ("bytes", bytes(range(256))),
            ("long", b"x" * 1_000_000),
            ("键/é/\U0001f600", b"\0"),
        ):
            await put(store, key, value)
            entry = await store.get(key)
            assert entry is not None
            assert (entry.key, entry.value) == (key, value)

    run(opening, scenario)


def test_a_failed_condition_changes_nothing_and_tells_what_stands(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        revision = await put(store, "a", b"1")
        conditions = [Unchanged("a", revision), Unchanged("b", revision)]
        refused = await store.commit(conditions, [Put("a", b"2"), Delete("a/x"), Put("b", b"2")])
        assert not refused.done
        assert refused.revision == revision
        assert refused.found == (KeyValue("a", b"1", revision, revision), None)
        assert (await store.list("")).entries == (KeyValue("a", b"1", revision, revision),)
        exists = await store.commit([Unchanged("a", ABSENT)], [Put("a", b"3")])
        assert not exists.done

    run(opening, scenario)


def test_conditions_alone_and_deletions_of_nothing_take_no_revision(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        revision = await put(store, "a")
        for conditions in ([], [Unchanged("a", revision)]):
            held = await store.commit(conditions, [])
            assert (held.done, held.revision) == (True, revision)
        nothing = await store.commit([], [Delete("no such key")])
        assert (nothing.done, nothing.revision) == (True, revision)

    run(opening, scenario)


def test_a_transaction_takes_one_revision_for_all_its_keys(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        before = await put(store, "gone", b"0")
        done = await store.commit([], [Put("b", b"b"), Delete("gone"), Put("a", b"a")])
        assert done.revision == before + 1
        listing = await store.list("")
        assert [(entry.key, entry.revision) for entry in listing.entries] == [
            ("a", done.revision),
            ("b", done.revision),
        ]
        assert listing.revision == done.revision
        together = await changes(store, "", before, 1)
        assert {change.key for change in together} == {"a", "b", "gone"}
        assert {change.revision for change in together} == {done.revision}

    run(opening, scenario)


@pytest.mark.parametrize(
    "operations",
    [
        [Put("a", b"1"), Delete("a")],
        [Put("", b"1")],
        [Put("\ud800", b"")],
        [Put("a", b""), Put("b", bytes(MOST_BYTES + 1))],
        [Put("a", cast(bytes, "text"))],
    ],
)
def test_what_cannot_be_meant_is_refused(opening: Opener, operations: list[Put | Delete]) -> None:
    async def scenario(store: Store) -> None:
        with pytest.raises(ValueError):
            await store.commit([], operations)
        assert (await store.list("")).entries == ()

    run(opening, scenario)


def test_lists_are_in_the_order_of_keys_and_of_the_prefix_only(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        keys = [
            "pods/b",
            "pods/a",
            "pods",
            "pods0",
            "podr/z",
            "pods/",
            "pods/a/b",
            "pods/é",
            "pods/\U0001f600",
        ]
        for key in keys:
            await put(store, key)

        async def listed(prefix: str, after: str = "") -> list[str]:
            return [entry.key for entry in (await store.list(prefix, after=after)).entries]

        assert await listed("pods/") == sorted(key for key in keys if key.startswith("pods/"))
        assert await listed("") == sorted(keys)
        assert await listed("pods/", after="pods/a/b") == ["pods/b", "pods/é", "pods/\U0001f600"]
        assert await listed("pods/", after="a") == await listed("pods/")
        assert await listed("pods/", after="q") == []
        assert await listed("no") == []

    run(opening, scenario)


def test_a_long_list_in_parts_is_of_one_revision(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        keys = [f"pods/{number:03}" for number in range(25)]
        for key in keys:
            await put(store, key, b"old")
        first = await store.list("pods/", limit=10)
        assert (len(first.entries), first.remaining) == (10, 15)
        await store.commit([], [Put("pods/012", b"new"), Delete("pods/020"), Put("pods/013x", b"new")])
        await put(store, "pods/012", b"newer")
        second = await store.list("pods/", after=first.entries[-1].key, limit=10, revision=first.revision)
        assert (len(second.entries), second.remaining) == (10, 5)
        third = await store.list("pods/", after=second.entries[-1].key, limit=10, revision=first.revision)
        assert (len(third.entries), third.remaining) == (5, 0)
        whole = [*first.entries, *second.entries, *third.entries]
        assert [entry.key for entry in whole] == keys
        assert {entry.value for entry in whole} == {b"old"}
        assert {listing.revision for listing in (first, second, third)} == {first.revision}
        assert len((await store.list("pods/", limit=25)).entries) == 25

    run(opening, scenario)


def test_a_long_list_in_parts_of_so_many_bytes(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        lengths = {f"pods/{number:03}": 1_000 if number % 10 else 5_000 for number in range(45)}
        for key, length in lengths.items():
            await put(store, key, b"x" * length)
        part = await store.list("pods/", most_bytes=3_000)
        parts = [part]
        await put(store, "pods/999")
        while part.remaining:
            last, revision = part.entries[-1].key, part.revision
            part = await store.list("pods/", after=last, revision=revision, most_bytes=3_000)
            parts.append(part)
        assert [entry.key for part in parts for entry in part.entries] == list(lengths)
        for part in parts:
            sizes = [len(entry.value) for entry in part.entries]
            assert sum(sizes) <= 3_000 or len(sizes) == 1, "one at least"
        assert parts[0].remaining == 44 and len(parts[1].entries) == 3
        both = await store.list("pods/", after="pods/000", limit=2, most_bytes=3_000)
        assert (len(both.entries), both.remaining) == (2, 43)
        whole = await store.list("pods/", most_bytes=10**9)
        assert (len(whole.entries), whole.remaining) == (46, 0)

    run(opening, scenario)


def test_a_list_of_a_revision_to_come_is_refused(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        revision = await put(store, "a")
        with pytest.raises(StoreError, match="not reached"):
            await store.list("", revision=revision + 10)

    run(opening, scenario)


def test_a_watch_hands_out_every_change_with_what_stood_before(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        start = await put(store, "pods/before")
        created = await put(store, "pods/a", b"1")
        changed = await put(store, "pods/a", b"2")
        await put(store, "nodes/a", b"2")
        deleted = (await store.commit([], [Delete("pods/a")])).revision
        key_value, two = (
            KeyValue("pods/a", b"1", created, created),
            KeyValue("pods/a", b"2", created, changed),
        )
        assert await changes(store, "pods/", start, 3) == [
            Change("pods/a", created, key_value, None),
            Change("pods/a", changed, two, key_value),
            Change("pods/a", deleted, None, two),
        ]

    run(opening, scenario)


def test_watches_from_any_revision_go_on_into_the_present(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        start = await put(store, "other")
        written = [await put(store, f"pods/{number}") for number in range(10)]
        watches = [
            asyncio.create_task(changes(store, "pods/", after, 15 - index))
            for index, after in enumerate([start, *written])
        ]
        await asyncio.sleep(0.05)
        written += [await put(store, f"pods/{number}") for number in range(5)]
        for index, watch in enumerate(watches):
            assert [change.revision for change in await watch] == written[index:]

    run(opening, scenario)


def test_a_watch_from_a_revision_to_come_waits_for_it(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        now = await put(store, "a")
        watch = asyncio.create_task(changes(store, "", now + 2, 1))
        await asyncio.sleep(0.05)
        for value in (b"1", b"2", b"3"):
            await put(store, "a", value)
        (change,) = await watch
        assert change.revision == now + 3

    run(opening, scenario)


def test_a_closed_store_ends_its_watches(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        async def all_of(prefix: str) -> list[ChangeBatch]:
            return [batch async for batch in store.watch(prefix, 0)]

        watch = asyncio.create_task(all_of("nothing/"))
        await asyncio.sleep(0.05)
        await store.close()
        async with asyncio.timeout(60):
            assert all(not batch.changes for batch in await watch)

    run(opening, scenario)


def test_racing_writers_lose_nothing_and_win_once(opening: Opener) -> None:
    """Many add one to the same number; each addition is there once."""

    async def scenario(store: Store) -> None:
        await put(store, "n", b"0")

        async def add() -> None:
            while True:
                entry = await store.get("n")
                assert entry is not None
                number = str(int(entry.value) + 1).encode()
                if (await store.commit([Unchanged("n", entry.revision)], [Put("n", number)])).done:
                    return

        await asyncio.gather(*(add() for _ in range(30)))
        total = await store.get("n")
        assert total is not None
        assert total.value == b"30"

    run(opening, scenario)


def test_compaction_forgets_the_history_and_keeps_what_stands(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        await put(store, "kept", b"1")
        await put(store, "gone", b"1")
        old = await put(store, "changed", b"1")
        await store.commit([], [Delete("gone")])
        middle = await put(store, "changed", b"2")
        standing = await store.list("")
        last = await put(store, "changed", b"3")
        await store.compact(middle)
        assert await store.list("", revision=middle) == standing
        with pytest.raises(Compacted):
            await store.list("", revision=old)
        with pytest.raises(Compacted):
            await changes(store, "", old, 1)
        (change,) = await changes(store, "", middle, 1)
        assert (change.revision, change.previous) == (last, standing.entries[0])
        assert [entry.value for entry in (await store.list("")).entries] == [b"3", b"1"]
        await store.compact(old)  # less than what is forgotten already
        await store.compact(last + 1000)
        assert (await store.list("")).revision == last

    run(opening, scenario)


def test_a_lease_takes_its_keys_with_it(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        lease = await store.grant(60)
        other = await store.grant(60)
        assert lease != other
        for key, by in (
            ("x/a", lease),
            ("x/b", lease),
            ("x/moved", lease),
            ("x/kept", lease),
            ("x/o", other),
        ):
            await put(store, key, b"", by)
        await put(store, "x/moved", b"", other)
        before = await put(store, "x/kept")
        found = await store.get("x/a")
        assert found is not None
        assert found.lease == lease
        await store.keep_alive(lease)
        await store.revoke(lease)
        listing = await store.list("x/")
        assert [entry.key for entry in listing.entries] == ["x/kept", "x/moved", "x/o"]
        gone = await changes(store, "x/", before, 2)
        assert [(change.key, change.entry) for change in gone] == [("x/a", None), ("x/b", None)]
        assert {change.revision for change in gone} == {before + 1}
        for unknown in (lease, -1, 1 << 70):
            for use in (store.keep_alive(unknown), store.revoke(unknown), put(store, "x/a", b"", unknown)):
                with pytest.raises(NoSuchLease):
                    await use

    run(opening, scenario)


def test_an_unknown_lease_is_refused_before_anything_is_done(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        revision = await put(store, "a", b"1")
        with pytest.raises(NoSuchLease):
            await store.commit([], [Put("a", b"2"), Delete("a/b"), Put("c", b"2", lease=987_654_321)])
        listing = await store.list("")
        assert listing.revision == revision
        assert [entry.value for entry in listing.entries] == [b"1"]
        refused = await store.commit([Unchanged("a", ABSENT)], [Put("c", b"2", lease=987_654_321)])
        assert not refused.done

    run(opening, scenario)


def test_a_lease_that_is_not_kept_alive_runs_out(opening: Opener) -> None:
    async def scenario(store: Store) -> None:
        start = await put(store, "a")
        short, long = await store.grant(0.3), await store.grant(60)
        await put(store, "short", b"", short)
        await put(store, "long", b"", long)
        gone = (await changes(store, "", start + 2, 1))[0]
        assert (gone.key, gone.entry) == ("short", None)
        assert await store.get("short") is None
        assert await store.get("long") is not None
        with pytest.raises(NoSuchLease):
            await store.keep_alive(short)

    run(opening, scenario)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_lease_has_a_time(opening: Opener, seconds: float) -> None:
    async def scenario(store: Store) -> None:
        with pytest.raises(ValueError):
            await store.grant(seconds)

    run(opening, scenario)
