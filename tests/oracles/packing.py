"""The packing rules, each as one obvious function over plain objects and exact fractions.

The formulas are those of section 5 of the fact sheet (FGD and its baselines) and of Volcano's binpack.
Higher is better; of equally good nodes the first wins.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod
from proreus.model.resources import CPU, MEMORY
from proreus.model.workload import Workload
from tests.oracles.kube_filters import first_failure
from tests.oracles.kube_state import ClusterState

Score = tuple[Fraction, ...]
"""Compared like a word: the first difference decides."""

COVERED_PERCENT = 95
LARGEST_NODE_GPUS = 8
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class TypicalPod:
    """A frequent demand and the share of the typical pods that have it."""

    cpu: int
    gpu: GpuRequest
    share: Fraction


def typical_pods(pods: Sequence[Pod]) -> list[TypicalPod]:
    """The most frequent (cpu, share of a device, devices, models) until 95 % of the pods are covered.

    Among equally frequent ones the smaller demand comes first.
    """
    times = Counter(
        (p.spec.requests.cpu, p.spec.gpu.milli, p.spec.gpu.count, p.spec.gpu.models) for p in pods
    )
    chosen = []
    covered = 0
    for demand in sorted(times, key=lambda demand: (-times[demand], demand)):
        if 100 * covered >= COVERED_PERCENT * len(pods):
            break
        chosen.append(demand)
        covered += times[demand]
    return [
        TypicalPod(cpu, GpuRequest(count, milli, models), Fraction(times[cpu, milli, count, models], covered))
        for cpu, milli, count, models in chosen
    ]


def can_host(node: Node, cpu_free: int, left: Sequence[int], typical: TypicalPod) -> bool:
    """Whether a node with so much left can run the typical pod on its GPUs."""
    gpu = typical.gpu
    return (
        gpu.count > 0
        and (not gpu.models or node.gpu_model in gpu.models)
        and typical.cpu <= cpu_free
        and sum(share >= gpu.milli for share in left) >= gpu.count
    )


def fragmentation(node: Node, cpu_free: int, left: Sequence[int], typical: Sequence[TypicalPod]) -> Fraction:
    """The milli-GPU that is idle and that a typical pod, on average, cannot use."""
    total = Fraction(0)
    for pod in typical:
        if can_host(node, cpu_free, left, pod):
            unusable = sum(share for share in left if share < pod.gpu.milli)
        else:
            unusable = sum(left)
        total += pod.share * unusable
    return total


class PackingOracle:
    """The packing rules over one workload; the cluster's state is passed to every question."""

    def __init__(self, workload: Workload) -> None:
        self.nodes = workload.nodes
        self.typical = typical_pods(workload.pods)
        self.largest_cpu = max(max(node.allocatable.cpu for node in workload.nodes), 1)
        self.largest_memory = max(max(node.allocatable.memory for node in workload.nodes), 1)
        self.largest_gpu = max(node.gpu_count for node in workload.nodes) * GPU_WHOLE

    def cpu_free(self, state: ClusterState, node: int) -> int:
        """CPU that nobody asked for."""
        return self.nodes[node].allocatable.cpu - state.requested(node).get(CPU, 0)

    def memory_free(self, state: ClusterState, node: int) -> int:
        """Memory that nobody asked for."""
        return self.nodes[node].allocatable.memory - state.requested(node).get(MEMORY, 0)

    def shares(self, state: ClusterState, pod: Pod, node: int) -> list[tuple[Fraction, Fraction]]:
        """(free, asked) as shares of the largest node: CPU, and GPU or, where no node has one, memory."""
        wanted = pod.spec.requests
        cpu = (
            Fraction(self.cpu_free(state, node), self.largest_cpu),
            Fraction(wanted.cpu, self.largest_cpu),
        )
        if self.largest_gpu:
            asked = pod.spec.gpu.count * pod.spec.gpu.milli
            left = sum(state.gpu_left(node))
            return [cpu, (Fraction(left, self.largest_gpu), Fraction(asked, self.largest_gpu))]
        free = self.memory_free(state, node)
        return [cpu, (Fraction(free, self.largest_memory), Fraction(wanted.memory, self.largest_memory))]

    def flat(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """Every node is as good as every other: first fit."""
        return (Fraction(0),)

    def best_fit(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """Least left over."""
        left = sum((HALF * (free - asked) for free, asked in self.shares(state, pod, node)), Fraction(0))
        return (Fraction(math.floor(100 * (1 - left))),)

    def worst_fit(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """Most left over."""
        left = sum((HALF * (free - asked) for free, asked in self.shares(state, pod, node)), Fraction(0))
        return (Fraction(math.floor(100 * left)),)

    def dot_prod(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """Least alignment of what is free with what is asked for."""
        product = sum((free * asked for free, asked in self.shares(state, pod, node)), Fraction(0))
        return (Fraction(math.floor(100 * (1 - product / 2))),)

    def gpu_packing(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """Shared devices, then idle devices of nodes in use, then nodes not in use; no GPU asked for: 0."""
        if pod.spec.gpu.count == 0:
            return (Fraction(0),)
        left = state.gpu_left(node)
        idle = left.count(GPU_WHOLE)
        if idle == len(left):
            return (Fraction(max(33 - idle, idle)),)
        taken = [left[device] for device in tightest(left, pod.spec.gpu)]
        opened = taken.count(GPU_WHOLE)
        if opened:
            return (Fraction(max(50 - opened, 33)),)
        percent = sum(share * 100 // GPU_WHOLE for share in taken)
        return (Fraction(max(100 - percent // 10, 50)),)

    def gpu_clustering(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """Nodes with pods of the same GPU kind only, then among others, then idle, then the rest."""
        if pod.spec.gpu.count == 0:
            return (Fraction(0),)
        whole = LARGEST_NODE_GPUS * GPU_WHOLE
        packed = 25 * (whole - sum(state.gpu_left(node))) // whole
        kinds = {gpu_kind(each.pod) for each in state.on_node(node) if each.pod.spec.gpu.count}
        if kinds == {gpu_kind(pod)}:
            return (Fraction(packed + 75),)
        if gpu_kind(pod) in kinds:
            return (Fraction(packed + 50),)
        return (Fraction(packed + 25 if not kinds else packed),)

    def fgd_by_devices(self, state: ClusterState, pod: Pod, node: int) -> dict[tuple[int, ...], int]:
        """The score of every set of devices that fragmentation gradient descent looks at."""
        machine, left, gpu = self.nodes[node], state.gpu_left(node), pod.spec.gpu
        cpu = self.cpu_free(state, node)
        before = fragmentation(machine, cpu, left, self.typical)
        if gpu.count == 1 and gpu.milli < GPU_WHOLE:
            fitting = [device for device, share in enumerate(left) if share >= gpu.milli]
            choices: list[tuple[int, ...]] = [(device,) for device in fitting]
        else:
            choices = [tightest(left, gpu)]
        scores = {}
        for devices in choices:
            then = [share - gpu.milli * (device in devices) for device, share in enumerate(left)]
            after = fragmentation(machine, cpu - pod.spec.requests.cpu, then, self.typical)
            scores[devices] = math.floor(100 / (1 + math.exp(-float(before - after) / 1000)))
        return scores

    def fgd(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """How much less GPU becomes unusable for typical pods."""
        return (Fraction(max(self.fgd_by_devices(state, pod, node).values())),)

    def binpack(self, state: ClusterState, pod: Pod, node: int) -> Score:
        """Mean share in use, the pod included, of what it asks for; of equals the node with most CPU."""
        machine, wanted = self.nodes[node], pod.spec.requests
        amounts = [
            (wanted.cpu, self.cpu_free(state, node), machine.allocatable.cpu),
            (wanted.memory, self.memory_free(state, node), machine.allocatable.memory),
            (
                pod.spec.gpu.count * pod.spec.gpu.milli,
                sum(state.gpu_left(node)),
                machine.gpu_count * GPU_WHOLE,
            ),
        ]
        shares = [Fraction(total - free + asked, total) for asked, free, total in amounts if asked]
        mean = 100 * sum(shares, Fraction(0)) / max(len(shares), 1)
        return (mean, Fraction(machine.allocatable.cpu))

    @property
    def scores(self) -> Mapping[str, Callable[[ClusterState, Pod, int], Score]]:
        """The rules by their name in the catalogue."""
        return {
            "first_fit": self.flat,
            "best_fit": self.best_fit,
            "worst_fit": self.worst_fit,
            "dot_prod": self.dot_prod,
            "gpu_packing": self.gpu_packing,
            "gpu_clustering": self.gpu_clustering,
            "fgd": self.fgd,
            "binpack": self.binpack,
        }

    def choose(self, rule: str, state: ClusterState, pod: Pod) -> tuple[int, int] | None:
        """(node, bit mask of devices) that the rule takes; None where no node may take the pod."""
        score = self.scores[rule]
        allowed = [n for n in range(len(self.nodes)) if first_failure(state, pod, n) is None]
        if not allowed:
            return None
        # max returns the first of equals.
        node = max(allowed, key=lambda n: score(state, pod, n))
        devices = tightest(state.gpu_left(node), pod.spec.gpu)
        if rule == "fgd" and pod.spec.gpu.count:
            by_devices = self.fgd_by_devices(state, pod, node)
            devices = max(by_devices, key=lambda each: by_devices[each])
        return node, device_mask(devices)


def tightest(left: Sequence[int], gpu: GpuRequest) -> tuple[int, ...]:
    """The devices with least left that is enough; of equals the lowest."""
    usable = sorted((share, device) for device, share in enumerate(left) if share >= gpu.milli)
    return tuple(device for _, device in usable[: gpu.count])


def device_mask(devices: Sequence[int]) -> int:
    """The devices as bits."""
    return sum(1 << device for device in devices)


def gpu_kind(pod: Pod) -> int:
    """0 for pods that share a device, else how many whole devices they ask for."""
    return 0 if pod.spec.gpu.milli < GPU_WHOLE else pod.spec.gpu.count
