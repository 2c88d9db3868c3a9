"""A cluster built from a description is the cluster that a world builds step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.columns import State
from proreus.worlds.pods.state.compile import compile_workload, empty_state
from proreus.worlds.pods.state.described_cluster import NodeNow, Running, observe
from proreus.worlds.pods.state.devices import tightest_devices
from proreus.worlds.pods.state.placement import place
from tests.worlds.pods.strategies import workloads

NODE = Node("n", Resources(cpu=4000, memory=8 * GIB, pods=10), gpu_count=2, gpu_model="T4")
POD = Pod("p", PodSpec(Resources(cpu=1000, memory=GIB)))


def test_listed_pods_and_sums_leave_the_same_room() -> None:
    listed = observe([NodeNow(NODE, (Running(POD),))], POD)
    summed = observe([NodeNow(NODE, used=Resources(cpu=1000, memory=GIB, pods=1))], POD)
    assert np.array_equal(listed.state.free, summed.state.free)
    assert np.array_equal(listed.state.scored, summed.state.scored)
    full = observe([NodeNow(NODE, used=Resources(cpu=3500))], POD)
    assert full.refusals().tolist() != [0]
    assert listed.refusals().tolist() == [0]


def test_gpus_are_held_as_told_or_tightest() -> None:
    shared = Pod("g", PodSpec(Resources(cpu=100), GpuRequest(1, 400)))
    pod = observe([NodeNow(NODE, (Running(shared, 0b10),), gpu_used=(300,))], POD)
    assert pod.state.gpu_left[0].tolist() == [700, 600]
    tightest = observe([NodeNow(NODE, (Running(shared),), gpu_used=(300,))], POD)
    assert tightest.state.gpu_left[0].tolist() == [300, 1000]


def test_pods_placed_in_one_go_are_those_placed_one_by_one() -> None:
    """Runs of pods without GPUs between pods with them, on nodes in turn."""
    gpu = PodSpec(Resources(cpu=100), GpuRequest(1, 300))
    kinds = [PodSpec(Resources(cpu=10 * k, memory=k), labels=(("app", f"a{k}"),)) for k in range(3)]
    specs = [*kinds, gpu, gpu, *kinds, *kinds, gpu, kinds[0]]
    where = [k % 2 for k in range(len(specs))]
    nodes = [
        NodeNow(
            replace(NODE, name=f"n{n}"),
            tuple(
                Running(Pod(f"q{k}", spec), since=float(k)) for k, spec in enumerate(specs) if where[k] == n
            ),
        )
        for n in range(2)
    ]
    pod = observe(nodes, POD)
    cluster, state = pod.cluster, empty_state(pod.cluster)
    for index, (n, running) in enumerate(
        ((n, member) for n, now in enumerate(nodes) for member in now.running), 1
    ):
        held = running.pod.spec.gpu
        left = state.gpu_left[n]
        devices = int(tightest_devices(left, 2, held.count, held.milli)) if held.count else 0
        place(cluster, state, index, n, devices, running.since)
    for column in State.__annotations__:
        assert np.array_equal(getattr(pod.state, column), getattr(state, column)), column


@pytest.mark.parametrize(
    "now",
    [
        NodeNow(NODE, gpu_used=(0, 0, 0)),
        NodeNow(NODE, (Running(Pod("g", PodSpec(Resources(), GpuRequest(1, 800))), 0b100),)),
        NodeNow(NODE, (Running(Pod("g", PodSpec(Resources(), GpuRequest(2, 800))), 0b1),)),
        NodeNow(NODE, (Running(Pod("g", PodSpec(Resources(), GpuRequest(2, 800)))),), gpu_used=(300,)),
    ],
)
def test_gpus_that_are_not_there_are_an_error(now: NodeNow) -> None:
    with pytest.raises(InputError, match="n: "):
        observe([now], POD)


@settings(max_examples=10)
@given(workloads())
def test_a_description_has_the_room_of_the_world_it_describes(workload: Workload) -> None:
    compiled = compile_workload(workload)
    world = PodsWorld(compiled)
    policy = make_policy("best_fit")
    while (seen := world.next_decision()) is not None:
        now = []
        for n, node in enumerate(workload.nodes):
            on = np.flatnonzero(seen.state.pod_node == n).tolist()
            on.sort(key=lambda pod: int(seen.state.pod_rank[pod]))
            running = tuple(Running(workload.pods[i], int(seen.state.pod_devices[i])) for i in on)
            now.append(NodeNow(node, running))
        pod_observation = observe(now, seen.subject, seen.waiting)
        base = np.isin(np.array(compiled.columns), np.array(pod_observation.compiled.columns))
        assert np.array_equal(pod_observation.state.free, seen.state.free[:, base])
        assert np.array_equal(pod_observation.state.gpu_left, seen.state.gpu_left)
        assert pod_observation.refusals().tolist() == seen.refusals().tolist()
        world.apply(policy.decide(seen))
