"""A machine as the node of a registry, for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from proreus.engine.kubelet.heartbeats import Housed
from proreus.engine.kubelet.host import FOLLOWED, ResourceHost
from proreus.engine.kubelet.node_status import NodeSpec
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.protocol import PodRuntime
from proreus.engine.watch.informer import Informer
from tests.engine.runtimes.benches import NODE, PATIENCE


async def until(true: Callable[[], Awaitable[Any]]) -> Any:
    """What is found, once there is something."""
    end = time.monotonic() + PATIENCE
    while True:
        found = await true()
        if found:
            return found
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.05)


@asynccontextmanager
async def hosted(runtime: PodRuntime, registry: Registry) -> AsyncIterator[ResourceHost]:
    """The agent of the runtime's node; the runtime stays open."""
    informers = {kind: Informer(registry, kind) for kind in FOLLOWED}
    spec = NodeSpec(NODE, "127.0.0.1")
    host = ResourceHost(registry, LoopTimers(), [Housed(spec, runtime)], informers)
    running = [asyncio.create_task(informer.run()) for informer in informers.values()]
    running.append(asyncio.create_task(host.run()))
    try:
        yield host
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
