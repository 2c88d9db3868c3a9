"""What a writer of objects may count on: one state at a time, none lost, none twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.objects.errors import AlreadyExists, Conflict, Gone, NotFound, StatusError
from proreus.engine.objects.kinds import BUDGET, DEPLOYMENT, NAMESPACE, NODE, POD
from proreus.engine.objects.registry import Binding, Registry
from proreus.engine.store.factory import open_store
from proreus.engine.store.memory import MemoryStore
from tests.engine.objects.worlds import deployment, pod, with_registry


def _labelled(key: str, value: str) -> Any:
    def change(obj: dict[str, Any]) -> dict[str, Any]:
        metadata = obj["metadata"]
        return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), key: value}}}

    return change


def _status(status: dict[str, Any]) -> Any:
    return lambda obj: {**obj, "status": status, "spec": {"changed": True}}


def test_a_created_object_has_what_the_server_gives() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        metadata = made["metadata"]
        assert metadata["creationTimestamp"] == "2026-09-21T14:13:20Z"
        assert metadata["generation"] == 1 and metadata["uid"] and metadata["resourceVersion"]
        assert made["status"]["phase"] == "Pending"
        assert await registry.get(POD, "default", "web") == made
        with pytest.raises(AlreadyExists, match='pods "web" already exists'):
            await registry.create(POD, pod())

    with_registry(scenario)


def test_generated_names_differ_within_one_batch() -> None:
    async def scenario(registry: Registry) -> None:
        several = [
            {**pod(), "metadata": {"generateName": "web-", "namespace": "default"}} for _ in range(300)
        ]
        made = await registry.create_many(POD, several)
        names = {
            status_error["metadata"]["name"]
            for status_error in made
            if not isinstance(status_error, StatusError)
        }
        assert len(names) == 300

    with_registry(scenario)


def test_of_twins_in_one_batch_one_is_made() -> None:
    async def scenario(registry: Registry) -> None:
        first, second = await registry.create_many(POD, [pod(), pod()])
        assert isinstance(first, dict) and isinstance(second, AlreadyExists)

    with_registry(scenario)


def test_status_and_spec_are_written_apart() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(DEPLOYMENT, deployment())
        told = await registry.edit(
            DEPLOYMENT, "default", "web", _status({"replicas": 2}), subresource="status"
        )
        assert told["spec"] == made["spec"] and told["metadata"]["generation"] == 1
        plain = {**told, "spec": {**told["spec"], "replicas": 5}, "status": {"replicas": 99}}
        asked = await registry.replace(DEPLOYMENT, plain)
        assert asked["status"] == {"replicas": 2} and asked["metadata"]["generation"] == 2

    with_registry(scenario)


def test_a_replacement_of_an_old_state_is_refused() -> None:
    async def scenario(registry: Registry) -> None:
        first = await registry.create(POD, pod())
        await registry.edit(POD, "default", "web", _labelled("a", "1"))
        with pytest.raises(Conflict, match="the object has been modified"):
            await registry.replace(POD, _labelled("b", "1")(first))

    with_registry(scenario)


def test_edits_of_many_at_once_all_count() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(POD, pod())
        edits = (registry.edit(POD, "default", "web", _labelled(f"k{i}", "1")) for i in range(20))
        await asyncio.gather(*edits)
        labels = (await registry.get(POD, "default", "web"))["metadata"]["labels"]
        assert {f"k{i}" for i in range(20)} <= set(labels)

    with_registry(scenario)


def test_a_pod_is_bound_once() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        bindings = [Binding("default", "web", f"node-{i}") for i in range(5)]
        outcomes = await registry.bind_many(bindings)
        assert [isinstance(outcome, dict) for outcome in outcomes] == [True] + [False] * 4
        stands = await registry.get(POD, "default", "web")
        assert stands["spec"]["nodeName"] == "node-0"
        assert stands["status"]["conditions"][0]["type"] == "PodScheduled"
        assert stands["metadata"]["generation"] == made["metadata"]["generation"]

    with_registry(scenario)


def test_another_pod_of_the_name_is_not_bound() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(POD, pod())
        with pytest.raises(Conflict, match="UID in precondition: gone"):
            await registry.bind("default", "web", "node-1", uid="gone")
        with pytest.raises(NotFound):
            await registry.bind("default", "nobody", "node-1")

    with_registry(scenario)


@pytest.mark.parametrize("kept", ["memory:", "sqlite:"])
def test_two_registries_over_one_store_do_not_bind_one_pod_twice(kept: str, tmp_path: Path) -> None:
    async def play() -> None:
        store = await open_store(kept if kept == "memory:" else f"{kept}{tmp_path / 'engine.db'}")
        first, second = Registry(store), Registry(store)
        await first.prepare()
        names = [f"web-{i}" for i in range(50)]
        await first.create_many(POD, [pod(name) for name in names])
        await second.list(POD)  # it remembers them all, unbound
        left, right = await asyncio.gather(
            first.bind_many([Binding("default", name, "left") for name in names]),
            second.bind_many([Binding("default", name, "right") for name in reversed(names)]),
        )
        won = [outcome["metadata"]["name"] for outcome in (*left, *right) if isinstance(outcome, dict)]
        assert sorted(won) == sorted(names)
        stand = (await first.list(POD)).items
        nodes = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in stand}
        told = {
            one["metadata"]["name"]: one["spec"]["nodeName"]
            for one in (*left, *right)
            if isinstance(one, dict)
        }
        assert nodes == told
        await store.close()

    asyncio.run(play())


def test_a_bound_pod_goes_after_its_grace_and_an_unbound_one_at_once() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(POD, pod("idle"))
        await registry.create(POD, pod("busy", nodeName="node-1", terminationGracePeriodSeconds=10))
        await registry.delete(POD, "default", "idle")
        with pytest.raises(NotFound):
            await registry.get(POD, "default", "idle")
        marked = await registry.delete(POD, "default", "busy")
        assert marked["metadata"]["deletionTimestamp"] == "2026-09-21T14:13:30Z"
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 10
        again = await registry.delete(POD, "default", "busy")
        assert again == marked
        await registry.delete(POD, "default", "busy", grace=0)
        with pytest.raises(NotFound):
            await registry.get(POD, "default", "busy")

    with_registry(scenario)


def test_finalizers_hold_an_object_until_the_last_is_off() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(DEPLOYMENT, deployment())
        held = await registry.delete(DEPLOYMENT, "default", "web", propagation="Foreground")
        assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert "deletionTimestamp" in held["metadata"]

        def let_go(obj: dict[str, Any]) -> dict[str, Any]:
            return {**obj, "metadata": {**obj["metadata"], "finalizers": []}}

        await registry.edit(DEPLOYMENT, "default", "web", let_go)
        with pytest.raises(NotFound):
            await registry.get(DEPLOYMENT, "default", "web")

    with_registry(scenario)


def test_a_namespace_ends_when_it_is_finalized() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(NAMESPACE, {"metadata": {"name": "team"}})
        await registry.create(POD, pod(namespace="team"))
        ending = await registry.delete(NAMESPACE, "", "team")
        assert ending["status"]["phase"] == "Terminating"
        with pytest.raises(StatusError, match="because it is being terminated"):
            await registry.create(POD, pod("late", namespace="team"))
        await registry.edit(NAMESPACE, "", "team", lambda obj: {**obj, "spec": {}}, subresource="finalize")
        with pytest.raises(NotFound):
            await registry.get(NAMESPACE, "", "team")
        with pytest.raises(NotFound, match='namespaces "team" not found'):
            await registry.create(POD, pod("later", namespace="team"))

    with_registry(scenario)


def test_a_watch_tells_each_change_once_and_in_order() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(POD, pod("old"))
        told: list[tuple[str, str]] = []

        async def watch() -> None:
            async for event in registry.watch(POD):
                if event.type != "BOOKMARK":
                    told.append((event.type, event.object["metadata"]["name"]))
                if event.type == "DELETED":
                    assert int(event.object["metadata"]["resourceVersion"]) == event.revision
                    return

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        await registry.create(POD, pod("new"))
        await registry.bind("default", "old", "node-1")
        await registry.delete(POD, "default", "new")
        await asyncio.wait_for(watching, 60)
        assert told == [("ADDED", "old"), ("ADDED", "new"), ("MODIFIED", "old"), ("DELETED", "new")]

    with_registry(scenario)


def test_a_watch_from_a_forgotten_revision_is_gone() -> None:
    async def play() -> None:
        store = MemoryStore()
        registry = Registry(store)
        await registry.prepare()
        first = await registry.create(POD, pod("a"))
        await registry.create(POD, pod("b"))
        last = await registry.create(POD, pod("c"))
        await store.compact(int(last["metadata"]["resourceVersion"]))
        with pytest.raises(Gone):
            async for _ in registry.watch(POD, after=int(first["metadata"]["resourceVersion"])):
                pass

    asyncio.run(play())


def test_a_list_goes_on_at_its_own_revision() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create_many(POD, [pod(f"p{i}") for i in range(5)])
        first = await registry.list(POD, "default", limit=2)
        await registry.create(POD, pod("p9"))
        rest = await registry.list(POD, "default", after=first.after, revision=first.revision)
        names = [obj["metadata"]["name"] for obj in (*first.items, *rest.items)]
        assert names == [f"p{i}" for i in range(5)] and first.remaining == 3

    with_registry(scenario)


def test_a_dry_run_tells_and_changes_nothing() -> None:
    async def scenario(registry: Registry) -> None:
        assert (await registry.create(POD, pod(), dry_run=True))["metadata"]["uid"]
        with pytest.raises(NotFound):
            await registry.get(POD, "default", "web")
        made = await registry.create(POD, pod())
        edited = await registry.edit(POD, "default", "web", _labelled("a", "1"), dry_run=True)
        assert edited["metadata"]["labels"]["a"] == "1"
        await registry.delete(POD, "default", "web", dry_run=True)
        assert await registry.get(POD, "default", "web") == made

    with_registry(scenario)


def test_namespaces_that_are_not_there_leave_nothing_behind() -> None:
    async def scenario(registry: Registry) -> None:
        for place in range(50):
            with pytest.raises(NotFound):
                await registry.create(POD, pod(namespace=f"none-{place}"))
        await registry.create(POD, pod())
        assert list(registry._admission._read_at) == [NAMESPACE.key("", "default")]

    with_registry(scenario)


def test_nodes_and_budgets_have_a_spec_though_nobody_stated_one() -> None:
    """Agents read it: a budget without one ended the engine."""

    async def story() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        for kind, metadata in ((NODE, {"name": "bare"}), (BUDGET, {"name": "bare", "namespace": "default"})):
            made = await registry.create(kind, {"metadata": metadata})
            assert made["spec"] == {}
            namespace = metadata.get("namespace", "")
            edited = await registry.edit(kind, namespace, "bare", lambda obj: {**obj, "spec": None})
            assert edited["spec"] == {}

    asyncio.run(story())
