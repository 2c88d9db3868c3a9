"""What agents cost: `python -m tests.engine.controllers.speeds [memory: | sqlite:PATH]`.

CPU time of this process: for a pod on a host of 1,000 simulated nodes, bound until its status says Running
(the binding counts, too), for the signs of life of these nodes, and for a Deployment's pods from the
Deployment's creation until its ReplicaSet counts them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from proreus.engine.controllers.workloads.controller import FOLLOWED as OF_TASKS
from proreus.engine.controllers.workloads.controller import TaskHost
from proreus.engine.kubelet.heartbeats import Housed
from proreus.engine.kubelet.host import FOLLOWED, ResourceHost
from proreus.engine.kubelet.node_status import NodeSpec
from proreus.engine.objects.kinds import DEPLOYMENT, POD, REPLICA_SET, Kind
from proreus.engine.objects.registry import Binding, Registry
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.protocol import Capacity
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.store.factory import open_store
from proreus.engine.watch.informer import Informer
from tests.engine.controllers.clusters import deployment, template

_NODES, _PODS, _AT_ONCE = 1000, 5000, 250
_AMOUNTS = {"cpu": "32", "memory": "64Gi", "pods": "110"}
_IDLE_SECONDS = 20.0


async def measure(address: str) -> None:
    """All three, on one store."""
    store = await open_store(address)
    registry, timers = Registry(store), LoopTimers()
    await registry.prepare()
    informers = {kind: Informer(registry, kind) for kind in dict.fromkeys((*FOLLOWED, *OF_TASKS))}
    room = Capacity(_AMOUNTS, _AMOUNTS)
    nodes = [
        Housed(NodeSpec(f"n{number:04}", "10.0.0.1"), SimulatedRuntime(room, timers))
        for number in range(_NODES)
    ]
    host, tasks = ResourceHost(registry, timers, nodes, informers), TaskHost(registry, timers, informers)
    running = [asyncio.create_task(informer.run()) for informer in informers.values()]
    running.append(asyncio.create_task(host.run()))
    await _starts(registry, informers[POD])
    begun, cpu = time.monotonic(), time.process_time()
    await asyncio.sleep(_IDLE_SECONDS)
    share = (time.process_time() - cpu) / (time.monotonic() - begun)
    print(f"{_NODES} nodes at rest: {100 * share:.1f} % of a core")  # noqa: T201
    running.append(asyncio.create_task(tasks.run()))
    await _replicas(registry, informers)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await store.close()


async def _starts(registry: Registry, pods: Informer) -> None:
    names = [f"p{number}" for number in range(_PODS)]
    spec = template()["spec"]
    for at in range(0, _PODS, _AT_ONCE):
        made = [
            {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
            for name in names[at : at + _AT_ONCE]
        ]
        await registry.create_many(POD, made)
    await asyncio.sleep(2)
    cpu = time.process_time()
    for at in range(0, _PODS, _AT_ONCE):
        places = enumerate(names[at : at + _AT_ONCE], start=at)
        bindings = [Binding("default", name, f"n{number % _NODES:04}") for number, name in places]
        await registry.bind_many(bindings)
    await _until(lambda: all(one["status"]["phase"] == "Running" for one in pods.objects.values()))
    message = f"{1000 * (time.process_time() - cpu) / _PODS:.2f} ms of CPU a pod"
    print(f"{_PODS} pods bound and started on {_NODES} nodes: {message}")  # noqa: T201


async def _replicas(registry: Registry, informers: dict[Kind, Informer]) -> None:
    cpu, begun = time.process_time(), time.monotonic()
    await registry.create(DEPLOYMENT, deployment(replicas=_PODS))

    def counted() -> bool:
        sets = informers[REPLICA_SET].objects.values()
        return any((one.get("status") or {}).get("replicas") == _PODS for one in sets)

    await _until(counted)
    message = f"{1000 * (time.process_time() - cpu) / _PODS:.2f} ms of CPU a pod"
    print(f"a Deployment of {_PODS} pods, made: {message}, {time.monotonic() - begun:.1f} s")  # noqa: T201


async def _until(holds: Callable[[], Any]) -> None:
    while not holds():
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
