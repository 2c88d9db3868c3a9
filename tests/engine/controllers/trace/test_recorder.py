"""The trace of a whole small cluster in virtual time, however often whoever records it is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from proreus.engine.controllers.trace.recorder import FOLLOWED, TraceOptions, TraceRecorder
from proreus.engine.leader_election import Term
from proreus.engine.objects.kinds import JOB, NODE, POD
from proreus.engine.store.protocol import Put, StoreError, Unchanged
from proreus.engine.trace.log import Retention, TraceLog
from proreus.engine.trace.segments import PodEntry, Segment, merged
from proreus.engine.watch.informer import Informer
from tests.engine.controllers.clusters import Cluster, cluster, job, template
from tests.engine.controllers.virtual_time import play


class Mortal(TraceRecorder):
    """Can be killed: what it has not written by then is lost with it."""

    killed = False

    async def _append(self) -> None:
        if self.killed:
            raise StoreError("killed")
        await super()._append()


@asynccontextmanager
async def recording(made: Cluster, options: TraceOptions | None = None) -> AsyncIterator[Mortal]:
    """A recorder that leads from now on."""
    revision = (await made.store.commit([], [Put("fence", b"")])).revision
    informers = {kind: Informer(made.registry, kind) for kind in FOLLOWED}
    lost: list[None] = []
    term = Term(Unchanged("fence", revision), lambda: lost.append(None))
    recorder = Mortal(made.registry, made.timers, informers, term, options)
    running = [*(informer.run() for informer in informers.values()), recorder.run()]
    tasks = [asyncio.create_task(one) for one in running]
    try:
        yield recorder
        assert not tasks[-1].done(), tasks[-1].exception()
        assert not lost
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def pods_in(made: Cluster) -> dict[str, PodEntry]:
    return {entry.uid: entry for entry in (await all_of(made)).pods}


async def all_of(made: Cluster) -> Segment:
    return merged([segment async for segment in TraceLog(made.store).read()])


def bare(name: str, duration: float) -> dict[str, object]:
    made = template(app=name)
    made["metadata"] |= {
        "name": name,
        "namespace": "default",
        "annotations": {"proreus.io/duration": str(duration)},
    }
    made["spec"]["restartPolicy"] = "Never"
    return made


def test_pods_are_followed_from_their_creation_to_their_end() -> None:
    async def main() -> None:
        async with cluster(2) as made, recording(made):
            await made.until(lambda: len(made.informers[NODE].objects) == 2)
            await made.registry.create(JOB, job(duration=20, completions=6, parallelism=3))
            await made.registry.create(POD, bare("stays", 10_000))
            await asyncio.sleep(80)
            pods = await pods_in(made)
            assert sorted(entry.end for entry in pods.values()) == ["", *6 * ["succeeded"]]
            for entry in pods.values():
                assert entry.created <= entry.bound <= entry.running
                assert entry.node in ("node-0", "node-1")
                assert entry.owner == ("Job/sum" if entry.end else "")
                if entry.end:
                    assert abs(entry.ended - entry.running - 20) < 1
            (stays,) = (entry for entry in pods.values() if not entry.end)
            assert stays.looks >= 1 and stays.cpu > 0 and stays.memory > 0
            segment = await all_of(made)
            assert {node.name for node in segment.nodes} == {"node-0", "node-1"}

    play(main())


@pytest.mark.parametrize("forgetful", [False, True], ids=["history", "compacted"])
def test_who_is_killed_loses_nothing_that_the_store_knows(forgetful: bool) -> None:
    """Six recorders one after the other, each killed at another moment; pods come and go meanwhile."""

    async def main() -> None:
        async with cluster(2) as made:
            for turn in range(6):
                async with recording(made) as recorder:
                    await made.registry.create(POD, bare(f"short-{turn}", 5))
                    await made.registry.create(POD, bare(f"long-{turn}", 60))
                    await asyncio.sleep(3.1 * turn)
                    recorder.killed = True
                    await asyncio.sleep(1.7)
                if turn == 3:
                    await made.registry.delete(POD, "default", "long-2")
                await asyncio.sleep(2.9)
                if forgetful:
                    await made.store.compact((await made.registry.list(POD)).revision)
            async with recording(made):
                await asyncio.sleep(200)
            pods = list((await pods_in(made)).values())
            assert sorted(entry.name for entry in pods) == sorted(
                f"default/{kind}-{turn}" for kind in ("short", "long") for turn in range(6)
            )
            for entry in pods:
                length = 5 if "short" in entry.name else 60
                taken = "unseen" if forgetful else "deleted"
                assert entry.end == (taken if entry.name.endswith("long-2") else "succeeded"), entry
                if entry.end == "succeeded":
                    assert abs(entry.ended - entry.running - length) < 2, entry

    play(main())


def test_one_that_wakes_when_another_leads_writes_nothing() -> None:
    async def main() -> None:
        async with cluster(1) as made, recording(made) as first:
            await asyncio.sleep(10)
            before = await all_of(made)
            told: list[None] = []
            first._term = Term(Unchanged("fence", 1), lambda: told.append(None))
            await made.registry.create(POD, bare("a", 5))
            await asyncio.sleep(10)
            assert told, "it is told that another leads"
            assert await all_of(made) == before

    play(main())


def test_what_is_kept_is_bounded_and_who_is_there_stays_in_it() -> None:
    async def main() -> None:
        options = TraceOptions(seconds=1.0, retention=Retention(pods=12, seconds=1e9))
        async with cluster(2) as made, recording(made, options):
            await made.registry.create(POD, bare("stays", 10_000))
            for number in range(30):
                await made.registry.create(POD, bare(f"pod-{number}", 2))
                await asyncio.sleep(4)
            entries = [entry async for segment in TraceLog(made.store).read() for entry in segment.pods]
            assert len(entries) <= 12 + 3
            names = {entry.name for entry in entries}
            assert {"default/stays", "default/pod-28"} <= names
            assert "default/pod-3" not in names
            assert {node.name for node in (await all_of(made)).nodes} == {"node-0", "node-1"}

    play(main())


def test_a_store_that_goes_away_for_a_while_costs_nothing() -> None:
    async def main() -> None:
        async with cluster(2) as made, recording(made):
            await asyncio.sleep(10)
            await made.registry.create(POD, bare("a", 5))
            await asyncio.sleep(1)
            made.store.away = True
            await asyncio.sleep(30)
            made.store.away = False
            await asyncio.sleep(30)
            (entry,) = (await pods_in(made)).values()
            assert entry.end == "succeeded"

    play(main())
