"""A whole small cluster in virtual time: store, registry, all agents, simulated nodes, a plain scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.controllers.gc.controller import FOLLOWED as KEPT
from proreus.engine.controllers.gc.controller import GcController
from proreus.engine.controllers.nodes.controller import FOLLOWED as NODES
from proreus.engine.controllers.nodes.controller import NodeHost
from proreus.engine.controllers.nodes.lifecycle import Patience
from proreus.engine.controllers.workloads.controller import FOLLOWED as TASKS
from proreus.engine.controllers.workloads.controller import TaskHost
from proreus.engine.kubelet.heartbeats import Housed
from proreus.engine.kubelet.host import ResourceHost
from proreus.engine.kubelet.node_status import NodeSpec
from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import NODE, POD, Kind
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.protocol import Capacity
from proreus.engine.runtimes.simulated.draws import Habits
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import (
    ChangeBatch,
    Committed,
    KeyValue,
    Listing,
    Operation,
    Unavailable,
    Unchanged,
)
from proreus.engine.watch.informer import Informer
from tests.engine.controllers.virtual_time import loop_now

ROOM = Capacity({"cpu": "8", "memory": "32Gi", "pods": "110"}, {"cpu": "8", "memory": "32Gi", "pods": "110"})

LIMITS = ("maxSurge", "maxUnavailable")


class MortalStore(MemoryStore):
    """A store that a test can take away: every call fails then, and watches break.

    Or make slow: what watches tell of pods comes so many seconds late.
    """

    away = False
    pods_late = 0.0

    async def get(self, key: str) -> KeyValue | None:
        """As the store does it."""
        self._check()
        return await super().get(key)

    async def list(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
    ) -> Listing:
        """As the store does it."""
        self._check()
        return await super().list(prefix, after=after, limit=limit, revision=revision, most_bytes=most_bytes)

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        """As the store does it."""
        self._check()
        return await super().commit(conditions, operations)

    async def watch(self, prefix: str, after: int) -> AsyncIterator[ChangeBatch]:
        """As the store does it."""
        self._check()
        async with aclosing(super().watch(prefix, after)) as batches:  # type: ignore[type-var]
            async for batch in batches:
                if prefix == POD.prefix:
                    await asyncio.sleep(self.pods_late)
                self._check()
                yield batch

    def _check(self) -> None:
        if self.away:
            raise Unavailable("the store is away")


@dataclass
class Cluster:
    """What a test gets hold of."""

    registry: Registry
    timers: LoopTimers
    informers: dict[Kind, Informer]
    store: MortalStore
    runtimes: dict[str, SimulatedRuntime] = field(default_factory=dict)
    hosts: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def list(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
        """All of a kind, from the store."""
        return (await self.registry.list(kind, namespace)).items

    async def until(self, holds: Callable[[], Any], seconds: float = 3600.0) -> Any:
        """Play until it holds (it may be a coroutine function); what it returned."""
        end = self.timers.steady() + seconds
        while True:
            found = holds()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            assert self.timers.steady() < end, "it did not come to hold in time"
            await asyncio.sleep(0.25)

    def start_nodes(self, *names: str, keep_runtimes: bool = False) -> None:
        """A host of its own for each of them."""
        for name in names:
            if not keep_runtimes or name not in self.runtimes:
                self.runtimes[name] = SimulatedRuntime(ROOM, self.timers, Habits(seed=1))
            nodes = [Housed(NodeSpec(name, "10.0.0.1"), self.runtimes[name])]
            followed = {kind: Informer(self.registry, kind) for kind in (POD, NODE)}
            host = ResourceHost(self.registry, self.timers, nodes, followed)
            running = (shared_informer.run() for shared_informer in followed.values())
            self.hosts[name] = asyncio.create_task(_together(host.run(), *running))

    async def stop_node(self, name: str) -> None:
        """Its agent falls silent, as if the machine had lost its power."""
        task = self.hosts.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def cluster(
    nodes: int = 3, patience: Patience | None = None, schedule: bool = True
) -> AsyncIterator[Cluster]:
    """A cluster that runs until the block ends."""
    loop = loop_now()
    store = MortalStore(loop.time)
    registry = Registry(store, loop.wall)
    await registry.prepare()
    timers = LoopTimers(loop.wall)
    kinds = dict.fromkeys((*KEPT, *NODES, *TASKS))
    informers = {kind: Informer(registry, kind) for kind in kinds}
    made = Cluster(registry, timers, informers, store)
    shells = [
        TaskHost(registry, timers, informers).run(),
        NodeHost(registry, timers, informers, patience).run(),
        GcController(registry, timers, informers).run(),
        *(informer.run() for informer in informers.values()),
    ]
    if schedule:
        shells.append(_bind_in_turn(made))
    agents = asyncio.create_task(_together(*shells))
    made.start_nodes(*(f"node-{number}" for number in range(nodes)))
    try:
        yield made
        assert not agents.done(), agents.exception()
        for name, task in made.hosts.items():
            assert not task.done(), (name, task.exception())
    finally:
        tasks = [agents, *made.hosts.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close()


async def _together(*running: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for one in running:
            group.create_task(one)


async def _bind_in_turn(made: Cluster) -> None:
    """Every unbound pod goes to the untainted node with the fewest pods."""
    while True:
        await asyncio.sleep(0.25)
        nodes = made.informers[NODE].objects.values()
        load = {one["metadata"]["name"]: 0 for one in nodes if not one["spec"].get("taints")}
        pods = list(made.informers[POD].objects.values())
        for pod in pods:
            if pod["spec"].get("nodeName") in load:
                load[pod["spec"]["nodeName"]] += 1
        for pod in pods:
            if load and not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                node = min(load, key=lambda name: (load[name], name))
                try:
                    await made.registry.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], node)
                except StatusError:
                    continue
                load[node] += 1


def deployment(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    """A Deployment as the API would store it."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": dict.fromkeys(LIMITS, "25%")},
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def job(name: str = "sum", duration: float = 5, **spec: Any) -> dict[str, Any]:
    """A Job as the API would store it; `annotations` are its pods'."""
    annotations = {"proreus.io/duration": str(duration), **spec.pop("annotations", {})}
    made = template(job=name)
    made["metadata"]["annotations"] = annotations
    made["spec"]["restartPolicy"] = spec.pop("restartPolicy", "Never")
    stated = {"completions": 1, "parallelism": 1, "backoffLimit": 6, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**stated, "template": made}}


def template(image: str = "nginx:1", **labels: str) -> dict[str, Any]:
    """A pod template of one container."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], "restartPolicy": "Always"}}
