"""A real runtime under the agent of a node: from an object in the registry to a process, and away again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from proreus.engine.kubelet.host import ResourceHost
from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.runtime_factory import clear_runtime, open_runtime
from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import CONFIG_MAP, EVENT, POD
from proreus.engine.objects.kinds import NODE as NODE_KIND
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.config_refs import RegistryReferences
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import LogWanted, RuntimeRefused
from proreus.engine.store.memory import MemoryStore
from tests.engine.runtimes.agent_hosts import hosted, until
from tests.engine.runtimes.benches import NODE, PATIENCE
from tests.engine.runtimes.leftovers import assert_nothing_left
from tests.engine.runtimes.pretended_gpus import pretend_gpus, uuid_of


@asynccontextmanager
async def _node(root: Path) -> AsyncIterator[tuple[Registry, ResourceHost]]:
    """A registry, and this machine as its node with plain processes, of which nothing is left at the end."""
    registry = Registry(MemoryStore())
    await registry.prepare()
    async with _agent(root, registry) as (host, runtime):
        yield registry, host
        for pod in (await registry.list(POD)).items:
            await registry.delete(POD, "default", pod["metadata"]["name"])

        async def empty() -> bool:
            return not (await registry.list(POD)).items

        await until(empty)
        await asyncio.wait_for(runtime.settled(), PATIENCE)
    assert_nothing_left(str(root), MachineOptions(root).own_name)


@asynccontextmanager
async def _agent(root: Path, registry: Registry) -> AsyncIterator[tuple[ResourceHost, MachineRuntime]]:
    """This machine as a node of that registry, for a while: what runs at the end runs on."""
    options = MachineOptions(
        root,
        references=RegistryReferences(registry),
        follow_seconds=0.1,
        devices=root.parent / "machine",
    )
    runtime = await open_runtime("process", options)
    try:
        async with hosted(runtime, registry) as host:
            yield host, runtime
    finally:
        await runtime.close()


async def _begin(registry: Registry, name: str, **spec: Any) -> None:
    """A pod, bound to the node."""
    main = {"name": "main", "image": "none", **spec.pop("main")}
    made = {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [main], **spec}}
    await registry.create(POD, made)
    await registry.bind("default", name, NODE)


async def _events(registry: Registry, name: str) -> list[tuple[str, str, str]]:
    """What people are told of a pod."""
    events = (await registry.list(EVENT, "default")).items
    return [
        (one["type"], one["reason"], one["message"])
        for one in events
        if one["involvedObject"]["name"] == name
    ]


def test_a_pod_from_its_object_to_a_process_and_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with _node(tmp_path / "node") as (registry, host):
            await _live(registry, host)

    asyncio.run(scene())


def test_a_pod_that_writes_too_much_is_evicted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with _node(tmp_path / "node") as (registry, _):
            script = 'dd if=/dev/zero of="$PROREUS_ROOT/data/file" bs=65536 count=4; sleep 300'
            main = {
                "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
            volumes = [{"name": "data", "emptyDir": {"sizeLimit": "100Ki"}}]
            await _begin(registry, "greedy", main=main, volumes=volumes)

            async def failed() -> Any:
                status = (await registry.get(POD, "default", "greedy"))["status"]
                return status if status.get("phase") == "Failed" else None

            status = await until(failed)
            message = 'Usage of EmptyDir volume "data" exceeds the limit "100Ki". '
            assert (status["reason"], status["message"]) == ("Evicted", message)

            async def noted() -> bool:
                return ("Warning", "Evicted", message) in await _events(registry, "greedy")

            await until(noted)

    asyncio.run(scene())


def test_a_hook_that_fails_is_an_event_and_its_container_is_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with _node(tmp_path / "node") as (registry, _):
            hook = {"exec": {"command": ["sh", "-c", "exit 1"]}}
            main = {"command": ["sleep", "300"], "lifecycle": {"postStart": hook}}
            await _begin(registry, "unlucky", main=main, terminationGracePeriodSeconds=1)

            async def again() -> Any:
                statuses = (await registry.get(POD, "default", "unlucky"))["status"].get("containerStatuses")
                status = statuses[0] if statuses else {"state": {}}
                return status if "CrashLoopBackOff" in str(status["state"]) else None

            found = await until(again)
            assert found["restartCount"] == 1, "the first time it is tried again at once"
            assert found["lastState"]["terminated"]["message"].startswith("PostStartHook failed")

            async def noted() -> bool:
                events = await _events(registry, "unlucky")
                failed = ("Warning", "FailedPostStartHook", "PostStartHook failed") in events
                return failed and ("Normal", "Killing", "FailedPostStartHook") in events

            await until(noted)

    asyncio.run(scene())


def test_restarts_and_events_go_on_after_agents_end_and_containers_are_taken_away(tmp_path: Path) -> None:
    async def scene() -> None:
        registry, root = Registry(MemoryStore()), tmp_path / "node"
        await registry.prepare()

        async def count() -> int:
            statuses = (await registry.get(POD, "default", "crashing"))["status"].get("containerStatuses")
            shown = statuses[0] if statuses else {"state": {}}
            return int(shown["restartCount"]) if "CrashLoopBackOff" in str(shown["state"]) else 0

        async def told(reason: str) -> Any:
            events = (await registry.list(EVENT, "default")).items
            return next((one for one in events if one["reason"] == reason), None)

        async def times(reason: str) -> int:
            events = (await registry.list(EVENT, "default")).items
            return sum(one["count"] for one in events if one["reason"] == reason)

        async with _agent(root, registry):
            await _begin(registry, "crashing", main={"command": ["sh", "-c", "exit 1"]})
            assert await until(count) == 1
            event = await until(lambda: told("BackOff"))
            pod = await registry.get(POD, "default", "crashing")
            uid = pod["metadata"]["uid"]
            words = f"Back-off restarting failed container main in pod crashing_default({uid})"
            assert (event["type"], event["message"]) == ("Warning", words)
            assert event["involvedObject"]["fieldPath"] == "spec.containers{main}"
            assert event["source"] == {"component": "proreus-resource-agent", "host": NODE}
            started = await told("Started")
            assert (started["message"], started["count"]) == ("Started container main", 2)
            reasons = [one["reason"] for one in (await registry.list(EVENT, "default")).items]
            assert reasons == ["Created", "Started", "BackOff"], "listed in their order"
            before = await times("BackOff")
        async with _agent(root, registry):  # what stands is taken up

            async def counted() -> bool:
                return await times("BackOff") > before

            await until(counted)
            assert await count() == 1 and await times("Started") == 2
        await clear_runtime(MachineOptions(root))
        counts = []
        async with _agent(root, registry):  # nothing stands: it is begun anew

            async def again() -> bool:
                pod = await registry.get(POD, "default", "crashing")
                counts.append(pod["status"]["containerStatuses"][0]["restartCount"])
                return bool(counts[-1] >= 3)

            await until(again)
            assert counts == sorted(counts)
            await registry.delete(POD, "default", "crashing")
            await until(lambda: _gone(registry, "crashing"))
        await clear_runtime(MachineOptions(root))
        assert_nothing_left(str(root), MachineOptions(root).own_name)

    asyncio.run(scene())


async def _gone(registry: Registry, name: str) -> bool:
    try:
        await registry.get(POD, "default", name)
    except NotFound:
        return True
    return False


def test_the_gpus_of_a_node_go_to_as_many_pods_as_it_has(tmp_path: Path) -> None:
    pretend_gpus(tmp_path / "machine", 1)

    async def scene() -> None:
        async with _node(tmp_path / "node") as (registry, host):

            async def registered() -> Any:
                nodes = (await registry.list(NODE_KIND)).items
                return nodes[0]["status"] if nodes else None

            status = await until(registered)
            assert status["capacity"]["nvidia.com/gpu"] == status["allocatable"]["nvidia.com/gpu"] == "1"
            wants = {"limits": {"nvidia.com/gpu": "1"}}
            script = "echo $NVIDIA_VISIBLE_DEVICES; sleep 300"
            main = {"command": ["sh", "-c", script], "resources": wants}
            await _begin(registry, "first", main=main)
            uid = (await registry.get(POD, "default", "first"))["metadata"]["uid"]

            async def said() -> bool:
                try:
                    lines = [line async for line in host.logs(uid, LogWanted("main"))]
                except RuntimeRefused:  # it does not run yet
                    return False
                return lines == [f"{uuid_of(0)}\n".encode()]

            await until(said)
            await _begin(registry, "second", main=main)

            async def refused() -> bool:
                told = (await registry.get(POD, "default", "second"))["status"]
                return bool(told.get("reason") == "OutOfnvidia.com/gpu" and told["phase"] == "Failed")

            await until(refused)

    asyncio.run(scene())


def test_a_mounted_config_map_follows_its_object(tmp_path: Path) -> None:
    async def scene() -> None:
        async with _node(tmp_path / "node") as (registry, host):
            made = {"metadata": {"name": "words", "namespace": "default"}, "data": {"word": "old"}}
            await registry.create(CONFIG_MAP, made)
            mounts = [{"name": "words", "mountPath": "/words"}]
            main = {"command": ["sleep", "300"], "volumeMounts": mounts}
            volumes = [{"name": "words", "configMap": {"name": "words"}}]
            await _begin(registry, "reader", main=main, volumes=volumes)
            uid = (await registry.get(POD, "default", "reader"))["metadata"]["uid"]

            async def reads(word: bytes) -> bool:
                try:
                    done = await host.execute(uid, "main", ["sh", "-c", 'cat "$PROREUS_ROOT/words/word"'])
                except RuntimeRefused:  # it does not run yet
                    return False
                return done.stdout == word

            await until(lambda: reads(b"old"))
            standing = await registry.get(CONFIG_MAP, "default", "words")
            await registry.replace(CONFIG_MAP, {**standing, "data": {"word": "new"}})
            await until(lambda: reads(b"new"))

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

    pod = await until(runs)
    assert pod["status"]["containerStatuses"][0]["containerID"].startswith("process://")
    uid = pod["metadata"]["uid"]

    async def said() -> bool:
        return [line async for line in host.logs(uid, LogWanted("main"))] == [b"hello\n"]

    await until(said)
    assert (await host.execute(uid, "main", ["sh", "-c", "echo $WORD"])).stdout == b"hello\n"
    await until(restarted)
    for name in ("server", "crashing"):
        await registry.delete(POD, "default", name)
    await until(lambda: _gone(registry, "server"))
