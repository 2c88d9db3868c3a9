"""Measured use on its way from a runtime to whoever asks: series, leases, and notes in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from statistics import pstdev
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.engine.kubelet.node_status import new_lease, renewed_lease
from proreus.engine.kubelet.usage.history import COARSE, FINE, Ring, UsageSeries
from proreus.engine.kubelet.usage.reporter import NodeLoad, UsageReporter
from proreus.engine.objects.ephemeral import EphemeralValues
from proreus.engine.runtimes.protocol import GpuUse, NetworkUse, NodeUse, PodRuntime, PodUse, Use
from proreus.engine.runtimes.stats import (
    CPU_DEVIATION,
    USED_CPU,
    USED_MEMORY,
    Measures,
    Trend,
    decode,
    encode,
    is_news,
)
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Committed, Operation, Unchanged

MIB = 1024 * 1024
FULL = Measures(
    NodeUse(1500, 3 * MIB, 9, 4, 5, NetworkUse(7, 8), (GpuUse("GPU-1", "H200", None, 1, 2),)),
    (Use("u1", "main", 120, 5 * MIB, 6), Use("u1", "side", 1, 2)),
    (PodUse("u1", 77, NetworkUse(1, 2)), PodUse("u2", 5)),
    {"": Trend((1, 2), (MIB, 2 * MIB)), "u1": Trend((3,), (1024,))},
)


class FixedRuntime:
    """Uses what a test says."""

    def __init__(self) -> None:
        self.measures = Measures(NodeUse())

    def stats(self) -> Sequence[Use]:
        """See `PodRuntime`."""
        return self.measures.containers

    def pod_stats(self) -> Sequence[PodUse]:
        """See `PodRuntime`."""
        return self.measures.pods

    def node_stats(self) -> NodeUse:
        """See `PodRuntime`."""
        return self.measures.node


class CountingStore(MemoryStore):
    """Counts what is written."""

    writes = 0

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        """As the store does it."""
        self.writes += len(operations)
        return await super().commit(conditions, operations)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40), st.integers(1, 12))
def test_a_ring_keeps_the_last_numbers_and_their_deviation(values: list[int], most: int) -> None:
    ring = Ring(most)
    for value in values:
        ring.append(value)
    kept = values[-most:]
    assert ring.values() == tuple(kept)
    assert ring.deviation() == pytest.approx(pstdev(kept) if len(kept) > 1 else 0.0, rel=1e-3, abs=100.0)


@given(st.lists(st.integers(0, 99), max_size=40), st.integers(1, 12), st.integers(1, 9), st.integers(1, 9))
def test_the_last_of_a_ring_are_every_so_manieth(values: list[int], most: int, count: int, step: int) -> None:
    ring = Ring(most)
    for value in values:
        ring.append(value)
    kept = values[-most:]
    assert ring.last(count, step) == tuple(kept[::-step][:count][::-1])


def test_a_series_is_bounded_and_keeps_means_of_minutes() -> None:
    series = UsageSeries(day=True)
    for step in range(6 * (COARSE + 30)):
        series.append(100 + step % 6, MIB * (1 + step % 6), step * 10.0)
    fine, day = series.trend(day=False), series.trend(day=True)
    assert (len(fine.cpu), len(fine.memory)) == (FINE, FINE)
    assert (len(day.cpu), len(day.memory)) == (COARSE, COARSE)
    assert fine.cpu[-6:] == (100, 101, 102, 103, 104, 105) and fine.memory[-1] == 6 * MIB
    assert set(day.cpu) == {102} and set(day.memory) == {int(3.5 * MIB)}
    assert UsageSeries(day=False).trend(day=True) == Trend()


def test_measures_come_back_as_they_were_told() -> None:
    assert decode(encode(FULL)) == FULL
    assert decode(encode(Measures(NodeUse()))) == Measures(NodeUse())
    assert len(encode(Measures(NodeUse(), tuple(Use("u" * 36, "main", 99, MIB) for _ in range(110))))) < 8192


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ({}, False),
        ({"cpu": 124}, False),
        ({"cpu": 131}, True),
        ({"memory": 6 * MIB}, False),
        ({"memory": 10 * MIB}, True),
        ({"disk": 10 * MIB}, True),
        ({"uid": "other"}, True),
    ],
)
def test_only_what_changed_much_is_news(change: dict[str, Any], news: bool) -> None:
    first, second = FULL.containers
    assert is_news(FULL, replace(FULL, containers=(replace(first, **change), second))) is news


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ({}, False),
        ({"traffic": NetworkUse(9, 60_000)}, False),
        ({"traffic": NetworkUse(1, 70_000)}, True),
        ({"traffic": None}, True),
        ({"volumes": 78}, True),
        ({"gpus": (GpuUse("GPU-1", "H200", 1, 1, 2),)}, True),
    ],
)
def test_traffic_that_hardly_changes_is_no_news(change: dict[str, Any], news: bool) -> None:
    first, second = FULL.pods
    assert is_news(FULL, replace(FULL, pods=(replace(first, **change), second))) is news


def test_a_lease_tells_what_is_used() -> None:
    lease = renewed_lease(new_lease("n", 0.0), NodeLoad(1500, 7, 20), 10.0)
    told = lease["metadata"]["annotations"]
    assert (told[USED_CPU], told[USED_MEMORY], told[CPU_DEVIATION]) == ("1500m", "7", "20m")


def test_nodes_tell_what_is_news_once() -> None:
    async def scene() -> None:
        store = CountingStore()
        runtimes = {"a": FixedRuntime(), "b": FixedRuntime()}
        notes = EphemeralValues(store, "use")
        measuring = UsageReporter(cast("dict[str, PodRuntime]", runtimes), notes)

        async def beat(steady: float) -> None:
            for name in runtimes:
                measuring.sample(name, steady)
            await measuring.tell(list(runtimes))

        runtimes["a"].measures = FULL
        await beat(0.0)
        told = {name: decode(note) for name, note in (await notes.all()).items()}
        assert told["a"] == replace(FULL, trends=told["a"].trends)
        assert told["a"].trends == {"": Trend((1500,), (3 * MIB,)), "u1": Trend((121,), (5 * MIB,))}
        assert told["b"].node == NodeUse()
        written = store.writes
        await beat(10.0)
        await beat(20.0)
        assert store.writes == written, "what stays as it is costs nothing"
        runtimes["a"].measures = replace(FULL, containers=())
        await beat(30.0)
        assert store.writes == written + 1
        found = await notes.get("a")
        assert found is not None and decode(found).containers == ()
        assert measuring.node_trend("a").cpu == (1500, 1500, 1500, 1500)
        await beat(60.0)
        assert store.writes == written + 3, "once a minute both tell of their past"
        found = await notes.get("a")
        assert found is not None and decode(found).trends == {"": Trend((1500,), (3 * MIB,))}
        assert measuring.pod_trend("a", "u1") == Trend(), "a pod that is gone is forgotten"
        await measuring.withdraw(["a", "never"])
        assert set(await notes.all()) == {"b"}

    asyncio.run(scene())


def test_after_silence_everything_is_told_again() -> None:
    async def scene() -> None:
        store = MemoryStore()
        runtime = FixedRuntime()
        runtime.measures = FULL
        notes = EphemeralValues(store, "use")
        measuring = UsageReporter(cast("dict[str, PodRuntime]", {"a": runtime}), notes)
        measuring.sample("a", 0.0)
        await measuring.tell(["a"])
        await store.revoke(notes._lease)
        assert await notes.all() == {}
        runtime.measures = replace(FULL, containers=())
        for _ in range(3):
            measuring.sample("a", 10.0)
            await measuring.tell(["a"])
        assert set(await notes.all()) == {"a"}

    asyncio.run(scene())


def test_a_pods_series_is_the_sum_of_its_containers() -> None:
    runtime = FixedRuntime()
    measuring = UsageReporter(
        cast("dict[str, PodRuntime]", {"a": runtime}), EphemeralValues(MemoryStore(), "use")
    )
    runtime.measures = FULL
    load = measuring.sample("a", 0.0)
    runtime.measures = replace(FULL, node=replace(FULL.node, cpu=500))
    again = measuring.sample("a", 10.0)
    assert (load, again.cpu, again.deviation) == (NodeLoad(1500, 3 * MIB, 0), 500, 500)
    assert measuring.pod_trend("a", "u1") == Trend((121, 121), (5 * MIB, 5 * MIB))
