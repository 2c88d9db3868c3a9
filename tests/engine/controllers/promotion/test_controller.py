"""The state of candidates in the store: begun, judged, kept through changes of leader, written by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from proreus.engine.api.v1 import schedulers
from proreus.engine.controllers.promotion.controller import Promoter, PromotionOptions, RegistryRecords
from proreus.engine.controllers.promotion.core import Evidence, GateOptions, LiveEvidence, begun
from proreus.engine.controllers.promotion.evaluation import Case, weigh, weighing_apart
from proreus.engine.leader_election import Term
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Put, Unchanged
from proreus.engine.trace.segments import NodeEntry, PodEntry, Segment, digest, encode
from proreus.model.duel import Duel
from proreus.model.errors import UsageError, WorkError
from proreus.model.node import Node
from proreus.model.pod import PodSpec
from proreus.model.resources import GIB, Resources
from tests.engine.controllers.virtual_time import loop_now, play

CHOSEN = Chosen("kube", candidate="best_fit")
NO_EVICTIONS = ((0.0, 0.0),) * 3
BETTER = Evidence(
    Duel(500, ((10.0, 5.0), (12.0, 6.5), (8.0, 4.2)), NO_EVICTIONS), LiveEvidence((1.0,) * 50, (1.0,) * 50)
)
WORSE = Evidence(Duel(500, ((5.0, 10.0), (6.5, 12.0), (4.2, 8.0)), NO_EVICTIONS), LiveEvidence())


class Bench:
    """A registry, and a promoter that is told what was found."""

    def __init__(self) -> None:
        self.found = BETTER
        self.cases: list[Case] = []
        self.lost: list[None] = []

    async def weigh(self, values: Sequence[bytes], case: Case) -> Evidence:
        self.cases.append(case)
        return self.found

    @asynccontextmanager
    async def leading(self, registry: Registry) -> AsyncIterator[None]:
        """A promoter that leads from now on."""
        revision = (await registry.store.commit([], [Put("fence", b"")])).revision
        term = Term(Unchanged("fence", revision), lambda: self.lost.append(None))
        options = PromotionOptions("somebody:plays", 60.0, GateOptions(), self.weigh)
        promoter = Promoter(RegistryRecords(registry, term), LoopTimers(loop_now().wall), options)
        task = asyncio.create_task(promoter.run())
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.wait([task])


async def a_registry() -> Registry:
    registry = Registry(MemoryStore(loop_now().time), loop_now().wall)
    await registry.prepare()
    return registry


async def stage(registry: Registry) -> str:
    promotion = (await schedulers.promotions(registry)).get("default-scheduler")
    return "" if promotion is None else promotion.stage


def test_a_candidate_goes_on_through_changes_of_leader_and_back_when_it_gets_worse() -> None:
    async def main() -> None:
        bench, registry = Bench(), await a_registry()
        async with bench.leading(registry):
            await asyncio.sleep(100)
            assert await stage(registry) == ""
            assert not bench.cases
            await schedulers.switch(registry, "default-scheduler", CHOSEN)
            await asyncio.sleep(30)
            assert await stage(registry) == "shadow"
            await asyncio.sleep(40)
            assert await stage(registry) == "share"
        async with bench.leading(registry):
            await asyncio.sleep(30)
            assert await stage(registry) == "share", "a new leader goes on where the last one was"
            await asyncio.sleep(40)
            assert await stage(registry) == "all"
        since = {case.promotion.since for case in bench.cases}
        assert len(since) == 1, "what is held out begins when it was put up"
        bench.found = WORSE
        async with bench.leading(registry):
            await asyncio.sleep(70)
            assert await stage(registry) == "refused"
            judged = len(bench.cases)
            await asyncio.sleep(300)
            assert len(bench.cases) == judged, "who was refused is not judged again"
            await schedulers.switch(registry, "default-scheduler", Chosen("kube", candidate="fgd"))
            await asyncio.sleep(10)
            assert await stage(registry) == "shadow", "another candidate begins anew"
            await schedulers.switch(registry, "default-scheduler", Chosen("kube"))
            await asyncio.sleep(10)
            assert await stage(registry) == ""

    play(main())


def test_one_that_wakes_when_another_leads_writes_nothing() -> None:
    async def main() -> None:
        bench, registry = Bench(), await a_registry()
        async with bench.leading(registry):
            await registry.store.commit([], [Put("fence", b"another")])
            await schedulers.switch(registry, "default-scheduler", CHOSEN)
            await asyncio.sleep(100)
            assert await stage(registry) == ""
            assert bench.lost

    play(main())


def test_what_clients_are_told_of_a_candidate() -> None:
    async def main() -> None:
        bench, registry = Bench(), await a_registry()
        async with bench.leading(registry):
            await schedulers.switch(registry, "default-scheduler", CHOSEN)
            await asyncio.sleep(80)
        promotion = (await schedulers.promotions(registry))["default-scheduler"]
        told = schedulers.as_json("default-scheduler", CHOSEN, promotion=promotion)
        assert (told["candidate"], told["share"]) == ("best_fit", 0.1)
        assert told["promotion"]["stage"] == "share"
        assert told["promotion"]["told"].startswith("better: ")

    play(main())


def a_trace(pods: int = 40) -> bytes:
    """One node with room for two, and pods that come faster than they go."""
    spec, node = PodSpec(Resources(cpu=1000)), Node("n", Resources(cpu=2000, memory=GIB, pods=10))
    entries = [
        PodEntry(
            f"u{n}",
            f"p{n}",
            digest(spec),
            100.0 + n,
            "default-scheduler",
            bound=100.5 + n,
            node="n",
            policy="kube",
            running=101.0 + n,
            ended=104.0 + n,
            end="succeeded",
        )
        for n in range(pods)
    ]
    return encode(Segment(1, 200.0, entries, [NodeEntry("n", 50.0, node)], {digest(spec): spec}))


def a_case(since: float = 100.0) -> Case:
    chosen = Chosen("kube", candidate="best_fit", share=0.5)
    return Case(
        "default-scheduler",
        chosen,
        begun(chosen, since),
        190.0,
        "proreus.worlds.pods.training.duel:contest",
    )


def test_a_trace_is_weighed_by_replay_and_by_life() -> None:
    evidence = weigh([a_trace(), b"damaged"], a_case())
    assert evidence.replay.pods == 40
    assert all(mine == other for mine, other in evidence.replay.waits), "one node leaves nothing to choose"
    assert evidence.replay.waits[0][0] > 5.0
    assert len(evidence.live.share) + len(evidence.live.rest) == 40


def test_where_nothing_was_recorded_since_then_nothing_is_found() -> None:
    assert weigh([a_trace()], a_case(since=195.0)).replay.pods == 0
    assert weigh([], a_case()).replay.pods == 0


def test_a_candidate_that_cannot_be_judged_stays_and_is_tried_again_in_its_time() -> None:
    class Failing(Bench):
        async def weigh(self, values: Sequence[bytes], case: Case) -> Evidence:
            await super().weigh(values, case)
            raise UsageError("no such checkpoint")

    async def main() -> None:
        bench, registry = Failing(), await a_registry()
        async with bench.leading(registry):
            await schedulers.switch(registry, "default-scheduler", CHOSEN)
            await asyncio.sleep(200)
        assert len(bench.cases) == 3
        promotion = (await schedulers.promotions(registry))["default-scheduler"]
        assert (promotion.stage, promotion.told) == ("shadow", "could not be judged: no such checkpoint")

    play(main())


def test_a_replay_that_does_not_end_is_ended() -> None:
    async def main() -> None:
        async with weighing_apart(most=0.5) as ask:
            endless = replace(a_case(), play="tests.engine.controllers.promotion.endless:contest")
            for _ in range(2):
                with pytest.raises(WorkError, match="has not ended"):
                    await ask([a_trace()], endless)

    asyncio.run(main())


def test_the_weighing_is_done_in_another_process() -> None:
    async def main() -> Evidence:
        async with weighing_apart() as ask:
            return await ask([b"damaged"], a_case())

    assert asyncio.run(main()).replay.pods == 0
