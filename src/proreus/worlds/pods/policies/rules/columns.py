"""A rule as columns: which one, how ties fall, its weights, its random state and its memory."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.structs import packable
from proreus.worlds.pods.policies.rules.memory import Memory

# Kinds of rule.
FLAT, BEST_FIT, WORST_FIT, DOT_PRODUCT, GPU_PACKING, GPU_CLUSTERING, FGD, BINPACK, KUBE, LINEAR = range(10)

# How ties between equally good nodes fall.
ORDERED, RANDOM, ROTATING, HEAP = range(4)

# How NodeResourcesFit scores.
LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY = range(3)

# Score plugins of kube and kube_plus, in the order of `PodRule.weights` and the rows of `PodRule.parts`.
PLUGINS = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "GpuFragmentation",
    "NetworkAndDisk",
    "TargetLoadPacking",
    "LoadVariationRiskBalancing",
)
(
    TAINTS,
    NODE_AFFINITY,
    FIT,
    SPREAD,
    POD_AFFINITY,
    BALANCED,
    IMAGES,
    GPU_FRAGMENTATION,
    NETWORK_AND_DISK,
    LOAD_PACKING,
    LOAD_RISK,
) = range(len(PLUGINS))


@packable
class PodRule(NamedTuple):
    """Parameters and memory of one rule over one cluster."""

    kind: int
    tie: int
    preempts: bool
    minor: int  # kube: version 1.minor
    strategy: int  # kube: how NodeResourcesFit scores
    percentage: int  # kube: percentageOfNodesToScore, 0 adapts to the size
    weights: I64  # [plugins]
    load_options: F64  # [3] target utilisation %, margin, sensitivity
    ratio_shape: F64  # [points, 2] RequestedToCapacityRatio: utilisation %, score 0..10
    scale: F64  # [3] the largest node's cpu, memory, milli-GPU
    rng: U64  # [1]
    cursor: I64  # [1] where the next search starts (rotating ties, kube's nextStartNodeIndex)
    cache: F64  # [C, N] score per class and node, -inf where refused; [0, 0] without a cache
    cache_seen: I64  # [C] number of changes the row has seen, -1 never filled
    stamp: I64  # [N] the refresh in which the node was last scored
    refreshes: I64  # [1]
    rescored: I64  # [1] node scores computed so far: how well the cache works
    memory: Memory  # kube: what it knows of nodes that did not change
    parts: I64  # [plugins, N] kube: normalised scores of the last decision, by place in the feasible list
    totals: I64  # [N] kube: weighted sums, likewise
    raw: F64  # [N] working space
    in_domain: I64  # [D] working space
    linear: F64  # [pod kinds, features] linear: the weights
    gaps: F64  # [LEVELS] linear: what a shared device with so much left is worth; [0] where all are alike
    encoding_scale: F64  # linear: see `encoding.pair.cluster_scale`
    features: F64  # [features] working space
