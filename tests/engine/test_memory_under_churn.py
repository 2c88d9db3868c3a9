"""Pods that come and go leave nothing behind in the engine: it does not grow with the number that have been.

What is kept of the past has bounds; here they are so small that they are reached after a few pods.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proreus.engine import cluster
from proreus.engine.cluster import Engine, EngineOptions
from proreus.engine.controllers.trace import recorder
from proreus.engine.controllers.trace.core import TraceCore
from proreus.engine.controllers.trace.recorder import TraceOptions
from proreus.engine.node_host import SimulatedNodes
from proreus.engine.objects import event_recorder, object_cache
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.scheduler.core import SchedulingOptions
from proreus.engine.store import factory
from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import Store
from tests.engine.growth import grown, held

_AT_ONCE, _ROUNDS = 20, 3
_LOOKS = 20
_BOUNDS = StoreOptions(history=60, held=60)
_ROOM = {"cpu": "8", "memory": "16Gi", "pods": "110"}
_SHORT = {"proreus.io/start-latency": "0.01", "proreus.io/duration": "0.01"}


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "10m"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": _SHORT},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


async def _until(registry: Registry, holds: Any) -> None:
    while not holds((await registry.list(POD)).items):
        await asyncio.sleep(0.02)


async def _churn(registry: Registry, prefix: str) -> None:
    """Pods that begin, end, and are deleted."""
    for turn in range(_ROUNDS):
        names = [f"{prefix}-{turn}-{number}" for number in range(_AT_ONCE)]
        await registry.create_many(POD, [_pod(name) for name in names])
        await _until(registry, lambda pods: all(pod["status"].get("phase") == "Succeeded" for pod in pods))
        for name in names:
            await registry.delete(POD, "default", name)
        await _until(registry, lambda pods: not pods)


async def _held_when_written() -> Counter[str]:
    """Once all that became of pods is in the trace."""
    while (found := held())[f"{TraceCore.__module__}.{TraceCore.__qualname__}._news"]:
        await asyncio.sleep(0.1)
    return found


async def _grown_for_good(before: Counter[str]) -> dict[str, tuple[int, int]]:
    """What still holds more after a while: what is only on its way is not meant."""
    for _ in range(_LOOKS):
        more = grown(before, await _held_when_written(), slack=_AT_ONCE)
        if not more:
            break
        await asyncio.sleep(0.5)
    return more


def test_nothing_grows_with_the_pods_that_have_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[Store] = []

    async def opened(address: str, _: object) -> Store:
        stores.append(await factory.open_store(address, _BOUNDS))
        return stores[0]

    monkeypatch.setattr(cluster, "open_store", opened)
    for bounds in (object_cache, "MOST_GONE_KEPT"), (object_cache, "MOST_EVENTS_KEPT"):
        monkeypatch.setattr(*bounds, 20)
    monkeypatch.setattr(event_recorder, "_REMEMBERED", 20)
    monkeypatch.setattr(recorder, "TraceOptions", lambda: TraceOptions(seconds=0.2))
    nodes = SimulatedNodes(("node-0", "node-1"), _ROOM)
    engine = Engine(EngineOptions(f"sqlite:{tmp_path / 'store.db'}", nodes, SchedulingOptions()))
    engine.load()

    async def story() -> None:
        ending, begun = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(engine.run(ending, lambda _: begun.set()))
        await begun.wait()
        registry = Registry(stores[0])
        await _churn(registry, "first")
        before = await _held_when_written()
        await _churn(registry, "second")
        more = await _grown_for_good(before)
        ending.set()
        await task
        assert more == {}

    asyncio.run(story())
