"""The encoding of the pods world: a plain reference over random histories, and cases worked out by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.decision import Place, Reject, from_action
from proreus.model.node import Node, Pace
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod
from proreus.model.resources import CPU, DISK, MEMORY, MIB, NETWORK, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.encoding.pair import (
    DEMAND_FIGURES,
    PAIR_FEATURES,
    POD_KINDS,
    cluster_scale,
    demand_context,
    encode_pair,
    pod_kind,
)
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.columns import State
from proreus.worlds.pods.state.compile import Compiled, compile_workload, empty_state
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.placement import place
from tests.oracles.kube_builders import node, pod
from tests.oracles.kube_state import ClusterState, Running
from tests.oracles.packing import TypicalPod, can_host, device_mask, fragmentation, tightest, typical_pods
from tests.worlds.pods.strategies import workloads

USUAL = settings(max_examples=80)
Number = float | Fraction


def asked(each: Pod) -> int:
    """Milli-GPU that a pod asks for."""
    return each.spec.gpu.count * each.spec.gpu.milli


def causes(
    machine: Node, cpu_free: int, left: Sequence[int], typical: Sequence[TypicalPod]
) -> tuple[Fraction, Fraction, Fraction]:
    """Idle milli-GPU that typical pods of this model cannot use: for lack of CPU, of devices, of room.

    A pod that lacks both CPU and devices counts as lacking devices.
    """
    for_cpu = for_devices = for_room = Fraction(0)
    for each in typical:
        gpu = each.gpu
        if gpu.count == 0 or (gpu.models and machine.gpu_model not in gpu.models):
            continue
        if can_host(machine, cpu_free, left, each):
            for_room += each.share * sum(share for share in left if share < gpu.milli)
        elif sum(share >= gpu.milli for share in left) < gpu.count:
            for_devices += each.share * sum(left)
        else:
            for_cpu += each.share * sum(left)
    return for_cpu, for_devices, for_room


class Reference:
    """Every feature from its description, over plain objects and, where it matters, exact fractions."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.typical = typical_pods(workload.pods)
        self.largest_cpu = max(max(each.allocatable.cpu for each in workload.nodes), 1)
        self.largest_gpu = max(each.gpu_count for each in workload.nodes) * GPU_WHOLE
        self.devices = sum(each.gpu_count for each in workload.nodes)
        gpu = sum(asked(each) for each in workload.pods)
        self.ratio = Fraction(sum(each.spec.requests.cpu for each in workload.pods), gpu) if gpu else None

    def devices_for(self, machine: Node, cpu_after: int, left: Sequence[int], gpu: GpuRequest) -> list[int]:
        """For a share the device that leaves least unusable, of equals the lowest; else the tightest."""
        if gpu.count == 1 and gpu.milli < GPU_WHOLE:
            fitting = [device for device, share in enumerate(left) if share >= gpu.milli]

            def unusable(device: int) -> Fraction:
                return fragmentation(machine, cpu_after, taken(left, [device], gpu.milli), self.typical)

            return [min(fitting, key=unusable)]
        return list(tightest(left, gpu))

    def encode(self, state: ClusterState, incoming: Pod, n: int) -> tuple[dict[str, Number], int]:
        """(features by name, device mask)."""
        gpu_features, mask = self.gpu(state, incoming, n)
        return {**self.plain(state, incoming, n), **gpu_features}, mask

    def plain(self, state: ClusterState, incoming: Pod, n: int) -> dict[str, Number]:
        """The features that do not look at GPUs."""
        machine, spec = self.workload.nodes[n], incoming.spec
        total, wanted, used = machine.allocatable, spec.requests, state.requested(n)
        there = [each.pod.spec for each in state.on_node(n)]
        cpu_left = total.cpu - used.get(CPU, 0) - wanted.cpu
        memory_left = total.memory - used.get(MEMORY, 0) - wanted.memory
        scored = [each.scored_requests() for each in (*there, spec)]
        bandwidth = [Fraction(1)]
        for name, want, have in (
            (NETWORK, wanted.network, total.network),
            (DISK, wanted.disk, total.disk),
        ):
            if want and have:
                bandwidth.append(Fraction(have - used.get(name, 0) - want, have))
        measured = sum(each.usage * each.requests.cpu for each in there)
        expected = spec.cpu_limit or 1.5 * wanted.cpu or 1000
        return {
            "cpu_left": Fraction(cpu_left, self.largest_cpu),
            "cpu_left_share": Fraction(cpu_left, max(total.cpu, 1)),
            "memory_left_share": Fraction(memory_left, max(total.memory, 1)),
            "cpu_memory_imbalance": abs(
                Fraction(cpu_left, max(total.cpu, 1)) - Fraction(memory_left, max(total.memory, 1))
            ),
            "cpu_capacity": Fraction(total.cpu, self.largest_cpu),
            "empty_node": float(not there),
            "lot": Fraction(n * 2654435761 % 2**32, 2**32),
            "order": 1 - Fraction(n, len(self.workload.nodes)),
            "least_allocated": (
                Fraction(total.cpu - sum(cpu for cpu, _ in scored), max(total.cpu, 1))
                + Fraction(total.memory - sum(memory for _, memory in scored), max(total.memory, 1))
            )
            / 2,
            "bandwidth_left": min(bandwidth),
            "measured_load": (measured + expected) / max(total.cpu, 1),
            "speed": machine.pace.speed,
        }

    def gpu(self, state: ClusterState, incoming: Pod, n: int) -> tuple[dict[str, Number], int]:
        """The features that look at GPUs, and the devices to take."""
        machine, gpu = self.workload.nodes[n], incoming.spec.gpu
        if machine.gpu_count == 0:
            return {**dict.fromkeys(GPU_FEATURES, 0.0), "fgd_score": 0.5}, 0
        cpu = machine.allocatable.cpu - state.requested(n).get(CPU, 0)
        cpu_after = cpu - incoming.spec.requests.cpu
        left = state.gpu_left(n)
        devices = self.devices_for(machine, cpu_after, left, gpu)
        then = taken(left, devices, gpu.milli)
        before = fragmentation(machine, cpu, left, self.typical)
        after = fragmentation(machine, cpu_after, then, self.typical)
        for_cpu, for_devices, for_room = (
            (a - b) / 1000
            for a, b in zip(
                causes(machine, cpu, left, self.typical),
                causes(machine, cpu_after, then, self.typical),
                strict=True,
            )
        )
        stranded = Fraction(0)
        if self.ratio:
            stranded = max(Fraction(0), sum(then) - cpu_after / self.ratio)
            stranded -= max(Fraction(0), sum(left) - cpu / self.ratio)
        cpu_share = Fraction(cpu_after, max(machine.allocatable.cpu, 1))
        gpu_share = Fraction(sum(then), machine.gpu_count * GPU_WHOLE)
        same_model = [each for each in self.workload.nodes if each.gpu_model == machine.gpu_model]
        return {
            "fragment_drop": (before - after) / 1000,
            "fgd_score": math.floor(100 / (1 + math.exp(-float(before - after) / 1000))) / 100,
            "fragment_drop_cpu": for_cpu,
            "fragment_drop_devices": for_devices,
            "fragment_drop_room": for_room,
            "usable_change": ((sum(then) - after) - (sum(left) - before)) / 1000,
            "stranded_change": stranded / 1000,
            "gpu_left": Fraction(sum(then), self.largest_gpu),
            "gpu_left_share": gpu_share,
            "cpu_gpu_imbalance": abs(cpu_share - gpu_share),
            "gpu_count": Fraction(machine.gpu_count * GPU_WHOLE, self.largest_gpu),
            "model_scarcity": 1 - Fraction(sum(each.gpu_count for each in same_model), self.devices),
            "opens_devices": Fraction(sum(left[d] == GPU_WHOLE for d in devices), max(gpu.count, 1)),
            "device_left": Fraction(sum(then[d] for d in devices), 1000),
            "exact_fit": float(gpu.count > 0 and all(then[d] == 0 for d in devices)),
            "free_devices": Fraction(then.count(GPU_WHOLE) * GPU_WHOLE, self.largest_gpu),
        }, device_mask(devices)


GPU_FEATURES = (
    "fragment_drop",
    "fgd_score",
    "fragment_drop_cpu",
    "fragment_drop_devices",
    "fragment_drop_room",
    "usable_change",
    "stranded_change",
    "gpu_left",
    "gpu_left_share",
    "cpu_gpu_imbalance",
    "gpu_count",
    "model_scarcity",
    "opens_devices",
    "device_left",
    "exact_fit",
    "free_devices",
)


def taken(left: Sequence[int], devices: Sequence[int], milli: int) -> list[int]:
    """What is left when `milli` of each of the devices is taken."""
    return [share - milli * (device in devices) for device, share in enumerate(left)]


def believed(observation: PodObservation) -> ClusterState:
    """What runs where, for the reference."""
    workload, state = observation.compiled.workload, observation.state
    cluster_state = ClusterState(workload.nodes)
    for p, n in enumerate(state.pod_node.tolist()):
        if n >= 0:
            mask = int(state.pod_devices[p])
            devices = tuple(d for d in range(mask.bit_length()) if mask >> d & 1)
            cluster_state.restore(Running(workload.pods[p], n, 0.0, int(state.pod_rank[p]), devices))
    return cluster_state


def encoded(compiled: Compiled, state: State, c: int, n: int) -> tuple[dict[str, float], int]:
    """(features by name, device mask) of the kernel; what it does not fill in is not a number."""
    out = np.full(len(PAIR_FEATURES), np.nan)
    mask = int(encode_pair(compiled.cluster, state, cluster_scale(compiled), c, n, out))
    return dict(zip(PAIR_FEATURES, out.tolist(), strict=True)), mask


def assert_equals_the_reference(
    reference: Reference, belief: ClusterState, observation: PodObservation, n: int
) -> None:
    """The kernel's features of the pod at hand on node n, and its devices."""
    features, mask = encoded(observation.compiled, observation.state, observation.pod_class, n)
    expected, devices = reference.encode(belief, observation.subject, n)
    assert features.keys() == expected.keys()
    wrong = {
        name: (value, expected[name])
        for name, value in features.items()
        if not math.isclose(value, expected[name], rel_tol=1e-9, abs_tol=1e-9)
    }
    assert wrong == {}
    assert mask == devices


def image(state: State) -> dict[str, bytes]:
    """Every bit of the state."""
    return {name: getattr(state, name).tobytes() for name in State._fields}


@USUAL
@given(workload=workloads(), seed=st.integers(0, 1000))
def test_features_equal_the_reference_and_leave_the_state_alone(workload: Workload, seed: int) -> None:
    """On every legal node at every decision of a history of random legal actions."""
    lot = random.Random(seed)
    reference, world = Reference(workload), PodsWorld(workload)
    nodes = len(workload.nodes)
    while (observation := world.next_decision()) is not None:
        belief, before = believed(observation), image(observation.state)
        legal = [action for action, allowed in enumerate(observation.action_mask().tolist()) if allowed]
        for n in (action for action in legal if action < nodes):
            assert_equals_the_reference(reference, belief, observation, n)
        after = image(observation.state)
        assert [name for name in before if before[name] != after[name]] == []
        busy = [action for action in legal if action < 2 * nodes]
        chosen = lot.choice(busy if busy and lot.random() < 0.9 else legal)
        world.apply(from_action(chosen, nodes))


@pytest.mark.parametrize("seed", range(6))
def test_features_equal_the_reference_on_devices_shared_at_random(seed: int) -> None:
    """Shares fall on any device that fits: the least fragmenting one is often not the tightest."""
    lot = random.Random(seed)
    nodes = tuple(node(f"n{i}", cpu=16_000, gpus=4, gpu_model=lot.choice(("A100", "T4"))) for i in range(3))
    menu = [(1, share) for share in (100, 200, 250, 300, 400, 500, 600, 900, 1000)] + [(2, 300), (2, 1000)]
    pods = tuple(pod(f"p{i}", cpu=lot.choice((250, 1000, 2000)), gpu=lot.choice(menu)) for i in range(40))
    workload = Workload("shares", nodes, pods)
    reference, world = Reference(workload), PodsWorld(workload)
    not_tightest = 0
    while (observation := world.next_decision()) is not None:
        belief, gpu = believed(observation), observation.subject.spec.gpu
        legal = np.flatnonzero(observation.refusals() == 0).tolist()
        for n in legal:
            assert_equals_the_reference(reference, belief, observation, n)
            left = belief.gpu_left(n)
            chosen = reference.encode(belief, observation.subject, n)[1]
            not_tightest += chosen != device_mask(tightest(left, gpu))
        if not legal:
            world.apply(Reject())
            continue
        n = lot.choice(legal)
        fitting = [device for device, share in enumerate(belief.gpu_left(n)) if share >= gpu.milli]
        world.apply(Place(n, device_mask(lot.sample(fitting, gpu.count))))
    assert not_tightest > 0


@USUAL
@given(workload=workloads())
def test_figures_of_the_whole_workload_equal_the_reference(workload: Workload) -> None:
    compiled, reference = compile_workload(workload), Reference(workload)
    models = sorted({each.gpu_model for each in workload.nodes if each.gpu_count})
    shares = [
        Fraction(sum(each.gpu_count for each in workload.nodes if each.gpu_model == model), reference.devices)
        for model in models
    ]
    scale = [reference.largest_cpu, max(reference.largest_gpu, 1), reference.ratio or 0, *shares]
    assert cluster_scale(compiled) == pytest.approx([float(each) for each in scale])

    gpu = sum(asked(each) for each in workload.pods)
    context = [Fraction(0)] * 4
    if gpu and reference.devices:
        demand = Fraction(gpu, reference.devices * GPU_WHOLE)
        sharing = [each for each in workload.pods if each.spec.gpu.milli < GPU_WHOLE]
        several = [each for each in workload.pods if asked(each) > GPU_WHOLE and each not in sharing]
        context = [
            relative(workload, "cpu") / demand,
            relative(workload, "memory") / demand,
            Fraction(sum(asked(each) for each in sharing), gpu),
            Fraction(sum(asked(each) for each in several), gpu),
        ]
    assert demand_context(compiled) == pytest.approx([float(each) for each in context])


def relative(workload: Workload, resource: str) -> Fraction:
    """What all pods ask for as a share of what all nodes have."""

    def total(amounts: Sequence[Resources]) -> int:
        return sum(each.cpu if resource == "cpu" else each.memory for each in amounts)

    wanted = total([each.spec.requests for each in workload.pods])
    return Fraction(wanted, total([each.allocatable for each in workload.nodes]))


# --- worked out by hand ---

BIG = node("big", cpu=8000, memory=8000, gpus=4, gpu_model="T4")
SMALL = node("small", cpu=4000, memory=8000, gpus=2, gpu_model="A100")
PLAIN = node("plain", cpu=2000, memory=4000)
Placed = Sequence[tuple[Pod, int, int]]


def pairs(nodes: Sequence[Node], placed: Placed, incoming: Pod) -> list[tuple[dict[str, float], int]]:
    """The encoding of `incoming` on every node, with pods placed as (pod, node, devices)."""
    compiled = compile_workload(Workload("case", tuple(nodes), (*(each for each, _, _ in placed), incoming)))
    state = empty_state(compiled.cluster)
    for p, (_, n, devices) in enumerate(placed):
        place(compiled.cluster, state, p, n, devices, 0.0)
    c = int(compiled.cluster.pod_class[len(placed)])
    return [encoded(compiled, state, c, n) for n in range(len(nodes))]


def assert_features(features: Mapping[str, float], **expected: float) -> None:
    """The features named have these values."""
    assert {name: features[name] for name in expected} == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_what_is_left_by_hand() -> None:
    """2 cores, 2000 MiB and a device, on two empty nodes."""
    (big, _), (small, _) = pairs((BIG, SMALL), (), pod(cpu=2000, memory=2000, gpu=(1, 1000)))
    assert_features(
        big,
        cpu_left=6 / 8,
        cpu_left_share=6 / 8,
        memory_left_share=6 / 8,
        cpu_memory_imbalance=0,
        gpu_left=3 / 4,
        gpu_left_share=3 / 4,
        cpu_gpu_imbalance=0,
        gpu_count=1,
        cpu_capacity=1,
        model_scarcity=1 - 4 / 6,
        opens_devices=1,
        device_left=0,
        exact_fit=1,
        empty_node=1,
        free_devices=3 / 4,
        lot=0,
        order=1,
        least_allocated=6 / 8,
        bandwidth_left=1,
        measured_load=3000 / 8000,
        speed=1,
    )
    assert_features(
        small,
        cpu_left=2 / 8,
        cpu_left_share=2 / 4,
        memory_left_share=6 / 8,
        cpu_memory_imbalance=1 / 4,
        gpu_left=1 / 4,
        gpu_left_share=1 / 2,
        gpu_count=2 / 4,
        cpu_capacity=4 / 8,
        model_scarcity=1 - 2 / 6,
        free_devices=1 / 4,
        lot=2654435761 / 2**32,
        order=1 / 2,
        least_allocated=(2 / 4 + 6 / 8) / 2,
    )


def test_stranded_gpu_by_hand() -> None:
    """All pods together ask for 3 milli-cores per milli-GPU. An empty `small` has 4000 and 2000: 4000 / 3
    of the GPU can be served, 2000 / 3 is stranded. The pod takes 1000 milli-cores and a device: of the 3000
    and 1000 that are left none is stranded. A pod that takes CPU alone strands more.
    """
    demand = [(pod("x", cpu=5000, gpu=(1, 1000)), 0, 1)]
    (_, (small, _)) = pairs((BIG, SMALL), demand, pod(cpu=1000, gpu=(1, 1000)))
    assert_features(small, stranded_change=-2 / 3)
    # Now 3000 milli-cores for 1000 milli-GPU again; `small`: 2000 - 4000 / 3, then 2000 - 3000 / 3.
    demand = [(pod("x", cpu=2000, gpu=(1, 1000)), 0, 1)]
    (_, (small, _)) = pairs((BIG, SMALL), demand, pod(cpu=1000))
    assert_features(small, stranded_change=1 / 3, usable_change=0, device_left=0, exact_fit=0)


def test_fragmentation_and_its_causes_by_hand() -> None:
    """Half of the pods want 500 milli and 1 core, half a device and 3 cores; `small` is empty.

    Before: everybody can use everything, F = 0. After 500 on one device [500, 1000] and 3 cores are left:
    the whole-device pod cannot use 500, F = 1/2 * 500 for lack of room.
    """
    other = (pod("x", cpu=3000, gpu=(1, 1000)), 0, 1)
    (_, (small, mask)) = pairs((BIG, SMALL), [other], pod(cpu=1000, gpu=(1, 500)))
    assert mask == 0b01
    assert_features(
        small,
        fragment_drop=-0.25,
        fgd_score=math.floor(100 / (1 + math.exp(0.25))) / 100,
        fragment_drop_cpu=0,
        fragment_drop_devices=0,
        fragment_drop_room=-0.25,
        usable_change=-0.5 - 0.25,
        opens_devices=1,
        device_left=0.5,
        exact_fit=0,
    )
    # The other one after its twin: [1000, 1000], 4 cores -> [0, 1000], 1 core: it could not come again.
    (_, (small, _)) = pairs((BIG, SMALL), [(pod("x", cpu=1000, gpu=(1, 500)), 0, 1)], other[0])
    assert_features(small, fragment_drop=-0.5, fragment_drop_cpu=-0.5, fragment_drop_room=0)


def test_lack_of_devices_by_hand() -> None:
    """Everybody wants two devices; after a pair is taken from three, the third is of no use to anyone."""
    three = node("three", gpus=3, gpu_model="T4")
    [(features, mask)] = pairs((three,), (), pod(gpu=(2, 1000)))
    assert mask == 0b011
    assert_features(
        features, fragment_drop=-1, fragment_drop_devices=-1, fragment_drop_cpu=0, fragment_drop_room=0
    )


def test_a_share_goes_to_the_least_fragmenting_device_and_not_to_the_tightest() -> None:
    """Devices with 700, 600 and 1000 left: 400 goes to the idle one."""
    held = [
        (pod("x", gpu=(1, 300)), 0, 0b001),
        (pod("y", gpu=(1, 400)), 0, 0b010),
        *((pod(f"z{i}", gpu=(1, 300)), 1, 1 << i) for i in range(3)),
    ]
    machines = (node("a", gpus=3, gpu_model="T4"), node("b", gpus=3, gpu_model="T4"))
    (features, mask), _ = pairs(machines, held, pod("incoming", gpu=(1, 400)))
    # Typical: 300 with share 4/6, 400 with 2/6. [700, 600, 1000]: nothing is too small, F = 0.
    # 400 on 700 leaves 300, too small for 400: F = 100. On 600 it leaves 200, of no use to anyone: 200. On
    # 1000 it leaves 600: F = 0.
    assert mask == 0b100
    assert_features(features, fragment_drop=0, opens_devices=1, device_left=0.6)


def test_several_devices_are_the_tightest_that_fit() -> None:
    held = [(pod("x", gpu=(1, 300)), 0, 0b0010), (pod("y", gpu=(1, 600)), 0, 0b1000)]
    [(features, mask)] = pairs((BIG,), held, pod("incoming", gpu=(2, 400)))
    # Left: 1000, 700, 1000, 400. Taken: 400 and 700, leaving 0 and 300.
    assert mask == 0b1010
    assert_features(features, opens_devices=0, device_left=0.3, exact_fit=0, free_devices=2 / 4, empty_node=0)


def test_a_node_without_gpus_has_no_gpu_features() -> None:
    (_, (plain, mask)) = pairs((BIG, PLAIN), (), pod(cpu=500))
    assert mask == 0
    assert_features(plain, **{**dict.fromkeys(GPU_FEATURES, 0.0), "fgd_score": 0.5})


def test_gpus_without_a_model_are_a_model_of_their_own() -> None:
    nameless = node("nameless", gpus=2)
    (_, (features, mask)) = pairs((BIG, nameless), (), pod(gpu=(1, 1000)))
    assert mask == 0b01
    assert_features(features, model_scarcity=1 - 2 / 6, fragment_drop=0, usable_change=-1)


def test_bandwidth_is_the_scarcer_of_those_asked_for() -> None:
    machine = node("n", network=1000, disk=500)
    [(features, _)] = pairs((machine,), [(pod("x", network=400, disk=100), 0, 0)], pod(network=100, disk=300))
    assert_features(features, bandwidth_left=100 / 500)
    [(features, _)] = pairs((machine,), [(pod("x", disk=400), 0, 0)], pod(network=100))
    assert_features(features, bandwidth_left=900 / 1000)


def test_load_scores_and_speed_count_what_kube_and_trimaran_count() -> None:
    """Unstated requests: 100m and 200 MiB for the score, one core for the load; measured: 30 % of 2 cores."""
    machine = replace(node("n", cpu=4000, memory=1000), pace=Pace(speed=2.0))
    running = pod("x", cpu=2000, memory=100)
    running = replace(running, spec=replace(running.spec, usage=0.3))
    [(features, _)] = pairs((machine,), [(running, 0, 0)], pod())
    cpu, memory = (4000 - 2000 - 100) / 4000, (1000 - 100 - 200) / 1000
    assert_features(features, least_allocated=(cpu + memory) / 2, measured_load=1600 / 4000, speed=2.0)


def test_cluster_scale_by_hand() -> None:
    """Models in alphabetical order: 2 of 6 GPUs are A100, 4 are T4. 4500 milli-cores for 1500 milli-GPU."""
    pods = (pod("a", cpu=3000, gpu=(1, 1000)), pod("b", cpu=500, gpu=(1, 500)), pod("c", cpu=1000))
    compiled = compile_workload(Workload("w", (BIG, SMALL, PLAIN), pods))
    assert cluster_scale(compiled) == pytest.approx([8000, 4000, 3, 2 / 6, 4 / 6])
    without = compile_workload(Workload("w", (PLAIN,), (pod("c", cpu=1000),)))
    assert cluster_scale(without).tolist() == [2000, 1, 0]


def test_demand_context_by_hand() -> None:
    """5000 of 6000 milli-GPU: 500 shared, 1000 whole, 3500 in several, of which 500 is two shares.

    7000 of 14000 milli-cores: 1/2 of the CPU for 5/6 of the GPU. 5000 of 20000 MiB: 1/4.
    """
    pods = (
        pod("a", cpu=4000, memory=1000, gpu=(1, 500)),
        pod("b", cpu=1000, gpu=(1, 1000)),
        pod("c", cpu=1000, memory=4000, gpu=(3, 1000)),
        pod("d", cpu=500, gpu=(2, 250)),
        pod("e", cpu=500),
    )
    compiled = compile_workload(Workload("w", (BIG, SMALL, PLAIN), pods))
    assert len(DEMAND_FIGURES) == 4
    assert demand_context(compiled) == pytest.approx([1 / 2 * 6 / 5, 1 / 4 * 6 / 5, 1 / 5, 3 / 5])
    assert [POD_KINDS[pod_kind(compiled.cluster, c)] for c in range(len(compiled.specs))] == [
        "shares_gpu",
        "whole_gpu",
        "several_gpus",
        "shares_gpu",
        "cpu_only",
    ]


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [((PLAIN,), (pod("a", cpu=100, gpu=(1, 500)),)), ((BIG,), (pod("a", cpu=100),))],
    ids=["no GPU there", "no GPU asked for"],
)
def test_demand_context_without_gpus_is_zero(nodes: tuple[Node, ...], pods: tuple[Pod, ...]) -> None:
    assert demand_context(compile_workload(Workload("w", nodes, pods))).tolist() == [0.0] * 4


def test_memory_of_the_builders_is_in_mib() -> None:
    """The figures above rely on it."""
    assert BIG.allocatable.memory == 8000 * MIB
