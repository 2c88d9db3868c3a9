"""What a leader that has been replaced can still do: nothing, and it tells of nothing either."""

from __future__ import annotations

import asyncio

from proreus.engine.agents.scheduling.carrying_out import Hands
from proreus.engine.agents.scheduling.values import Bind, Delay, Instruction, PodRef, Preempt, Reject
from proreus.engine.objects.kinds import EVENT, LEASE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Unchanged
from tests.engine.agents.scheduling.objects import pod


def test_who_was_replaced_writes_nothing_and_tells_nothing() -> None:
    async def play() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        lost: list[None] = []
        hands = Hands(registry, lambda: 1e9, lambda: lost.append(None))
        refs = []
        for name in ("a", "b", "c", "d"):
            fresh = {**pod(name), "metadata": {"name": name, "namespace": "default"}}
            made = await registry.create(POD, fresh)
            refs.append(PodRef("default", name, made["metadata"]["uid"]))
        fence = await registry.create(LEASE, {"metadata": {"name": "fence", "namespace": "kube-system"}})
        key = LEASE.key("kube-system", "fence")
        mine = Unchanged(key, int(fence["metadata"]["resourceVersion"]))
        moved = Unchanged(key, mine.revision - 1)
        instructions: list[Instruction] = [
            Bind(refs[0], "n", {}, "bound"),
            Preempt(refs[1], "n", (), "no room"),
            Delay(refs[2], "no room"),
            Reject(refs[3], "never"),
        ]
        before = [obj["metadata"]["resourceVersion"] for obj in (await registry.list(POD)).items]
        failed = await hands.carry_out(instructions, moved)
        assert {one.pod for one in failed} == set(refs) and len(lost) == 4
        assert [obj["metadata"]["resourceVersion"] for obj in (await registry.list(POD)).items] == before
        assert (await registry.list(EVENT)).items == []
        assert await hands.carry_out(instructions, mine) == []
        reasons = sorted(event["reason"] for event in (await registry.list(EVENT)).items)
        assert reasons == ["FailedScheduling", "FailedScheduling", "Rejected", "Scheduled"]

    asyncio.run(play())
