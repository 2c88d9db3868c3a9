"""How much idle GPU on a node typical pods could not use (the FGD measure).

F = sum over typical pods m of p_m * x_m, where x_m is the idle share on devices too
small for m if the node can host m, and all idle share if it cannot. Typical pods that
want the same devices differ only in CPU, so they are grouped and their mass is read
off a cumulative table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.worlds.pods.state.columns import Cluster, Typical
from proreus.worlds.pods.state.demand import ResourceDemand, Wish

COVERED = 0.95


def typical_demand(demand: ResourceDemand, models: Sequence[str]) -> Typical:
    """The typical pods of a demand: the most frequent (cpu, share, devices, models), 95 % of all."""
    chosen: list[tuple[Wish, int]] = []
    covered = 0
    for wish, times in demand.wanted:
        if covered >= COVERED * demand.pods:
            break
        chosen.append((wish, times))
        covered += times

    groups: list[tuple[int, int, list[tuple[int, float]]]] = []
    model_start = [0]
    for model in (None, *models):  # None: a node without GPUs hosts no GPU pod
        hosted: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for (cpu, milli, count, allowed), times in chosen:
            if count and model is not None and (not allowed or model in allowed):
                hosted.setdefault((count, milli), []).append((cpu, times / covered))
        groups += [(count, milli, sorted(needs)) for (count, milli), needs in sorted(hosted.items())]
        model_start.append(len(groups))
    cpu_start = np.cumsum([0] + [len(needs) for _, _, needs in groups])
    return Typical(
        model_start=np.array(model_start, dtype=np.int64),
        num=np.array([count for count, _, _ in groups], dtype=np.int64),
        milli=np.array([milli for _, milli, _ in groups], dtype=np.int64),
        cpu_start=cpu_start.astype(np.int64),
        cpu=np.array([cpu for _, _, needs in groups for cpu, _ in needs], dtype=np.int64),
        mass=np.array(
            [m for _, _, needs in groups for m in np.cumsum([p for _, p in needs])], dtype=np.float64
        ),
    )


@compiled
def _room_for(typical: Typical, g: int, left: I64, count: int) -> tuple[int, int]:
    """(devices with room for a pod of group g, idle share on those without)."""
    fitting = 0
    too_small = 0
    for d in range(count):
        if left[d] >= typical.milli[g]:
            fitting += 1
        else:
            too_small += left[d]
    return fitting, too_small


@compiled
def _mass_within(typical: Typical, g: int, cpu_free: int) -> float:
    """Share of all pods that are in group g and need at most `cpu_free`."""
    low = typical.cpu_start[g]
    high = typical.cpu_start[g + 1]
    while low < high:
        middle = (low + high) >> 1
        if typical.cpu[middle] <= cpu_free:
            low = middle + 1
        else:
            high = middle
    return typical.mass[low - 1] if low > typical.cpu_start[g] else 0.0


@compiled
def node_fragment(typical: Typical, model: int, cpu_free: int, left: I64, count: int) -> float:
    """F of one node; left: int64[G], the first `count` devices are real."""
    idle = 0
    for d in range(count):
        idle += left[d]
    if idle == 0:
        return 0.0
    hosted = 0.0
    unusable = 0.0
    for g in range(typical.model_start[model + 1], typical.model_start[model + 2]):
        fitting, too_small = _room_for(typical, g, left, count)
        if fitting < typical.num[g]:
            continue
        mass = _mass_within(typical, g, cpu_free)
        hosted += mass
        unusable += mass * too_small
    return idle * (1.0 - hosted) + unusable


@compiled
def fill_fragments(cluster: Cluster, left: I64, fragment: F64) -> None:
    """fragment: float64[N], F of every node when nothing but `left`, int64[N, G], is taken from it."""
    nodes = cluster.nodes
    for n in range(fragment.shape[0]):
        fragment[n] = node_fragment(
            cluster.typical, nodes.gpu_model[n], nodes.allocatable[n, 0], left[n], nodes.gpu_count[n]
        )


@compiled
def fragment_causes(
    typical: Typical, model: int, cpu_free: int, left: I64, count: int
) -> tuple[float, float, float, float]:
    """F of one node and its parts: for lack of CPU, of enough fitting devices, of room on each device.

    What is in none of the three parts is idle share that no typical pod of this GPU model asks for.
    """
    idle = 0
    for d in range(count):
        idle += left[d]
    hosted = 0.0
    for_cpu = 0.0
    for_devices = 0.0
    for_room = 0.0
    for g in range(typical.model_start[model + 1], typical.model_start[model + 2]):
        fitting, too_small = _room_for(typical, g, left, count)
        whole = typical.mass[typical.cpu_start[g + 1] - 1]
        if fitting < typical.num[g]:
            for_devices += whole * idle
            continue
        mass = _mass_within(typical, g, cpu_free)
        hosted += mass
        for_cpu += (whole - mass) * idle
        for_room += mass * too_small
    return idle * (1.0 - hosted) + for_room, for_cpu, for_devices, for_room
