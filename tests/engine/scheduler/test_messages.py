"""What is said of a pod that no node takes: as a plain reference says it, and in cases once worded wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings

from proreus.engine.scheduler.instructions import DelayPod
from proreus.engine.scheduler.messages import refusals_of, unavailable, without_victims
from proreus.model.node import Node, Taint
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.state.compile import compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.devices import tightest_devices
from proreus.worlds.pods.state.diagnosis import Diagnosis, DiagnosisMemory, diagnose
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.placement import place
from tests.engine.scheduler.objects import Object, node, on, pod
from tests.engine.scheduler.test_core import core_with, only, see
from tests.oracles.kube import ReferenceKube
from tests.worlds.pods.strategies import workloads

NEVER = "preemption: not eligible due to preemptionPolicy=Never."


@settings(max_examples=150)
@given(workloads(most_pods=16))
def test_the_words_are_the_references_over_random_histories(workload: Workload) -> None:
    compiled = compile_workload(workload)
    state, scratch = empty_state(compiled.cluster), new_scratch(compiled.cluster)
    reference = ReferenceKube(workload.nodes, budgets=workload.budgets)
    memory = DiagnosisMemory()
    for index, subject in enumerate(workload.pods):
        observation = PodObservation(compiled, state, scratch, index, subject.arrival)
        assert_same(memory.diagnose(observation), diagnose(observation))
        chosen = reference.choose(subject)
        if chosen is not None:
            gpu, machine = subject.spec.gpu, workload.nodes[chosen]
            devices = tightest_devices(state.gpu_left[chosen], machine.gpu_count, gpu.count, gpu.milli)
            place(compiled.cluster, state, index, chosen, devices, subject.arrival)
            reference.place(subject, chosen, now=subject.arrival)
            continue
        before = [column.copy() for column in (state.free, state.ports_used, state.gpu_left)]
        assert unavailable(refusals_of(observation)) == reference.fit_error(subject)
        if reference.preempt(subject) is None:
            may = compiled.cluster.classes.may_preempt[observation.pod_class]
            wanted = reference.preemption_error(subject) if may else NEVER
            assert without_victims(observation, terminating=False) == wanted
            event("preemption is told")
        after = (state.free, state.ports_used, state.gpu_left)
        assert all((one == other).all() for one, other in zip(before, after, strict=True))


def assert_same(one: Diagnosis, other: Diagnosis) -> None:
    assert one.codes.tolist() == other.codes.tolist()
    assert one.short.tolist() == other.short.tolist()


def test_what_is_remembered_of_a_class_follows_its_nodes() -> None:
    """Pods come and go, a node gets a taint and loses it, nodes come, and a resource that nobody had."""
    cluster, memory = OpenCluster(), DiagnosisMemory()
    small, other = PodSpec(Resources(cpu=600)), PodSpec(Resources(cpu=100, extended=(("x/y", 1),)))
    size = Resources(cpu=1000, memory=GIB, pods=3)

    def look() -> list[int]:
        told = []
        for spec in (small, other):
            observation = cluster.observe(Pod("asks", spec))
            remembered = memory.diagnose(observation)
            assert_same(remembered, diagnose(observation))
            told += remembered.codes.tolist()
        return told

    for name in "abc":
        cluster.add_node(Node(name, size))
    seen = [look(), look()]
    cluster.add_pod(Pod("p", small), "b")
    seen.append(look())
    cluster.update_node(Node("a", size, taints=(Taint("t"),)))
    seen.append(look())
    cluster.remove_pod("p")
    seen.append(look())
    cluster.update_node(Node("a", size))
    cluster.update_node(Node("c", Resources(cpu=1000, memory=GIB, pods=3, extended=(("x/y", 4),))))
    seen.append(look())
    cluster.add_node(Node("d", size))
    seen.append(look())
    for number in range(400):  # more changes than are looked at one by one
        cluster.add_pod(Pod("p", small), "abcd"[number % 4])
        cluster.remove_pod("p")
    cluster.add_pod(Pod("p", small), "d")
    seen.append(look())
    assert len({tuple(one) for one in seen}) == len(seen) - 1  # the second look saw what the first did


def test_the_same_refusals_are_the_same_value() -> None:
    cluster, memory = OpenCluster(), DiagnosisMemory()
    for name in "ab":
        cluster.add_node(Node(name, Resources(cpu=1000, memory=GIB, pods=9)))
    for number in range(4):  # with more of them than come later, the demand is not counted anew
        cluster.add_pod(Pod(f"before-{number}", PodSpec(Resources())), "b")
    asks = Pod("asks", PodSpec(Resources(cpu=100)))
    first = memory.diagnose(cluster.observe(asks))
    cluster.add_pod(Pod("p", PodSpec(Resources(cpu=500))), "a")
    assert memory.diagnose(cluster.observe(asks)) is first  # room is left: still nobody refuses
    cluster.add_pod(Pod("q", PodSpec(Resources(cpu=500))), "a")
    second = memory.diagnose(cluster.observe(asks))
    assert (first.codes.tolist(), second.codes.tolist()[1]) == ([0, 0], 0)
    assert second.codes[0]


def test_ports_are_named_before_resources_once_lower_pods_are_gone() -> None:
    """NodePorts comes before NodeResourcesFit: a node that fails both counts for its ports alone."""
    core = core_with(node("n", "4"))
    see(
        core,
        on(pod("keeps", priority=100, **with_port("3")), "n"),
        on(pod("low", "1", priority=0), "n"),
        pod("web", priority=50, **with_port("2")),
    )
    assert waits(core) == (
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. preemption: "
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    )


def test_resources_are_named_where_eviction_frees_the_port() -> None:
    core = core_with(node("n", "4"))
    see(
        core,
        on(pod("keeps", "3", priority=100), "n"),
        on(pod("low", priority=0, **with_port("1")), "n"),
        pod("web", priority=50, **with_port("2")),
    )
    assert waits(core) == (
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. "
        "preemption: 0/1 nodes are available: 1 Insufficient cpu."
    )


@pytest.mark.parametrize(
    ("whose", "words"),
    [
        ("web", "node(s) didn't match pod anti-affinity rules"),
        ("keeps", "node(s) didn't satisfy existing pods anti-affinity rules"),
    ],
)
def test_anti_affinity_says_whose_it_is_once_lower_pods_are_gone(whose: str, words: str) -> None:
    core = core_with(node("n", "4"))
    apart = {name: away() if name == whose else {} for name in ("web", "keeps")}
    see(
        core,
        on(pod("keeps", "1", priority=100, labels={"app": "a"}, **apart["keeps"]), "n"),
        on(pod("low", "1", priority=0), "n"),
        pod("web", "1", priority=50, labels={"app": "a"}, **apart["web"]),
    )
    assert waits(core) == (
        f"0/1 nodes are available: 1 {words}. preemption: 0/1 nodes are available: 1 {words}."
    )


def test_a_node_that_lacks_gpus_and_cores_after_evictions_counts_for_both() -> None:
    core = core_with(node("n", "4", extended={"nvidia.com/gpu": "2"}))
    gpus: dict[str, Any] = {"requests": {"nvidia.com/gpu": "2"}}
    see(
        core,
        on(pod("keeps", "3", priority=100, **gpus), "n"),
        on(pod("low", "1", priority=0), "n"),
        pod("web", "2", priority=50, **gpus),
    )
    message = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu."
    assert waits(core) == f"{message} preemption: {message}"


def with_port(cpu: str) -> dict[str, Any]:
    """The spec of a pod that takes a port of its node."""
    container: Object = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [{**container, "ports": [{"containerPort": 80, "hostPort": 80}]}]}


def away() -> dict[str, Any]:
    """The spec of a pod that stays away from those of its kind."""
    term: Object = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def waits(core: Any) -> str:
    """What is said of the one pod that waits."""
    delay_pod = only(core.cycle(1.0))
    assert isinstance(delay_pod, DelayPod)
    return delay_pod.told
