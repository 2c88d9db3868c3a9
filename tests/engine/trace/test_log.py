"""The trace in a store: appended on a fence, thinned out, joined, read; damage costs what it hits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from proreus.engine.objects.errors import Fenced
from proreus.engine.store.factory import open_store
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Committed, Operation, Put, Store, Unavailable, Unchanged
from proreus.engine.trace.log import Retention, TraceLog
from proreus.engine.trace.reader import read_trace
from proreus.engine.trace.segments import PREFIX, NodeEntry, PodEntry, Segment, decode, digest, encode, merged
from proreus.model.errors import InputError, UsageError
from proreus.model.node import Effect, Node, Taint, Toleration
from proreus.model.pod import (
    GpuRequest,
    NodeAffinity,
    NodeTerm,
    PodAffinity,
    PodSpec,
    PodTerm,
    SpreadConstraint,
)
from proreus.model.resources import GIB, Resources
from proreus.model.selectors import Operator, Requirement, Selector

SPEC = PodSpec(Resources(cpu=100))
NODE = Node("n", Resources(cpu=4000, memory=GIB, pods=110), taints=(Taint("a", "b", Effect.NO_EXECUTE),))
_SELECTOR = Selector((Requirement("app", Operator.IN, ("web",)),))
RICH = PodSpec(
    Resources(cpu=1, extended=(("x/y", 3),)),
    GpuRequest(1, 500, ("A100",)),
    labels=(("app", "web"),),
    priority=7,
    tolerations=(Toleration("a", exists=True, effect=Effect.NO_SCHEDULE),),
    node_affinity=NodeAffinity((NodeTerm(_SELECTOR),), ((3, NodeTerm(fields=_SELECTOR)),)),
    anti_affinity=PodAffinity((PodTerm(_SELECTOR, "zone", ("default",)),)),
    spread=(SpreadConstraint(_SELECTOR, "zone", hard=False),),
    host_ports=(("", "TCP", 80),),
    scoring=(1, 2),
)


def segment(number: int, *, pods: int = 1, at: float = 0.0) -> Segment:
    entries = [
        PodEntry(f"{number}-{place}", f"default/{number}-{place}", digest(SPEC), at) for place in range(pods)
    ]
    return Segment(number, at or float(number), entries, [NodeEntry("n", 1.0, NODE)], {digest(SPEC): SPEC})


async def fence_in(store: Store, value: bytes = b"") -> Unchanged:
    return Unchanged("fence", (await store.commit([], [Put("fence", value)])).revision)


async def numbers(log: TraceLog) -> list[int]:
    return [segment.through async for segment in log.read()]


def test_everything_a_pod_may_ask_for_comes_back() -> None:
    sent = Segment(5, 6.0, [PodEntry("u", "default/a", digest(RICH), 1.5)], [], {digest(RICH): RICH})
    assert decode(encode(sent)) == sent


@pytest.mark.parametrize("value", [b"", b"nonsense", encode(segment(1))[:-9]])
def test_a_damaged_segment_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="trace"):
        decode(value)


def test_a_segment_is_appended_once_although_the_store_did_not_say_so() -> None:
    class Forgetful(MemoryStore):
        silent = True

        async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
            done = await super().commit(conditions, operations)
            if any(operation.key.startswith(PREFIX) for operation in operations) and self.silent:
                self.silent = False
                raise Unavailable("no answer")
            return done

    async def play() -> None:
        store = Forgetful()
        log, fence = TraceLog(store), await fence_in(store)
        with pytest.raises(Unavailable):
            await log.append(segment(1), fence)
        await log.append(segment(1), fence)
        await log.append(segment(2), fence)
        assert await numbers(TraceLog(store)) == [1, 2]

    asyncio.run(play())


def test_who_no_longer_leads_appends_nothing() -> None:
    async def play() -> None:
        store = MemoryStore()
        log, fence = TraceLog(store), await fence_in(store)
        await fence_in(store, b"another")
        with pytest.raises(Fenced):
            await log.append(segment(1), fence)
        assert await numbers(TraceLog(store)) == []

    asyncio.run(play())


def test_age_and_number_decide_what_goes() -> None:
    async def play() -> None:
        store = MemoryStore()
        log, fence = TraceLog(store, Retention(pods=10, seconds=100.0)), await fence_in(store)
        for number in range(1, 5):
            await log.append(segment(number, pods=3, at=10.0 * number), fence)
        assert log.expired(40.0) == [0]  # twelve pods
        assert log.expired(135.0) == [0, 1, 2], "the newest says how far the trace reaches"
        await log.append(segment(5, pods=3, at=50.0), fence, log.expired(40.0))
        assert await numbers(TraceLog(store)) == [2, 3, 4, 5]

    asyncio.run(play())


def test_many_small_segments_become_one_that_says_the_same() -> None:
    async def play() -> None:
        store = MemoryStore()
        log, fence = TraceLog(store), await fence_in(store)
        sent = [segment(number) for number in range(1, 101)]
        for one in sent:
            await log.append(one, fence)
        await log.join_small(fence)
        fresh = TraceLog(store)
        segments = [one async for one in fresh.read()]
        assert [one.through for one in segments] == list(range(64, 101))
        assert {entry.uid for one in segments for entry in one.pods} == {
            entry.uid for one in sent for entry in one.pods
        }
        await fresh.append(segment(101), fence)
        assert (await numbers(TraceLog(store)))[-1] == 101

    asyncio.run(play())


def test_of_a_pod_the_last_entry_counts() -> None:
    before, after = PodEntry("u", "a", "s", 1.0), PodEntry("u", "a", "s", 1.0, bound=2.0)
    segment = merged(
        Segment(n, float(n), [entry], [], {"s": SPEC}) for n, entry in enumerate((before, after))
    )
    assert segment.pods == [after]


def written(path: Path, *values: bytes) -> str:
    async def play() -> None:
        store = await open_store(str(path))
        await store.commit([], [Put(f"{PREFIX}{place:012d}", value) for place, value in enumerate(values, 1)])
        await store.close()

    asyncio.run(play())
    return str(path)


def test_reading_changes_nothing_and_passes_over_damage(tmp_path: Path) -> None:
    where = written(tmp_path / "cluster.db", encode(segment(1)), b"damaged", encode(segment(3)))
    for name in ("cluster.db-wal", "cluster.db-shm"):
        assert not (tmp_path / name).exists()
    before = (tmp_path / "cluster.db").read_bytes()
    for place in (where, str(tmp_path), f"sqlite:{where}"):
        trace = read_trace(place)
        assert [pod.uid for pod in trace.pods] == ["1-0", "3-0"]
        assert trace.unread == 1
    assert (tmp_path / "cluster.db").read_bytes() == before


@pytest.mark.parametrize("what", ["missing", "empty folder", "empty store", "another file", "memory"])
def test_where_nothing_was_recorded_one_line_says_so(what: str, tmp_path: Path) -> None:
    place = str(tmp_path / "x.db")
    match what:
        case "empty folder":
            place = str(tmp_path)
        case "empty store":
            asyncio.run(_made(place))
        case "another file":
            Path(place).write_bytes(b"nothing of ours" * 500)
        case "memory":
            place = "memory:"
        case _:
            pass
    with pytest.raises((InputError, UsageError)) as exception_info:
        read_trace(place)
    assert "\n" not in str(exception_info.value)
    assert place in str(exception_info.value)


async def _made(place: str) -> None:
    await (await open_store(place)).close()
