"""The trace of pods in every kind of store: appended on a fence, thinned out, joined, and read again."""

from __future__ import annotations

import asyncio

import pytest

from proreus.engine.objects.errors import Fenced
from proreus.engine.store.protocol import Put, Unchanged
from proreus.engine.trace.log import Retention, TraceLog
from proreus.engine.trace.segments import NodeEntry, PodEntry, Segment, digest
from proreus.model.node import Node
from proreus.model.pod import PodSpec
from proreus.model.resources import Resources
from tests.engine.store.stores import Places, opened

SPEC, NODE = PodSpec(Resources(cpu=100)), Node("n", Resources(cpu=4000, pods=110))


def segment(number: int) -> Segment:
    pod = PodEntry(f"u{number}", f"default/p{number}", digest(SPEC), float(number))
    return Segment(number, float(number), [pod], [NodeEntry("n", 1.0, NODE)], {digest(SPEC): SPEC})


def test_a_trace_is_kept_alike_in_every_store(places: Places) -> None:
    async def play() -> None:
        async with opened(places()) as store:
            fence = Unchanged("fence", (await store.commit([], [Put("fence", b"")])).revision)
            log = TraceLog(store, Retention(pods=90))
            for number in range(1, 101):
                await log.append(segment(number), fence, log.expired(1.0))
            await log.join_small(fence)
            segments = [one async for one in TraceLog(store).read()]
            assert len(segments) == 91 - 63
            assert [entry.uid for one in segments for entry in one.pods] == [f"u{n}" for n in range(10, 101)]
            await store.commit([], [Put("fence", b"another")])
            with pytest.raises(Fenced):
                await log.append(segment(101), fence)

    asyncio.run(play())
