"""What is written of decisions, when, and what becomes of it where the store or the fence refuses."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import ANY

import pytest

from proreus.engine.objects.errors import Invalid
from proreus.engine.objects.kinds import EVENT, LEASE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.scheduler.binder import Binder
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    DelayPod,
    Instruction,
    InstructionFailed,
    PodRef,
    PreemptFor,
    RejectPod,
)
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import StoreError, Unchanged
from tests.engine.scheduler.objects import pod


def test_who_was_replaced_writes_nothing_and_tells_nothing() -> None:
    async def play() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        lost: list[None] = []
        hands = Binder(registry, lambda: 1e9, lambda: lost.append(None))
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
            BindPodTo(refs[0], "n", {}, "bound"),
            PreemptFor(refs[1], "n", (), "no room"),
            DelayPod(refs[2], "no room"),
            RejectPod(refs[3], "never"),
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


class Moody(MemoryStore):
    """Takes no writes while it is in a mood."""

    moody = False

    async def commit(self, *arguments: Any, **keywords: Any) -> Any:
        """As the store does, or not."""
        if self.moody:
            raise StoreError("not now")
        return await super().commit(*arguments, **keywords)


@pytest.mark.parametrize("instruct", [DelayPod, RejectPod])
def test_who_could_not_be_told_is_told_later(instruct: type[DelayPod] | type[RejectPod]) -> None:
    async def play() -> None:
        store = Moody()
        registry = Registry(store)
        await registry.prepare()
        hands = Binder(registry, lambda: 1e9, lambda: None)
        ref, fence = await _pod_and_fence(registry)
        store.moody = True
        assert await hands.carry_out([instruct(ref, "no room")], fence) == [
            InstructionFailed(ref, ANY, told_only=True)
        ], "the core hears of it and decides again"
        store.moody = False
        assert (await registry.list(EVENT)).items == []
        assert await hands.carry_out([instruct(ref, "no room")], fence) == []
        condition = (await registry.get(POD, "default", "a"))["status"]["conditions"][-1]
        assert condition["message"] == "no room"
        assert [event["message"] for event in (await registry.list(EVENT)).items] == ["no room"]

    asyncio.run(play())


def test_what_is_said_again_and_again_is_one_event_with_a_count_and_written_ever_more_rarely() -> None:
    async def play() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        clock = [1e9]
        hands = Binder(registry, lambda: clock[0], lambda: None)
        ref, fence = await _pod_and_fence(registry)
        hands_again = Binder(registry, lambda: clock[0], lambda: None)
        await hands.carry_out([RejectPod(ref, "never")], fence)
        first = await registry.get(POD, "default", "a")
        seen = []
        for _ in range(600):  # ten minutes, once a second
            clock[0] += 1.0
            await hands.carry_out([RejectPod(ref, "never")], fence)
            (event,) = (await registry.list(EVENT)).items
            seen.append(event["count"])
        assert event["reason"] == "Rejected"
        assert sorted(set(seen)) == [1, 11, 31, 71, 151, 311], "after 10, 20, 40, 80 and 160 s, then 300"
        assert await registry.get(POD, "default", "a") == first, "the condition stands"
        clock[0] += 1.0
        await hands_again.carry_out([RejectPod(ref, "never")], fence)  # as after a restart
        (event,) = (await registry.list(EVENT)).items
        assert event["count"] == 312
        condition = (await registry.get(POD, "default", "a"))["status"]["conditions"][-1]
        assert condition == first["status"]["conditions"][-1], "nothing changed for the pod"

    asyncio.run(play())


def test_a_condition_without_a_type_is_refused_before_anybody_reads_it() -> None:
    async def play() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        await _pod_and_fence(registry)
        empty = {"status": {"conditions": [{}, {"type": "PodScheduled"}]}}
        with pytest.raises(Invalid, match=r"status\.conditions\[0\]\.type: Required value"):
            await registry.edit(POD, "default", "a", lambda obj: {**obj, **empty}, subresource="status")

    asyncio.run(play())


async def _pod_and_fence(registry: Registry) -> tuple[PodRef, Unchanged]:
    made = await registry.create(POD, {**pod("a"), "metadata": {"name": "a", "namespace": "default"}})
    fence = await registry.create(LEASE, {"metadata": {"name": "fence", "namespace": "kube-system"}})
    key = LEASE.key("kube-system", "fence")
    revision = int(fence["metadata"]["resourceVersion"])
    return PodRef("default", "a", made["metadata"]["uid"]), Unchanged(key, revision)
