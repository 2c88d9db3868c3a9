"""Statuses that come back from the store: one's own tells nothing new, everybody else's does."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any

from proreus.engine.kubelet.instructions import WriteStatus
from proreus.engine.kubelet.status_writer import StatusWriter
from proreus.engine.objects.conditions import Condition
from proreus.engine.objects.event_recorder import EventRecorder
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.store.memory import MemoryStore


class Written:
    """A pod on a node, whose status is written, and the changes that are heard of it."""

    def __init__(self, registry: Registry) -> None:
        timers = LoopTimers()
        self.registry = registry
        self.writer = StatusWriter(registry, EventRecorder(registry, "tests", timers.wall), timers)
        self.heard: list[ObjectEvent] = []
        self.answers: list[bool] = []

    async def begin(self) -> dict[str, Any]:
        await self.registry.prepare()
        spec = {"containers": [{"name": "main", "image": "i"}], "nodeName": "n"}
        metadata = {"name": "p", "namespace": "default"}
        return await self.registry.create(POD, {"metadata": metadata, "spec": spec})

    async def follow(self, after: int) -> None:
        async with aclosing(self.registry.watch(POD, "", after)) as events:
            async for event in events:
                self.heard.append(event)
                self.answers.append(self.writer.is_echo(event))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10.0):
            while len(self.heard) < count:
                await asyncio.sleep(0.005)


def status(phase: str) -> dict[str, Any]:
    return {"phase": phase, "conditions": [Condition("Ready", "True")]}


def test_a_status_of_ones_own_is_an_echo_once() -> None:
    async def story() -> None:
        written = Written(Registry(MemoryStore()))
        pod = await written.begin()
        tasks = [
            asyncio.create_task(written.writer.run()),
            asyncio.create_task(written.follow(int(pod["metadata"]["resourceVersion"]))),
        ]
        written.writer.take(WriteStatus(pod, status("Running"), lazy=False))
        await written.until(1)
        assert written.answers == [True]
        assert not written.writer.is_echo(written.heard[0])  # heard again, after a list: look at it
        # Somebody else's change is none, be it of the status or of the rest.
        await written.registry.edit(
            POD, "default", "p", lambda obj: {**obj, "status": {"phase": "Pending"}}, subresource="status"
        )
        await written.registry.edit(
            POD, "default", "p", lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}
        )
        await written.until(3)
        assert written.answers == [True, False, False]
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(story())


def test_a_status_is_no_echo_while_another_waits_to_be_written() -> None:
    async def story() -> None:
        written = Written(Registry(MemoryStore()))
        pod = await written.begin()
        written.writer.take(WriteStatus(pod, status("Running"), lazy=False))
        await written.writer._flush()
        written.writer.take(WriteStatus(pod, status("Failed"), lazy=False))
        following = asyncio.create_task(written.follow(int(pod["metadata"]["resourceVersion"])))
        await written.until(1)
        assert written.answers == [False]
        following.cancel()

    asyncio.run(story())
