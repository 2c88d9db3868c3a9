"""The encoding of the pods world: features of one (pod class, node) pair, and of the pod itself.

Pair features describe the node as it would be with the pod on it. They depend on the class and on the
node's own state alone, so they can be cached and computed again only for nodes that changed. The scores
of the strongest rules are among them: the best rule is inside the hypothesis space and learning starts
from it.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.devices import devices_fit, tightest_devices
from proreus.worlds.pods.state.fragmentation import fragment_causes, node_fragment

VERSION = "pods-1"

PAIR_FEATURES = (
    "fragment_drop",  # how much less GPU share is unusable to typical pods, in GPUs
    "fgd_score",  # FGD's published whole-number score, / 100
    "fragment_drop_cpu",  # the part of the change that is for lack of CPU
    "fragment_drop_devices",  # for lack of enough fitting devices
    "fragment_drop_room",  # for lack of room on each device
    "usable_change",  # change of the GPU share that typical pods can use, in GPUs
    "stranded_change",  # change of GPU share that the node's CPU cannot serve at the cluster's mean ratio
    "cpu_left",  # after placement, share of the largest node
    "cpu_left_share",  # after placement, share of this node
    "memory_left_share",
    "gpu_left",  # after placement, share of the largest node
    "gpu_left_share",  # after placement, share of this node
    "cpu_gpu_imbalance",  # |share of CPU left - share of GPU left|
    "cpu_memory_imbalance",
    "gpu_count",  # of the node, relative to the largest
    "cpu_capacity",
    "model_scarcity",  # 1 - share of the cluster's GPUs that are of the node's model
    "opens_devices",  # whole devices taken that were untouched, per device asked for
    "device_left",  # GPU share left on the devices taken
    "exact_fit",  # nothing is left on the devices taken
    "empty_node",  # nothing runs there yet
    "free_devices",  # untouched devices after placement, relative to the largest node
    "lot",  # a fixed random number per node: a learned tie-break
    "order",  # earlier nodes first, as in ordered ties
    "least_allocated",  # kube's NodeResourcesFit, / 100
    "bandwidth_left",  # scarcer of network and disk, after placement
    "measured_load",  # expected CPU load after placement
    "speed",  # of the node
)
(
    FRAGMENT_DROP,
    FGD_SCORE,
    DROP_CPU,
    DROP_DEVICES,
    DROP_ROOM,
    USABLE_CHANGE,
    STRANDED_CHANGE,
    CPU_LEFT,
    CPU_LEFT_SHARE,
    MEMORY_LEFT_SHARE,
    GPU_LEFT,
    GPU_LEFT_SHARE,
    CPU_GPU_IMBALANCE,
    CPU_MEMORY_IMBALANCE,
    GPU_COUNT,
    CPU_CAPACITY,
    MODEL_SCARCITY,
    OPENS_DEVICES,
    DEVICE_LEFT,
    EXACT_FIT,
    EMPTY_NODE,
    FREE_DEVICES,
    LOT,
    ORDER,
    LEAST_ALLOCATED,
    BANDWIDTH_LEFT,
    MEASURED_LOAD,
    SPEED,
) = range(len(PAIR_FEATURES))

# Pods differ in kind first: what they do to GPUs decides what a good node is.
POD_KINDS = ("cpu_only", "shares_gpu", "whole_gpu", "several_gpus")

# What `demand_context` holds.
DEMAND_FIGURES = ("cpu_per_gpu", "memory_per_gpu", "shared_gpu", "several_gpus")

# What `cluster_scale` holds.
SCALE_CPU, SCALE_GPU, SCALE_CPU_PER_GPU, SCALE_MODELS = range(4)  # one entry per model from SCALE_MODELS on


def cluster_scale(compiled_workload: Compiled) -> F64:
    """Figures of the whole cluster that pair features are measured against.

    float64[3 + models]: the largest node's CPU and GPU milli, CPU milli per GPU milli that the
    workload asks for, then the share of the cluster's GPUs per model.
    """
    nodes, demand = compiled_workload.cluster.nodes, compiled_workload.demand
    devices = max(float(nodes.gpu_count.sum()), 1.0)
    shares = [
        float(nodes.gpu_count[nodes.gpu_model == m].sum()) / devices
        for m in range(len(compiled_workload.models))
    ]
    largest_gpu = float(nodes.gpu_count.max(initial=0)) * GPU_WHOLE
    return np.array(
        [
            max(float(nodes.allocatable[:, 0].max()), 1.0),
            max(largest_gpu, 1.0),
            demand.cpu / demand.gpu if demand.gpu else 0.0,
            *shares,
        ]
    )


@compiled
def pod_kind(cluster: Cluster, c: int) -> int:
    """The place in POD_KINDS of class c."""
    return min(cluster.classes.gpu_kind[c] + 1, 3)


def demand_context(compiled_workload: Compiled) -> F64:
    """float64[4]: what the workload asks of this cluster, for scorers whose weights depend on it.

    CPU and memory asked for per unit of GPU asked for, relative to what the cluster has; the share of
    GPU demand that shares devices; the share that takes several. All zero without GPUs.
    """
    nodes, demand = compiled_workload.cluster.nodes, compiled_workload.demand
    supply = float(nodes.gpu_count.sum()) * GPU_WHOLE
    if demand.gpu == 0 or supply == 0:
        return np.zeros(4)
    per_gpu = supply / demand.gpu
    all_cpu, all_memory = (max(float(nodes.allocatable[:, r].sum()), 1.0) for r in (0, 1))  # may be 0
    cpu, memory = demand.cpu / all_cpu * per_gpu, demand.memory / all_memory * per_gpu
    shared = demand.shared_gpu / demand.gpu
    several = demand.several_gpu / demand.gpu
    return np.array([cpu, memory, shared, several])


@compiled
def encode_pair(cluster: Cluster, state: State, scale: F64, c: int, n: int, out: F64) -> int:
    """Fill out: float64[features] for class c on node n; returns the device mask.

    Where the pod would fit only after an eviction, what is left is negative by as much as is missing, and
    the mask is 0.
    """
    classes, nodes = cluster.classes, cluster.nodes
    allocatable, free = nodes.allocatable[n], state.free[n]
    request = classes.request[c]
    cpu_left = free[0] - request[0]
    memory_left = free[1] - request[1]
    cpu_share = cpu_left / max(allocatable[0], 1)
    memory_share = memory_left / max(allocatable[1], 1)
    out[CPU_LEFT] = cpu_left / scale[SCALE_CPU]
    out[CPU_LEFT_SHARE] = cpu_share
    out[MEMORY_LEFT_SHARE] = memory_share
    out[CPU_MEMORY_IMBALANCE] = abs(cpu_share - memory_share)
    out[CPU_CAPACITY] = allocatable[0] / scale[SCALE_CPU]
    out[EMPTY_NODE] = 1.0 if state.first[n] < 0 else 0.0
    out[LOT] = ((n * 2654435761) % 4294967296) / 4294967296.0
    out[ORDER] = 1.0 - n / state.first.shape[0]
    out[LEAST_ALLOCATED] = 0.5 * (
        (allocatable[0] - state.scored[n, 0] - classes.scoring[c, 0]) / max(allocatable[0], 1)
        + (allocatable[1] - state.scored[n, 1] - classes.scoring[c, 1]) / max(allocatable[1], 1)
    )
    bandwidth = 1.0
    for r in (4, 5):  # network, disk
        if request[r] > 0 and allocatable[r] > 0:
            bandwidth = min(bandwidth, (free[r] - request[r]) / allocatable[r])
    out[BANDWIDTH_LEFT] = bandwidth
    out[MEASURED_LOAD] = (state.load[n, 0] + classes.load_guess[c]) / max(allocatable[0], 1)
    out[SPEED] = nodes.pace[n, 0]
    return _encode_gpu(cluster, state, scale, (c, n), out)


@compiled
def _encode_gpu(cluster: Cluster, state: State, scale: F64, pair: tuple[int, int], out: F64) -> int:
    """The features that look at GPUs; zero on nodes without any."""
    c, n = pair
    nodes = cluster.nodes
    count = nodes.gpu_count[n]
    if count == 0:
        out[FRAGMENT_DROP : STRANDED_CHANGE + 1] = 0.0
        out[FGD_SCORE] = 0.5
        out[GPU_LEFT] = 0.0
        out[GPU_LEFT_SHARE] = 0.0
        out[CPU_GPU_IMBALANCE] = 0.0
        out[GPU_COUNT : GPU_COUNT + 1] = 0.0
        out[MODEL_SCARCITY : EXACT_FIT + 1] = 0.0
        out[FREE_DEVICES] = 0.0
        return 0
    num, milli = cluster.classes.gpu_num[c], cluster.classes.gpu_milli[c]
    model = nodes.gpu_model[n]
    left = state.gpu_left[n]
    cpu_before = state.free[n, 0]
    cpu_after = cpu_before - cluster.classes.request[c, 0]
    idle_before = 0
    for d in range(count):
        idle_before += left[d]
    before = fragment_causes(cluster.typical, model, cpu_before, left, count)
    mask, opened = _devices_for(cluster, state, (c, n), cpu_after)
    device_left = 0
    for d in range(count):
        if (mask >> d) & 1:
            left[d] -= milli
            device_left += left[d]
    after = fragment_causes(cluster.typical, model, cpu_after, left, count)
    untouched = 0
    for d in range(count):
        if left[d] == 1000:
            untouched += 1
        if (mask >> d) & 1:
            left[d] += milli
    idle_after = idle_before - num * milli

    out[FRAGMENT_DROP] = (before[0] - after[0]) / 1000.0
    out[FGD_SCORE] = np.floor(100.0 / (1.0 + np.exp(-(before[0] - after[0]) / 1000.0))) / 100.0
    out[DROP_CPU] = (before[1] - after[1]) / 1000.0
    out[DROP_DEVICES] = (before[2] - after[2]) / 1000.0
    out[DROP_ROOM] = (before[3] - after[3]) / 1000.0
    out[USABLE_CHANGE] = ((idle_after - after[0]) - (idle_before - before[0])) / 1000.0
    ratio = scale[SCALE_CPU_PER_GPU]
    if ratio > 0.0:
        stranded_after = max(0.0, idle_after - cpu_after / ratio)
        stranded_before = max(0.0, idle_before - cpu_before / ratio)
        out[STRANDED_CHANGE] = (stranded_after - stranded_before) / 1000.0
    else:
        out[STRANDED_CHANGE] = 0.0
    share = idle_after / (1000.0 * count)
    out[GPU_LEFT] = idle_after / scale[SCALE_GPU]
    out[GPU_LEFT_SHARE] = share
    out[CPU_GPU_IMBALANCE] = abs(out[CPU_LEFT_SHARE] - share)
    out[GPU_COUNT] = 1000.0 * count / scale[SCALE_GPU]
    out[MODEL_SCARCITY] = 1.0 - scale[SCALE_MODELS + model]
    out[OPENS_DEVICES] = opened / max(num, 1)
    out[DEVICE_LEFT] = device_left / 1000.0
    out[EXACT_FIT] = 1.0 if num > 0 and device_left == 0 else 0.0
    out[FREE_DEVICES] = 1000.0 * untouched / scale[SCALE_GPU]
    return mask


@compiled
def _devices_for(cluster: Cluster, state: State, pair: tuple[int, int], cpu_after: int) -> tuple[int, int]:
    """(device mask, untouched devices in it): for a share the least fragmenting device, else the tightest."""
    c, n = pair
    num, milli = cluster.classes.gpu_num[c], cluster.classes.gpu_milli[c]
    count = cluster.nodes.gpu_count[n]
    left = state.gpu_left[n]
    if num == 0 or not devices_fit(left, count, num, milli):
        return 0, 0
    mask = 0
    if num == 1 and milli < 1000:
        least = np.inf
        for d in range(count):
            if left[d] < milli:
                continue
            repeated = False
            for other in range(d):
                if left[other] == left[d]:
                    repeated = True
            if repeated:
                continue
            left[d] -= milli
            fragment = node_fragment(cluster.typical, cluster.nodes.gpu_model[n], cpu_after, left, count)
            left[d] += milli
            if fragment < least - 1e-9:
                least, mask = fragment, 1 << d
    else:
        mask = tightest_devices(left, count, num, milli)
    opened = 0
    for d in range(count):
        if (mask >> d) & 1 and left[d] == 1000:
            opened += 1
    return mask, opened
