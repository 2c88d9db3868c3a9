"""Alibaba's 2025 trace of disaggregated recommendation models (DLRM, NSDI'25): instances with times.

One row is one instance: CPU in cores, memory and disk in GB (read as GiB), whole GPUs, RDMA as a percentage
of a node's network card (taken as 100 Gbit/s), times in seconds. Role HN runs on GPU nodes and CN on CPU
nodes; a node selector on the label `proreus.io/role` says so. Instances without a creation time were
running at the start and arrive at 0; without a deletion time they never leave. `max_instance_per_node`
equal to 1 becomes required anti-affinity within the application; Kubernetes cannot state other limits, so
they are ignored (the published file has -1, 2, 4, 8, 10 and 16, never 1). Scheduled times are not used.

The trace names no nodes: `dlrm_nodes` builds some. `catalogue` calls both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from proreus.data.table import TableRow, read_table
from proreus.model.node import HOSTNAME, Node
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod, PodAffinity, PodSpec, PodTerm
from proreus.model.resources import GIB, Resources
from proreus.model.selectors import match_labels

ROLE = "proreus.io/role"
GPU_ROLE, CPU_ROLE = "HN", "CN"
MBPS_PER_RDMA_PERCENT = 1_000

_MOST = 10**8  # cores, GB or GPUs: far beyond any machine, and safe to multiply
_COLUMNS = (
    "instance_sn",
    "role",
    "app_name",
    "cpu_request",
    "cpu_limit",
    "gpu_request",
    "gpu_limit",
    "rdma_request",
    "rdma_limit",
    "memory_request",
    "memory_limit",
    "disk_request",
    "disk_limit",
    "max_instance_per_node",
    "creation_time",
    "scheduled_time",
    "deletion_time",
)


def read_pods(path: Path) -> tuple[Pod, ...]:
    """The instances by arrival."""
    seen: set[str] = set()
    pods = []
    for row in read_table(path, required=_COLUMNS):
        name = row.text("instance_sn")
        if name in seen:
            raise row.fail("instance_sn", f"two instances are named {name!r}")
        seen.add(name)
        creation = row.optional_number("creation_time") or 0.0
        deletion = row.optional_number("deletion_time")
        if deletion is not None and deletion < creation:
            raise row.fail("deletion_time", f"the instance ends at {deletion:g}, before it starts")
        duration = math.inf if deletion is None else deletion - creation
        pods.append(Pod(name, _spec(row), creation, duration))
    return tuple(sorted(pods, key=lambda pod: pod.arrival))


def _spec(row: TableRow) -> PodSpec:
    role, app = row.text("role"), row.text("app_name")
    if role not in (GPU_ROLE, CPU_ROLE):
        raise row.fail("role", f"{role!r} is neither {GPU_ROLE} nor {CPU_ROLE}")
    gpus = row.integer("gpu_request", maximum=_MOST)
    labels = {"app": app}
    lone = row.integer("max_instance_per_node", minimum=-1) == 1
    return PodSpec(
        requests=Resources(
            cpu=_scaled(row, "cpu_request", 1000),
            memory=_scaled(row, "memory_request", GIB),
            ephemeral=_scaled(row, "disk_request", GIB),
            network=_scaled(row, "rdma_request", MBPS_PER_RDMA_PERCENT),
        ),
        gpu=GpuRequest(gpus, GPU_WHOLE) if gpus else GpuRequest(),
        labels=tuple(labels.items()),
        node_selector=((ROLE, role),),
        anti_affinity=PodAffinity(required=(PodTerm(match_labels(labels), HOSTNAME),) if lone else ()),
        cpu_limit=_scaled(row, "cpu_limit", 1000),
    )


def _scaled(row: TableRow, column: str, scale: int) -> int:
    value = row.number(column)
    if value > _MOST:
        raise row.fail(column, f"{value:g} is above {_MOST}")
    return math.ceil(value * scale)


@dataclass(frozen=True)
class _Shape:
    """The nodes of one role: all alike, and large enough for the largest instance of the published trace."""

    role: str
    allocatable: Resources
    gpus: int = 0


_SHAPES = (
    _Shape(
        GPU_ROLE,
        Resources(cpu=128_000, memory=1024 * GIB, ephemeral=4096 * GIB, pods=110, network=200_000),
        gpus=8,
    ),
    _Shape(
        CPU_ROLE,
        Resources(cpu=192_000, memory=1536 * GIB, ephemeral=4096 * GIB, pods=110, network=200_000),
    ),
)


def dlrm_nodes(pods: Sequence[Pod], load: float = 0.8) -> tuple[Node, ...]:
    """Nodes for these pods: of each role as many as make its scarcest resource `load` full at the peak.

    An assumption, not data: GPU nodes have 8 GPUs, 128 cores and 1 TiB; CPU nodes 192 cores and 1.5 TiB;
    both have 4 TiB of disk and 200 Gbit/s. The peak is that of the demand if every pod started on arrival.
    A role that no pod asks for gets no node.
    """
    return tuple(
        Node(
            name=f"{shape.role.lower()}-{index:04d}",
            allocatable=shape.allocatable,
            gpu_count=shape.gpus,
            labels=((ROLE, shape.role),),
        )
        for shape in _SHAPES
        for index in range(_nodes_needed(shape, pods, load))
    )


def _nodes_needed(shape: _Shape, pods: Sequence[Pod], load: float) -> int:
    chosen = [pod for pod in pods if (ROLE, shape.role) in pod.spec.node_selector]
    offered = shape.allocatable
    amounts: tuple[tuple[int, Callable[[Pod], int]], ...] = (
        (offered.cpu, lambda pod: pod.spec.requests.cpu),
        (offered.memory, lambda pod: pod.spec.requests.memory),
        (offered.ephemeral, lambda pod: pod.spec.requests.ephemeral),
        (offered.network, lambda pod: pod.spec.requests.network),
        (offered.pods, lambda pod: 1),
        (shape.gpus, lambda pod: pod.spec.gpu.count),
    )
    return max(math.ceil(_peak(chosen, asked) / (capacity * load)) for capacity, asked in amounts if capacity)


def _peak(pods: Sequence[Pod], asked: Callable[[Pod], int]) -> int:
    """The largest sum of `asked` over the pods that are there at one time."""
    level = peak = 0
    # At one instant departures (negative) come first: what leaves makes room for what arrives.
    for _, change in sorted(_changes(pods, asked)):
        level += change
        peak = max(peak, level)
    return peak


def _changes(pods: Sequence[Pod], asked: Callable[[Pod], int]) -> Iterator[tuple[float, int]]:
    for pod in pods:
        yield pod.arrival, asked(pod)
        if math.isfinite(pod.duration):
            yield pod.arrival + pod.duration, -asked(pod)
