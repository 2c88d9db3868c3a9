"""The features of one class on a block of BN nodes, in double precision: `encoding.pair` for one lane."""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.model.resources import COL_DISK, COL_NETWORK
from proreus.worlds.pods.encoding import pair as p
from proreus.worlds.pods.training.device.fused.gpus import GPU_FEATURES, gpu_features

_NETWORK, _DISK = tl.constexpr(COL_NETWORK), tl.constexpr(COL_DISK)
_NODE_FEATURES = (
    p.CPU_LEFT,
    p.CPU_LEFT_SHARE,
    p.MEMORY_LEFT_SHARE,
    p.CPU_MEMORY_IMBALANCE,
    p.CPU_CAPACITY,
    p.EMPTY_NODE,
    p.LOT,
    p.ORDER,
    p.LEAST_ALLOCATED,
    p.BANDWIDTH_LEFT,
    p.MEASURED_LOAD,
    p.SPEED,
)
"""Places of what `_node_features` returns."""
# For each place of the encoding, in its order: where it stands among one and the other; -1: it does not.
_OF_NODE = tl.constexpr(
    tuple(_NODE_FEATURES.index(k) if k in _NODE_FEATURES else -1 for k in range(len(p.PAIR_FEATURES)))
)
_OF_GPU = tl.constexpr(
    tuple(GPU_FEATURES.index(k) if k in GPU_FEATURES else -1 for k in range(len(p.PAIR_FEATURES)))
)
_FGD_SCORE = tl.constexpr(p.FGD_SCORE)


@triton.jit
def block_features(w, s, e, c, n):
    """(features float64[BN], in the order of the encoding; devices taken, bit masks; fragmentation now)."""
    is_node = n < s.nodes
    of_node = _node_features(w, s, e, c, n)
    none = of_node[0] * 0.0
    devices = n.to(tl.int64) * 0
    fragmented = none
    features = ()
    if s.gpus > 0:
        of_gpus, devices, fragmented = gpu_features(w, s, e, c, n)
        has = tl.load(w.of.gpu_count + e * s.nodes + n, is_node, other=0) > 0
    for place in tl.static_range(s.features):
        if _OF_NODE[place] >= 0:
            feature = of_node[_OF_NODE[place]]
        else:
            # FGD's score of a node whose GPUs stay as they are.
            without = none + 0.5 if place == _FGD_SCORE else none
            feature = tl.where(has, of_gpus[_OF_GPU[place]], without) if s.gpus > 0 else without
        features = features + (feature,)  # noqa: RUF005 (Triton knows no unpacking)
    return features, devices, fragmented


@triton.jit
def _node_features(w, s, e, c, n):
    """What is true of nodes with and without GPUs."""
    is_node = n < s.nodes
    at_node = e * s.nodes + n
    at_free, at_class = at_node * s.resources, c * s.resources
    largest = tl.load(w.of.scale + e * 3)
    all_cpu = tl.load(w.of.allocatable + at_free, is_node, other=1)
    all_memory = tl.load(w.of.allocatable + at_free + 1, is_node, other=1)
    whole_cpu, whole_memory = tl.maximum(all_cpu, 1).to(tl.float64), tl.maximum(all_memory, 1).to(tl.float64)
    asked_cpu = tl.load(w.classes.request + at_class)
    asked_memory = tl.load(w.classes.request + at_class + 1)
    cpu_after = tl.load(w.nodes.free + at_free, is_node, other=0) - asked_cpu
    memory_after = tl.load(w.nodes.free + at_free + 1, is_node, other=0) - asked_memory
    cpu, memory = cpu_after.to(tl.float64) / whole_cpu, memory_after.to(tl.float64) / whole_memory
    scored_cpu = tl.load(w.nodes.scored + at_node * 2, is_node, other=0)
    scored_memory = tl.load(w.nodes.scored + at_node * 2 + 1, is_node, other=0)
    scored_cpu = all_cpu - scored_cpu - tl.load(w.classes.scoring + c * 2)
    scored_memory = all_memory - scored_memory - tl.load(w.classes.scoring + c * 2 + 1)
    unscored = scored_cpu.to(tl.float64) / whole_cpu + scored_memory.to(tl.float64) / whole_memory
    bandwidth = cpu * 0.0 + 1.0
    for r in tl.static_range(_NETWORK, _DISK + 1):
        asked = tl.load(w.classes.request + at_class + r)
        there = tl.load(w.of.allocatable + at_free + r, is_node, other=0)
        rest = (tl.load(w.nodes.free + at_free + r, is_node, other=0) - asked).to(tl.float64)
        rest = rest / tl.maximum(there, 1).to(tl.float64)
        bandwidth = tl.where((asked > 0) & (there > 0), tl.minimum(bandwidth, rest), bandwidth)
    load = tl.load(w.nodes.load + at_node, is_node, other=0.0) + tl.load(w.classes.load_guess + c)
    pods = tl.load(w.nodes.pods + at_node, is_node, other=0)
    return (
        cpu_after.to(tl.float64) / largest,
        cpu,
        memory,
        tl.abs(cpu - memory),
        all_cpu.to(tl.float64) / largest,
        tl.where(pods == 0, 1.0, cpu * 0.0),
        tl.load(w.lot + n, is_node, other=0.0),
        tl.load(w.of.order + at_node, is_node, other=0.0),
        0.5 * unscored,
        bandwidth,
        load / whole_cpu,
        tl.load(w.of.pace + at_node * 2, is_node, other=0.0),
    )
