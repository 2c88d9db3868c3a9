"""What befalls an etcd cluster: members go, the leader goes, the quorum goes, the room goes."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import grpc
import pytest
from aetcd import rpc

from proreus.engine.store.etcd.address import EtcdAddress
from proreus.engine.store.etcd.store import EtcdStore
from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import (
    Change,
    ChangeBatch,
    Compacted,
    Put,
    Store,
    StoreError,
    StoreFull,
    Unavailable,
    Unchanged,
)
from tests.engine.store.etcd_servers import Cluster, etcd_cluster, free_ports
from tests.engine.store.stores import changes, opened, put, watching

WRITERS = 16


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members, which every test leaves running."""
    with etcd_cluster(tmp_path_factory.mktemp("three"), 3) as cluster:
        yield cluster


def address(cluster: Cluster, root: str) -> EtcdAddress:
    """All members."""
    return EtcdAddress(tuple(member.endpoint for member in cluster.members), root=root)


async def count_up(store: Store, key: str, stop: asyncio.Event) -> list[int]:
    """Count up one number by comparing first; what was acknowledged."""
    acknowledged: list[int] = []
    while not stop.is_set():
        try:
            entry = await store.get(key)
            number, revision = (int(entry.value), entry.revision) if entry else (0, 0)
            # Nobody else counts here: what is more than was acknowledged was done without an answer.
            assert number >= (acknowledged[-1] if acknowledged else 0)
            done = await store.commit([Unchanged(key, revision)], [Put(key, str(number + 1).encode())])
        except Unavailable:
            continue
        if done.done:
            acknowledged.append(number + 1)
    return acknowledged


async def collect(batches: list[ChangeBatch], store: Store, prefix: str, after: int) -> None:
    """Watch until cancelled."""
    async with aclosing(watching(store, prefix, after)) as watch:
        async for batch in watch:
            batches.append(batch)


def check_nothing_lost(heard: list[Change], acknowledged: dict[str, list[int]]) -> None:
    """Every number of every key once, in order, without a gap; the acknowledged ones among them."""
    for key, numbers in acknowledged.items():
        values = [int(change.entry.value) for change in heard if change.key == key and change.entry]
        assert values == list(range(1, len(values) + 1))
        assert set(numbers) <= set(values)
        assert numbers == sorted(set(numbers))
    revisions = [change.revision for change in heard]
    assert revisions == sorted(set(revisions))


def test_the_leader_is_killed_under_load_and_nothing_acknowledged_is_lost(three: Cluster) -> None:
    async def story() -> None:
        leader = await asyncio.to_thread(three.leader)
        others = [member for member in three.members if member is not leader]
        # The leader first: the connection is lost with it.
        endpoints = tuple(member.endpoint for member in (leader, *others))
        options = StoreOptions(timeout=60)
        async with opened(lambda: EtcdStore.open(EtcdAddress(endpoints, root="/leader/"), options)) as store:
            start = (await store.list("")).revision
            stop, batches = asyncio.Event(), list[ChangeBatch]()
            watch = asyncio.create_task(collect(batches, store, "n/", start))
            keys = [f"n/{number}" for number in range(WRITERS)]
            counting = [asyncio.create_task(count_up(store, key, stop)) for key in keys]
            await asyncio.sleep(0.5)
            leader.kill()
            killed_at = (await store.list("")).revision
            while (await store.list("")).revision < killed_at + 500:
                await asyncio.sleep(0.1)
            await asyncio.to_thread(three.start, leader)
            stop.set()
            acknowledged = dict(zip(keys, await asyncio.gather(*counting), strict=True))
            assert all(acknowledged.values())
            last = await put(store, "n/last")
            async with asyncio.timeout(60):
                while not batches or batches[-1].revision < last:
                    await asyncio.sleep(0.05)
            watch.cancel()
            heard = [change for batch in batches for change in batch.changes if change.key != "n/last"]
            check_nothing_lost(heard, acknowledged)
            # A second reader, who was not there when it happened, reads the same history.
            async with opened(lambda: EtcdStore.open(address(three, "/leader/"))) as other:
                again = await changes(other, "n/", start, len(heard))
            assert [change for change in again if change.key != "n/last"] == heard

    asyncio.run(story())


def test_the_member_that_is_asked_is_stopped(three: Cluster) -> None:
    """Calls go to the first; it is no leader, so that only the connection is lost."""

    async def story() -> None:
        leader = await asyncio.to_thread(three.leader)
        follower = next(member for member in three.members if member is not leader)
        endpoints = (follower.endpoint, leader.endpoint)
        async with opened(lambda: EtcdStore.open(EtcdAddress(endpoints, root="/stopped/"))) as store:
            start = await put(store, "a", b"1")
            lease = await store.grant(60)
            watch = asyncio.create_task(changes(store, "", start, 2))
            older = asyncio.create_task(changes(store, "a", start - 1, 3))
            await put(store, "a", b"2")
            await asyncio.to_thread(follower.stop)
            assert (await store.get("a")) is not None
            await store.keep_alive(lease)
            await put(store, "a", b"3")
            assert [change.entry.value for change in await watch if change.entry] == [b"2", b"3"]
            assert [change.entry.value for change in await older if change.entry] == [b"1", b"2", b"3"]
        await asyncio.to_thread(three.start, follower)

    asyncio.run(story())


def test_the_member_that_is_asked_hangs(three: Cluster) -> None:
    """Its connections stand, and nothing comes: only time tells."""

    async def story() -> None:
        leader = await asyncio.to_thread(three.leader)
        follower = next(member for member in three.members if member is not leader)
        endpoints = (follower.endpoint, leader.endpoint)
        async with opened(lambda: EtcdStore.open(EtcdAddress(endpoints, root="/hangs/"))) as store:
            start = await put(store, "a", b"1")
            heard: list[ChangeBatch] = []
            watch = asyncio.create_task(collect(heard, store, "", start))
            await asyncio.sleep(0.1)
            assert follower.process is not None
            follower.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(0.2)  # it may still answer what was on its way
            try:
                async with asyncio.timeout(4):
                    assert await store.get("a") is not None
                revision = await put(store, "a", b"2")
                async with asyncio.timeout(60):
                    while not any(batch.changes for batch in heard):
                        await asyncio.sleep(0.1)
                assert [change.revision for batch in heard for change in batch.changes] == [revision]
            finally:
                follower.process.send_signal(signal.SIGCONT)
                watch.cancel()

    asyncio.run(story())


def test_without_a_quorum_the_store_is_unavailable_and_comes_back(three: Cluster) -> None:
    async def story() -> None:
        options = StoreOptions(timeout=1.5)
        async with opened(lambda: EtcdStore.open(address(three, "/quorum/"), options)) as store:
            start = await put(store, "a", b"1")
            heard: list[ChangeBatch] = []
            watch = asyncio.create_task(collect(heard, store, "", start))
            gone = three.members[:2]
            for member in gone:
                member.kill()
            begun = time.monotonic()
            for use in (store.get("a"), put(store, "a", b"lost"), store.list("")):
                with pytest.raises(Unavailable):
                    await use
            assert time.monotonic() - begun < 45  # three times 1.5 s where the machine is not busy
            await asyncio.to_thread(three.start, *gone)
            while True:
                try:
                    await put(store, "a", b"2")
                    break
                except Unavailable:
                    await asyncio.sleep(0.1)
            values: list[bytes] = []
            while b"2" not in values:
                await asyncio.sleep(0.1)
                values = [change.entry.value for batch in heard for change in batch.changes if change.entry]
            watch.cancel()
            assert values in ([b"2"], [b"lost", b"2"])  # nobody knows what became of that one

    asyncio.run(story())


def test_a_watch_that_missed_what_was_compacted_is_told_so(three: Cluster) -> None:
    """Its only member is down while others write and forget."""

    async def story() -> None:
        lonely, other = three.members[0], three.members[1]
        async with (
            opened(lambda: EtcdStore.open(EtcdAddress((lonely.endpoint,), root="/gap/"))) as store,
            opened(lambda: EtcdStore.open(EtcdAddress((other.endpoint,), root="/gap/"))) as writer,
        ):
            start = await put(store, "a", b"1")
            watch = asyncio.create_task(changes(store, "", start, 100))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(lonely.kill)
            for number in range(5):
                last = await _put_at_last(writer, "a", str(number).encode())
            await writer.compact(last)
            await asyncio.to_thread(three.start, lonely)
            with pytest.raises(Compacted):
                await watch
            listing = await store.list("")
            after = await put(writer, "a", b"new")
            (change,) = await changes(store, "", listing.revision, 1)
            assert change.revision == after

    asyncio.run(story())


async def _put_at_last(store: Store, key: str, value: bytes) -> int:
    """Also while a new leader is chosen."""
    while True:
        try:
            return await put(store, key, value)
        except Unavailable:
            await asyncio.sleep(0.1)


def test_a_dead_endpoint_before_a_live_one(three: Cluster) -> None:
    async def story() -> None:
        endpoints = (f"127.0.0.1:{free_ports(1)[0]}", three.members[0].endpoint)
        begun = time.monotonic()
        async with opened(lambda: EtcdStore.open(EtcdAddress(endpoints, root="/dead/"))) as store:
            assert await put(store, "a") > 0
        assert time.monotonic() - begun < 30

    asyncio.run(story())


def test_where_nobody_listens_the_error_says_where() -> None:
    port = free_ports(1)[0]
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port} does not answer") as refused:
        asyncio.run(EtcdStore.open(EtcdAddress((f"127.0.0.1:{port}",)), StoreOptions(timeout=0.3)))
    assert not refused.value.uncertain


def test_a_transaction_that_is_too_long_is_refused_as_it_is(three: Cluster) -> None:
    async def story() -> None:
        async with opened(lambda: EtcdStore.open(address(three, "/long/"))) as store:
            with pytest.raises(StoreError, match="too many operations"):
                await store.commit([], [Put(str(number), b"") for number in range(129)])
            with pytest.raises(StoreError, match="larger than max"):
                await put(store, "large", bytes(2 << 20))

    asyncio.run(story())


def test_a_used_up_quota_stops_writes_alone_and_until_there_is_room(tmp_path: Path) -> None:
    async def story() -> None:
        with etcd_cluster(tmp_path, flags=["--quota-backend-bytes", str(4 << 20)]) as cluster:
            async with opened(lambda: EtcdStore.open(address(cluster, "/full/"))) as store:
                with pytest.raises(StoreFull):
                    for number in range(100):
                        await put(store, "k", bytes([number]) * (512 << 10))
                entry = await store.get("k")
                assert entry is not None
                assert entry.value == bytes([number - 1]) * (512 << 10)
                await store.compact(entry.revision)
                await asyncio.sleep(0.5)  # etcd takes the old values away in the background
                await _make_room(cluster)
                assert await put(store, "room", b"again") == entry.revision + 1

    asyncio.run(story())


async def _make_room(cluster: Cluster) -> None:
    """As an operator does."""
    async with grpc.aio.insecure_channel(cluster.members[0].endpoint) as channel:
        maintenance = rpc.MaintenanceStub(channel)
        await maintenance.Defragment(rpc.DefragmentRequest())
        raised = await maintenance.Alarm(rpc.AlarmRequest(action=rpc.AlarmRequest.GET))
        for one in raised.alarms:
            await maintenance.Alarm(
                rpc.AlarmRequest(action=rpc.AlarmRequest.DEACTIVATE, memberID=one.memberID, alarm=one.alarm)
            )
