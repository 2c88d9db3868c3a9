"""Measured load, from the signs of life of nodes into what policies decide by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from proreus.engine.kubelet import heartbeats
from proreus.engine.kubelet.heartbeats import Housed
from proreus.engine.kubelet.host import FOLLOWED, ResourceHost
from proreus.engine.kubelet.node_status import NodeSpec, new_lease, renewed_lease
from proreus.engine.kubelet.usage.reporter import NodeLoad
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.protocol import Capacity
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.scheduler.agent import AgentOptions, SchedulingAgent
from proreus.engine.scheduler.core import SchedulingCore, SchedulingOptions
from proreus.engine.scheduler.instructions import BindPodTo, ObjectDeleted, ObjectUpdated
from proreus.engine.scheduler.node_load import SILENT_SECONDS, UNMEASURED_SECONDS, Loads, read_load
from proreus.engine.store.memory import MemoryStore
from proreus.engine.watch.informer import Informer
from proreus.worlds.pods.encoding.pair import MEASURED_LOAD, PAIR_FEATURES, cluster_scale, encode_pair
from proreus.worlds.pods.state.open.values import MeasuredLoad
from tests.engine.scheduler.objects import Object, node, on, pod

NOW = 1000.0


def lease(name: str, cpu: int, at: float, deviation: int = 0) -> Object:
    return renewed_lease(new_lease(name, 0.0), NodeLoad(cpu, 0, deviation), at)


def hear(core: SchedulingCore, loads: dict[str, int], now: float = NOW) -> None:
    """Each node gives a sign of life, and another after it: the first may be long past."""
    for name, cpu in loads.items():
        core.handle(ObjectUpdated("Lease", lease(name, cpu, now - 10.0)), now - 10.0)
        core.handle(ObjectUpdated("Lease", lease(name, cpu, now)), now)


def two_alike(policy: str = "kube_plus") -> SchedulingCore:
    """Two nodes with a pod each that asks for the same."""
    core = SchedulingCore(SchedulingOptions(default=Chosen(policy)))
    for name in ("a", "b"):
        core.handle(ObjectUpdated("Node", node(name)), 0.0)
        core.handle(ObjectUpdated("Pod", on(pod(f"on-{name}"), name)), 0.0)
    return core


def chosen(core: SchedulingCore, name: str = "new", now: float = NOW) -> str:
    core.handle(ObjectUpdated("Pod", pod(name, "500m")), now)
    (found,) = core.cycle(now)
    assert isinstance(found, BindPodTo)
    return found.node


def load_of(core: SchedulingCore, name: str) -> tuple[float, float]:
    cluster = core.picture.cluster
    mean, variance = cluster.columns()[1].load[cluster.node_at(name)]
    return float(mean), float(variance)


@pytest.mark.parametrize(("busy", "idle"), [("a", "b"), ("b", "a")])
def test_kube_plus_tells_nodes_with_equal_requests_apart_by_their_load(busy: str, idle: str) -> None:
    core = two_alike()
    hear(core, {busy: 3800, idle: 100})
    assert load_of(core, busy) == (3800.0, 0.0) and load_of(core, idle) == (100.0, 0.0)
    assert [chosen(core, f"new-{n}") for n in range(2)] == [idle, idle]


@pytest.mark.parametrize(("busy", "idle"), [("a", "b"), ("b", "a")])
def test_kube_goes_by_requests_whatever_the_load(busy: str, idle: str) -> None:
    core, same = two_alike("kube"), two_alike("kube")
    hear(core, {busy: 3800, idle: 100})
    assert chosen(core) == chosen(same)


@pytest.mark.parametrize(("busy", "idle"), [("a", "b"), ("b", "a")])
def test_a_silent_nodes_load_is_not_used(busy: str, idle: str) -> None:
    """As if nothing had ever been measured; and once it is heard again, its load counts again."""
    core, same = two_alike(), two_alike()
    hear(core, {busy: 3800, idle: 100})
    later = NOW + SILENT_SECONDS + 1.0
    assert chosen(core, now=later) == chosen(same, now=later)
    for name in (busy, idle):
        assert load_of(core, name) == load_of(same, name)
    core.handle(ObjectUpdated("Lease", lease(busy, 3800, later)), later)
    core.handle(ObjectUpdated("Lease", lease(idle, 100, later)), later)
    assert chosen(core, "again", later) == idle


@pytest.mark.parametrize(("busy", "idle"), [("a", "b"), ("b", "a")])
def test_in_a_running_engine_what_nodes_measure_decides(
    busy: str, idle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the pods' use over leases in the store to the binding."""
    monkeypatch.setattr(heartbeats, "RENEW_SECONDS", 0.2)
    room = Capacity(*[{"cpu": "4", "memory": "8Gi", "pods": "110"}] * 2)

    async def play() -> None:
        registry, timers = Registry(MemoryStore()), LoopTimers()
        await registry.prepare()
        informers = {kind: Informer(registry, kind) for kind in FOLLOWED}
        nodes = [Housed(NodeSpec(name, "10.0.0.1"), SimulatedRuntime(room, timers)) for name in ("a", "b")]
        options = AgentOptions(SchedulingOptions(default=Chosen("kube_plus")), identity="x")
        agent = SchedulingAgent(registry, options)
        host = ResourceHost(registry, timers, nodes, informers)
        runs = [*(informer.run() for informer in informers.values()), host.run(), agent.run()]
        tasks = [asyncio.create_task(run) for run in runs]
        try:
            for name, cpu in ((busy, "3800m"), (idle, "100m")):
                quick = {"proreus.io/use-cpu": cpu, "proreus.io/start-latency": "0"}
                obj = pod(f"on-{name}", annotations=quick)
                del obj["metadata"]["uid"]
                await registry.create(POD, {**obj, "spec": {**obj["spec"], "nodeName": name}})
            await _until(lambda: _known(agent, busy, 3800.0) and _known(agent, idle, 100.0))
            new = pod("new", "500m")
            del new["metadata"]["uid"]
            await registry.create(POD, new)
            async with asyncio.timeout(60):
                while not (bound := await registry.get(POD, "default", "new"))["spec"].get("nodeName"):
                    await asyncio.sleep(0.01)
            assert bound["spec"]["nodeName"] == idle
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(play())


def _known(agent: SchedulingAgent, name: str, least: float) -> bool:
    """Whether its load is what was measured, its pod's request on top as long as that is new."""
    there = name in agent.core.picture.cluster.node_names()
    return there and load_of(agent.core, name)[0] in (least, least + 1000.0)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


def test_what_is_found_on_beginning_may_be_long_past() -> None:
    core = two_alike()
    for _ in range(2):  # listed, and listed again: nothing new
        core.handle(ObjectUpdated("Lease", lease("a", 3800, 500.0)), NOW)
    assert load_of(core, "a") == (1000.0, 0.0), "what its pod asks for"
    core.handle(ObjectUpdated("Lease", lease("a", 3800, 510.0, deviation=30)), NOW + 1.0)
    assert load_of(core, "a") == (3800.0, 900.0)


def test_pods_that_came_since_the_measure_are_expected_on_top() -> None:
    core = two_alike()
    hear(core, {"a": 100, "b": 3900})
    assert chosen(core) == "a" and load_of(core, "a")[0] == 600.0
    core.handle(ObjectUpdated("Lease", lease("a", 350, NOW + 10)), NOW + 10)
    assert load_of(core, "a")[0] == 850.0, "it was bound too shortly before to be in the measure"
    after = NOW + UNMEASURED_SECONDS + 1
    core.handle(ObjectUpdated("Lease", lease("a", 350, after)), after)
    assert load_of(core, "a")[0] == 350.0


def test_what_goes_takes_its_part_along_and_never_more_than_there_was() -> None:
    core = two_alike()
    hear(core, {"a": 100, "b": 1500})
    for name in ("a", "b"):
        core.handle(ObjectDeleted("Pod", on(pod(f"on-{name}"), name)), NOW)
    assert (load_of(core, "a")[0], load_of(core, "b")[0]) == (0.0, 500.0)


def test_a_node_that_changes_or_comes_again_keeps_its_load_and_one_without_lease_has_none() -> None:
    core = two_alike()
    hear(core, {"a": 3800, "b": 100})
    core.handle(ObjectUpdated("Node", node("a", "8")), NOW)
    assert load_of(core, "a")[0] == 3800.0
    core.handle(ObjectDeleted("Node", node("a", "8")), NOW)
    assert load_of(core, "b")[0] == 100.0
    core.handle(ObjectUpdated("Node", node("a", "8")), NOW)
    assert load_of(core, "a")[0] == 3800.0
    core.start_over(NOW)
    assert (load_of(core, "a")[0], load_of(core, "b")[0]) == (3800.0, 100.0)
    core.handle(ObjectDeleted("Lease", lease("a", 3800, NOW)), NOW)
    assert load_of(core, "a")[0] == 1000.0


def test_learned_policies_see_the_load() -> None:
    core = two_alike()
    hear(core, {"a": 3800, "b": 100})
    core.handle(ObjectUpdated("Pod", pod("new", "500m")), NOW)
    cluster = core.picture.cluster
    observation = cluster.observe("default/new")
    scale, c = cluster_scale(observation.compiled), cluster.rows_of("default/new")[0]
    seen = {}
    for name in ("a", "b"):
        out = np.zeros(len(PAIR_FEATURES))
        encode_pair(observation.cluster, observation.state, scale, c, cluster.node_at(name), out)
        seen[name] = out[MEASURED_LOAD]
    assert seen["a"] - seen["b"] == pytest.approx(3700 / 4000)


@pytest.mark.parametrize(
    "told",
    [{}, {"proreus.io/used-cpu": "much"}, {"proreus.io/used-cpu": "-1"}, {"proreus.io/used-cpu": "1e999"}],
)
def test_nonsense_on_a_lease_is_no_load(told: dict[str, Any]) -> None:
    strange = {"metadata": {"name": "a", "annotations": told}, "spec": {"renewTime": "x"}}
    assert read_load(strange, 0.0) is None
    loads = Loads()
    assert loads.told({"metadata": {"name": "a"}}, 0.0) is None
    assert loads.told(strange, 1.0) is None and list(loads.silent(1e9)) == []


def test_a_load_is_read_as_it_is_written() -> None:
    assert read_load(lease("a", 1234, 0.0, deviation=12), 5.0) == MeasuredLoad(1234.0, 144.0, 5.0)
