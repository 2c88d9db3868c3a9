"""A real runtime under the agent of a node: from an object in the registry to a process, and away again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from proreus.engine.agents.resource.heartbeats import Housed
from proreus.engine.agents.resource.host import FOLLOWED, ResourceHost
from proreus.engine.agents.resource.nodes import NodeSpec
from proreus.engine.agents.shared import SharedInformer
from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import CONFIG_MAP, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.machine.options import MachineOptions
from proreus.engine.runtimes.machine.references import RegistryReferences
from proreus.engine.runtimes.opening import open_runtime
from proreus.engine.runtimes.protocol import LogWanted
from proreus.engine.runtimes.timers import LoopTimers
from proreus.engine.store.memory import MemoryStore
from tests.engine.runtimes.benches import NODE, PATIENCE
from tests.engine.runtimes.leftovers import assert_nothing_left


async def _until(true: Callable[[], Awaitable[Any]]) -> Any:
    end = time.monotonic() + PATIENCE
    while True:
        found = await true()
        if found:
            return found
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.05)


def test_a_pod_from_its_object_to_a_process_and_back(tmp_path: Path) -> None:
    root = tmp_path / "node"

    async def scene() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        options = MachineOptions(root, references=RegistryReferences(registry))
        runtime = await open_runtime("process", options)
        informers = {kind: SharedInformer(registry, kind) for kind in FOLLOWED}
        spec = NodeSpec(NODE, "127.0.0.1")
        host = ResourceHost(registry, LoopTimers(), [Housed(spec, runtime)], informers)
        running = [asyncio.create_task(informer.run()) for informer in informers.values()]
        running.append(asyncio.create_task(host.run()))
        try:
            await _live(registry, host)
            await asyncio.wait_for(runtime.settled(), PATIENCE)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await runtime.close()
        assert_nothing_left(str(root), options.own_name)

    asyncio.run(scene())


async def _live(registry: Registry, host: ResourceHost) -> None:
    settings = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"word": "hello"}}
    await registry.create(CONFIG_MAP, settings)
    source = {"configMapKeyRef": {"name": "settings", "key": "word"}}
    main = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "echo $WORD; trap 'exit 0' TERM; while :; do sleep 0.05; done"],
        "env": [{"name": "WORD", "valueFrom": source}],
    }
    crash = {"name": "crash", "image": "none", "command": ["sh", "-c", "exit 4"]}
    for name, container in (("server", main), ("crashing", crash)):
        metadata = {"name": name, "namespace": "default"}
        await registry.create(POD, {"metadata": metadata, "spec": {"containers": [container]}})
        await registry.bind("default", name, NODE)

    async def runs() -> Any:
        pod = await registry.get(POD, "default", "server")
        return pod if (pod.get("status") or {}).get("phase") == "Running" else None

    async def restarted() -> bool:
        pod = await registry.get(POD, "default", "crashing")
        statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
        return bool(statuses[0].get("restartCount", 0) >= 1 and statuses[0]["lastState"])

    async def gone() -> bool:
        try:
            await registry.get(POD, "default", "server")
        except NotFound:
            return True
        return False

    pod = await _until(runs)
    assert pod["status"]["containerStatuses"][0]["containerID"].startswith("process://")
    uid = pod["metadata"]["uid"]

    async def said() -> bool:
        return [line async for line in host.logs(uid, LogWanted("main"))] == [b"hello\n"]

    await _until(said)
    assert (await host.execute(uid, "main", ["sh", "-c", "echo $WORD"])).stdout == b"hello\n"
    await _until(restarted)
    for name in ("server", "crashing"):
        await registry.delete(POD, "default", name)
    await _until(gone)
