"""Containers go on as they are while the agent of their node ends and another begins."""

from __future__ import annotations

import asyncio
from typing import Any

from proreus.engine.kubelet.host import ResourceHost
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.protocol import LogWanted, RuntimeRefused
from proreus.engine.store.memory import MemoryStore
from tests.engine.runtimes.agent_hosts import hosted, until
from tests.engine.runtimes.benches import NODE, Place, container

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_WELL = {"exec": {"command": ["/bin/sh", "-c", "true"]}, "periodSeconds": 1}
_SCRIPT = "cat /proc/sys/kernel/random/uuid; exec sleep 300"
"""What it writes, no other process writes."""
_NAME = "probed"


def test_containers_with_probes_go_on_when_their_agent_begins_anew(real_place: Place) -> None:
    containers = [container(_SCRIPT, probe.lower(), **{probe: _WELL}) for probe in _PROBES]
    containers.append(container(_SCRIPT, "all", **dict.fromkeys(_PROBES, _WELL)))

    async def scene() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        metadata = {"name": _NAME, "namespace": "default"}
        spec = {"containers": containers, "terminationGracePeriodSeconds": 0}
        uid = (await registry.create(POD, {"metadata": metadata, "spec": spec}))["metadata"]["uid"]
        await registry.bind("default", _NAME, NODE)
        async with real_place.open() as bench, hosted(bench.runtime, registry) as host:
            before = await until(lambda: _ready(registry))
            written = await _written(host, uid)
        async with real_place.bench() as bench, hosted(bench.runtime, registry) as host:
            await until(lambda: _reachable(host, uid))
            assert await _written(host, uid) == written, "the same processes run"
            after = await until(lambda: _ready(registry))
            for field in ("containerID", "restartCount", "state", "lastState"):
                assert [one.get(field) for one in after] == [one.get(field) for one in before]

    asyncio.run(scene())


async def _ready(registry: Registry) -> list[Any]:
    """The statuses of the containers, once all are ready."""
    statuses = (await registry.get(POD, "default", _NAME))["status"].get("containerStatuses") or []
    return statuses if statuses and all(status["ready"] for status in statuses) else []


async def _reachable(host: ResourceHost, uid: str) -> bool:
    """Whether the agent knows of the pod, and it runs."""
    try:
        return (await host.execute(uid, "all", ["/bin/sh", "-c", "true"])).exit_code == 0
    except RuntimeRefused:
        return False


async def _written(host: ResourceHost, uid: str) -> list[bytes]:
    names = (*(probe.lower() for probe in _PROBES), "all")
    return [b"".join([line async for line in host.logs(uid, LogWanted(name))]) for name in names]
