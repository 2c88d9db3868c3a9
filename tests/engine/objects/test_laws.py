"""Laws that hold of any sequence of writes, drawn at random."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import DEPLOYMENT, POD
from proreus.engine.objects.registry import Binding, ObjectEvent, PatchType, Registry
from proreus.engine.store.memory import MemoryStore
from tests.engine.objects.worlds import NOW, deployment, pod, with_registry

DRAWN = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WRITES = st.one_of(
    st.tuples(st.just("replicas"), st.integers(0, 3)),
    st.tuples(st.just("label"), st.sampled_from("abc")),
    st.tuples(st.just("status"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["all by status", "all"]), st.integers(0, 3)),
    st.tuples(st.just("nothing"), st.just(0)),
)


async def _write(registry: Registry, what: str, value: Any) -> dict[str, Any]:
    everything = {
        "spec": {"replicas": value},
        "status": {"replicas": value},
        "metadata": {"labels": {"y": str(value)}},
    }
    patches: dict[str, tuple[dict[str, Any], str]] = {
        "replicas": ({"spec": {"replicas": value}}, ""),
        "label": ({"metadata": {"labels": {"x": value}}}, ""),
        "status": ({"status": {"replicas": value}}, "status"),
        "all by status": (everything, "status"),
        "all": (everything, ""),
        "nothing": ({}, ""),
    }
    patch, subresource = patches[what]
    return await registry.patch(DEPLOYMENT, "default", "web", patch, PatchType.MERGE, subresource=subresource)


@DRAWN
@given(st.lists(WRITES, max_size=8))
def test_generations_revisions_and_the_two_halves(writes: list[tuple[str, Any]]) -> None:
    async def scenario(registry: Registry) -> None:
        state = await registry.create(DEPLOYMENT, deployment())
        for what, value in writes:
            after = await _write(registry, what, value)
            by_status = what in ("status", "all by status")
            assert (after["spec"] == state["spec"]) or not by_status
            assert (after.get("status") == state.get("status")) or by_status
            grown = after["metadata"]["generation"] - state["metadata"]["generation"]
            assert grown == (after["spec"] != state["spec"])
            version, before = (int(one["metadata"]["resourceVersion"]) for one in (after, state))
            assert version > before if after != state else version == before
            assert after["metadata"]["uid"] == state["metadata"]["uid"]
            assert await registry.get(DEPLOYMENT, "default", "web") == after
            state = after

    with_registry(scenario)


@DRAWN
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["n1", "n2", "n3"])), min_size=1, max_size=20),
    st.integers(1, 3),
)
def test_no_pod_is_bound_twice(asked: list[tuple[int, str]], schedulers: int) -> None:
    """However many bind at once, over one store, each pod has the node of the one who was told so."""

    async def play() -> None:
        store = MemoryStore()
        registries = [Registry(store, clock=lambda: NOW) for _ in range(schedulers)]
        await registries[0].prepare()
        await registries[0].create_many(POD, [pod(f"p{place}") for place in range(5)])
        for registry in registries:
            await registry.list(POD)
        bindings = [Binding("default", f"p{place}", node) for place, node in asked]
        outcomes = await asyncio.gather(
            *(registries[i % schedulers].bind_many(bindings[i::schedulers]) for i in range(schedulers))
        )
        told = [
            status_error
            for part in outcomes
            for status_error in part
            if not isinstance(status_error, StatusError)
        ]
        won = Counter(one["metadata"]["name"] for one in told)
        assert set(won.values()) == {1} and set(won) == {f"p{place}" for place, _ in asked}
        for one in told:
            stands = await registries[0].get(POD, "default", one["metadata"]["name"])
            assert stands["spec"]["nodeName"] == one["spec"]["nodeName"]

    asyncio.run(play())


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "label", "bind", "delete", "nothing"]), st.integers(0, 2)),
    max_size=15,
)


@DRAWN
@given(STEPS, st.integers(0, 5))
def test_a_watch_tells_the_whole_story(steps: list[tuple[str, int]], late: int) -> None:
    """Whoever lists and then watches knows at every revision what stands, however late they begin."""

    async def scenario(registry: Registry) -> None:
        known: dict[str, dict[str, Any]] = {}
        revision = 0
        for at, (what, place) in enumerate(steps):
            if at == late:
                revision = await _listed(registry, known)
            await _step(registry, what, f"p{place}", at)
        if not revision:
            revision = await _listed(registry, known)
        mark = await registry.create(POD, pod("mark"))
        seen: list[ObjectEvent] = []
        async for event in registry.watch(POD, after=revision):
            seen.append(event)
            if event.object["metadata"]["name"] == "mark":
                break
        revisions = [event.revision for event in seen]
        assert revisions == sorted(set(revisions)) and revisions[-1] == int(
            mark["metadata"]["resourceVersion"]
        )
        for event in seen:
            name = event.object["metadata"]["name"]
            assert event.previous == known.get(name)
            assert (event.type == "ADDED") is (name not in known)
            if event.type == "DELETED":
                del known[name]
            else:
                known[name] = event.object
        standing = (await registry.list(POD)).items
        assert known == {one["metadata"]["name"]: one for one in standing}

    with_registry(scenario)


async def _listed(registry: Registry, known: dict[str, dict[str, Any]]) -> int:
    listed = await registry.list(POD)
    known.update({item["metadata"]["name"]: item for item in listed.items})
    return listed.revision


async def _step(registry: Registry, what: str, name: str, at: int) -> None:
    label = {"metadata": {"labels": {"at": str(at)}}}
    try:
        match what:
            case "create":
                await registry.create(POD, pod(name))
            case "label":
                await registry.patch(POD, "default", name, label, PatchType.STRATEGIC)
            case "bind":
                await registry.bind("default", name, "n1")
            case "delete":
                await registry.delete(POD, "default", name, grace=0)
    except StatusError:
        return  # it is not there, or there already, or bound: the story goes on


@DRAWN
@given(
    st.lists(st.sampled_from(["a.b/one", "a.b/two"]), unique=True), st.permutations(["a.b/one", "a.b/two"])
)
def test_an_object_goes_with_its_last_finalizer(finalizers: list[str], order: list[str]) -> None:
    async def scenario(registry: Registry) -> None:
        obj = deployment()
        obj["metadata"]["finalizers"] = finalizers
        await registry.create(DEPLOYMENT, obj)
        await registry.delete(DEPLOYMENT, "default", "web")
        left = list(finalizers)
        for one in order:
            standing = (await registry.list(DEPLOYMENT)).items
            assert bool(standing) is bool(left)
            if standing:
                patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [one]}}
                await registry.patch(DEPLOYMENT, "default", "web", patch, PatchType.STRATEGIC)
            left = [kept for kept in left if kept != one]
        assert not (await registry.list(DEPLOYMENT)).items

    with_registry(scenario)
