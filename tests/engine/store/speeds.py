"""How fast a store is: `python -m tests.engine.store.speeds ADDRESS`, a new file or an etcd of its own.

Without an address: a SQLite file and an etcd of one member and of three, in a folder for the time being.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from proreus.engine.store.factory import open_store
from proreus.engine.store.protocol import Put, Store, Unchanged
from tests.engine.store.etcd_servers import etcd_cluster
from tests.engine.store.stores import changes, opened

_VALUE = bytes(2048)
_IN_FLIGHT = 256
_ENTRIES = 10_000
_WATCHES = 200


class Gaps:
    """How long the loop did not come round."""

    longest = 0.0


@asynccontextmanager
async def loop_gaps() -> AsyncIterator[Gaps]:
    """Beside some work: a task that should run every millisecond."""
    gaps = Gaps()

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            gaps.longest = max(gaps.longest, time.perf_counter() - before - 0.001)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    gaps.longest = 0.0
    yield gaps
    ticking.cancel()


async def compare_and_swap(store: Store, rounds: int) -> str:
    """Many writers, each on its own key."""
    times: list[float] = []

    async def write(key: str) -> None:
        revision = 0
        for _ in range(rounds):
            begun = time.perf_counter()
            done = await store.commit([Unchanged(key, revision)], [Put(key, _VALUE)])
            times.append(time.perf_counter() - begun)
            assert done.done
            revision = done.revision

    begun, busy = time.perf_counter(), time.process_time()
    async with loop_gaps() as gaps:
        await asyncio.gather(*(write(f"cas/{writer}") for writer in range(_IN_FLIGHT)))
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    cuts = statistics.quantiles(times, n=100)
    return (
        f"{len(times) / seconds:,.0f} compare-and-swap/s with {_IN_FLIGHT} in flight, 2 KB each "
        f"(p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms, {busy / len(times) * 1e6:.0f} µs of "
        f"this process each, longest loop gap {gaps.longest * 1e3:.1f} ms)"
    )


async def one_by_one(store: Store) -> str:
    """Each after the other: what a sync or a round trip costs."""
    begun = time.perf_counter()
    for _ in range(300):
        await store.commit([], [Put("one", _VALUE)])
    return f"{300 / (time.perf_counter() - begun):,.0f} commits/s one after the other"


async def get(store: Store) -> str:
    """Reads of one key."""
    begun = time.perf_counter()
    for number in range(2000):
        assert await store.get(f"list/{number:05}") is not None
    return f"{2000 / (time.perf_counter() - begun):,.0f} gets/s one after the other"


async def lists(store: Store) -> str:
    """A long list, and a part of it as it stood before."""
    for begin in range(0, _ENTRIES, 1000):
        numbers = range(begin, begin + 1000)
        await asyncio.gather(*(store.commit([], [Put(f"list/{number:05}", _VALUE)]) for number in numbers))
    async with loop_gaps() as gaps:
        begun = time.perf_counter()
        whole = await store.list("list/")
        seconds = time.perf_counter() - begun
    assert len(whole.entries) == _ENTRIES
    for number in range(1000):
        await store.commit([], [Put(f"list/{number:05}", _VALUE)])
    begun = time.perf_counter()
    part = await store.list("list/", limit=500, revision=whole.revision)
    then = time.perf_counter() - begun
    assert part.entries == whole.entries[:500]
    return (
        f"{_ENTRIES:,} entries of 2 KB listed in {seconds * 1e3:.0f} ms (longest loop gap "
        f"{gaps.longest * 1e3:.1f} ms); 500 of them as 1,000 revisions ago in {then * 1e3:.0f} ms"
    )


async def watches(store: Store) -> str:
    """Many watches of the same prefix."""
    start = (await store.list("watch/")).revision
    waiting = [asyncio.create_task(changes(store, "watch/", start, 1000)) for _ in range(_WATCHES)]
    await asyncio.sleep(0.1)
    begun = time.perf_counter()
    await asyncio.gather(*(store.commit([], [Put(f"watch/{number}", _VALUE)]) for number in range(1000)))
    written = time.perf_counter() - begun
    heard = await asyncio.gather(*waiting)
    assert all(len(one) == 1000 for one in heard)
    return (
        f"1,000 changes to {_WATCHES} watches: {(time.perf_counter() - begun) * 1e3:.0f} ms, "
        f"of which {written * 1e3:.0f} ms until all were written"
    )


async def measure(address: str) -> None:
    """Print every speed of the store there."""
    sys.stdout.write(f"{address}\n")
    async with opened(lambda: open_store(address)) as store:
        for line in (
            await compare_and_swap(store, rounds=40),
            await one_by_one(store),
            await lists(store),
            await get(store),
            await watches(store),
        ):
            sys.stdout.write(f"  {line}\n")


def main() -> None:
    """See the module."""
    asyncio.run(measure(sys.argv[1]) if len(sys.argv) > 1 else measure_all())


async def measure_all() -> None:
    """Every kind, in a folder here and not in one that may lie in memory."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        await measure(f"sqlite:{folder}/store.db")
        for members in (1, 3):
            with etcd_cluster(Path(folder).resolve() / str(members), members) as cluster:
                await measure(f"etcd://{cluster.endpoints}")


if __name__ == "__main__":
    main()
