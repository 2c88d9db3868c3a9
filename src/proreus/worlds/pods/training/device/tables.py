"""What never changes about the workloads of a batch, as tensors: classes of all of them one after the other.

E lanes, N most nodes, R resource columns, G most GPUs of a node, C classes of all workloads, K most classes
of one, L levels of priority, T terms of required anti-affinity, D most domains, B budgets, M GPU models of
all workloads, Q most groups of typical pods, U thresholds of their CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_PODS
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES, CPU_IN_USE, context_scale, encode_context
from proreus.worlds.pods.encoding.pair import SCALE_MODELS, cluster_scale
from proreus.worlds.pods.state.columns import Cluster
from proreus.worlds.pods.state.compile import Compiled, empty_state
from proreus.worlds.pods.training.base_pods import BasePods, why_on_the_host

STATIC_CONTEXT = CPU_IN_USE
"""So many features of the context come first that the pod's class alone decides."""


@dataclass(frozen=True, eq=False)
class Pods:
    """The pods that episodes are drawn from, of all workloads one after the other; lanes know their part."""

    pod_class: Tensor  # [..] -> C
    work: Tensor  # [..] float64
    arrival: Tensor  # [..] float64
    gap: Tensor  # [..] float64
    start: Tensor  # [E] where the lane's pods begin
    count: Tensor  # [E] how many of them
    gap_start: Tensor  # [E]
    gap_count: Tensor  # [E]
    episode: Tensor  # [E] pods of an episode


@dataclass(frozen=True, eq=False)
class ClassTables:
    """By class."""

    request: Tensor  # [C, R]
    scoring: Tensor  # [C, 2]
    gpu_num: Tensor  # [C]
    gpu_milli: Tensor  # [C]
    level: Tensor  # [C] place of the priority among all priorities
    evicts: Tensor  # [C] bool: preempts if it must, and somebody may have a lower priority
    preempts: Tensor  # [C] bool: may preempt at all
    load: Tensor  # [C] float64
    load_guess: Tensor  # [C] float64
    fits: Tensor  # [C, N] bool: an empty node would take it
    measured: Tensor  # [C] what of it the reward `allocation` counts
    context: Tensor  # [C, STATIC_CONTEXT] float32
    selected: Tensor  # [C, T] bool: the term selects the class
    avoids: Tensor  # [C, T] how often the class avoids the term
    excludes: Tensor  # [C, C] bool: required anti-affinity keeps the two apart
    budgets: Tensor  # [C, B] bool


@dataclass(frozen=True, eq=False)
class LaneTables:
    """By lane."""

    class_start: Tensor  # [E] where its workload's classes begin
    classes: Tensor  # [E, K] them, the last again where there are fewer
    nodes: Tensor  # [E] how many
    allocatable: Tensor  # [E, N, R]
    gpu_count: Tensor  # [E, N]
    model: Tensor  # [E, N] -> M, 0 without GPUs
    pace: Tensor  # [E, N, 2] float64: speed, seconds to start
    order: Tensor  # [E, N] float64
    scale: Tensor  # [E, 3] float64: `cluster_scale` before its models
    context_scale: Tensor  # [E, 7] float64
    reward_scale: Tensor  # [E] float64
    domain: Tensor  # [E, T, N] -> D, where the node lacks the label the one behind the last
    min_available: Tensor  # [E, B]
    max_unavailable: Tensor  # [E, B]
    allowed: Tensor  # [E, B]


@dataclass(frozen=True, eq=False)
class TypicalTables:
    """`state.columns.Typical`: model 0 hosts nobody."""

    num: Tensor  # [M, Q], more than any node has where there is no such group
    milli: Tensor  # [M, Q]
    threshold: Tensor  # [U] CPU needs, ascending
    mass: Tensor  # [M, Q, U + 1] float64: of the group, needing no more than the thresholds passed
    whole: Tensor  # [M, Q] float64
    scarcity: Tensor  # [M] float64: 1 - share of the cluster's GPUs


@dataclass(frozen=True, eq=False)
class Tables:
    """Everything that a step reads and never writes, and what it can leave out altogether."""

    pods: Pods
    classes: ClassTables
    lanes: LaneTables
    typical: TypicalTables
    lot: Tensor  # [N] float64
    gpus: int
    """Most GPUs of a node; 0: none has any."""
    levels: int
    ends: bool
    """Whether any pod ends."""
    preemption: bool
    """Whether any class evicts."""
    domains: int


def tables_of(
    workloads: Sequence[Compiled], bases: Sequence[BasePods], lane_workload: I64, device: torch.device
) -> Tables:
    """lane_workload: int64[E], which workload each lane plays."""
    reason = why_on_the_host(workloads)
    if reason is not None:
        raise UsageError(reason)
    clusters = [each.cluster for each in workloads]
    priorities = np.unique(np.concatenate([cluster.classes.priority for cluster in clusters]))
    sizes = _Sizes.of(clusters)
    classes = _joined([_class_arrays(w, b, priorities, sizes) for w, b in zip(workloads, bases, strict=True)])
    counts = [len(each.specs) for each in workloads]
    starts = np.cumsum([0, *counts])
    excludes = np.zeros((starts[-1], starts[-1]), dtype=np.bool_)
    for cluster, start in zip(clusters, starts, strict=False):
        own = _excludes(cluster)
        excludes[start : start + len(own), start : start + len(own)] = own
    models = np.cumsum([1, *(len(each.models) for each in workloads)])
    per_workload = [
        _lane_arrays(each, base, sizes, (int(starts[w]), int(models[w])))
        for w, (each, base) in enumerate(zip(workloads, bases, strict=True))
    ]

    def tensor(array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    by_lane = {
        name: tensor(np.stack([arrays[name] for arrays in per_workload])[lane_workload])
        for name in per_workload[0]
    }
    return Tables(
        pods=_pods(workloads, bases, starts, lane_workload, tensor),
        classes=ClassTables(
            **{name: tensor(array) for name, array in classes.items()}, excludes=tensor(excludes)
        ),
        lanes=LaneTables(**by_lane),
        typical=_typical(workloads, tensor),
        lot=tensor((np.arange(sizes.nodes) * 2654435761 % 4294967296) / 4294967296.0),
        gpus=sizes.gpus,
        levels=len(priorities),
        ends=any(bool(np.isfinite(base.work).any()) for base in bases),
        preemption=bool(classes["evicts"].any()),
        domains=sizes.domains,
    )


@dataclass(frozen=True)
class _Sizes:
    nodes: int
    resources: int
    gpus: int
    classes: int
    terms: int
    domains: int
    budgets: int

    @staticmethod
    def of(clusters: Sequence[Cluster]) -> _Sizes:
        return _Sizes(
            nodes=max(cluster.nodes.gpu_count.shape[0] for cluster in clusters),
            resources=max(cluster.classes.request.shape[1] for cluster in clusters),
            gpus=max(int(cluster.nodes.gpu_count.max(initial=0)) for cluster in clusters),
            classes=max(cluster.classes.request.shape[0] for cluster in clusters),
            terms=max(len(_avoided(cluster)) for cluster in clusters),
            domains=max(int(cluster.nodes.domains.max(initial=1)) for cluster in clusters),
            budgets=max(cluster.budgets.min_available.shape[0] for cluster in clusters),
        )


def _avoided(cluster: Cluster) -> I64:
    """The terms of required anti-affinity: of all terms the only ones that decide what is legal here."""
    return np.unique(cluster.terms.avoid)


def _wide(array: np.ndarray[Any, Any], shape: tuple[int, ...], fill: Any = 0) -> np.ndarray[Any, Any]:
    out = np.full(shape, fill, dtype=array.dtype)
    out[tuple(slice(0, size) for size in array.shape)] = array
    return out


def _class_arrays(
    workload: Compiled, base: BasePods, priorities: I64, sizes: _Sizes
) -> dict[str, np.ndarray[Any, Any]]:
    cluster = workload.cluster
    classes, count = cluster.classes, len(workload.specs)
    lowest = min(int(classes.priority.min()), 0)
    terms = _avoided(cluster)
    avoids = np.zeros((count, sizes.terms), dtype=np.int64)
    for c in range(count):
        for term in cluster.terms.avoid[cluster.terms.avoid_start[c] : cluster.terms.avoid_start[c + 1]]:
            avoids[c, np.searchsorted(terms, term)] += 1
    state, scale = empty_state(cluster), context_scale(workload)
    context = np.zeros((count, len(CONTEXT_FEATURES)), dtype=np.float32)
    for c in range(count):
        encode_context(cluster, state, scale, c, 0, context[c])
    return {
        "request": _wide(classes.request, (count, sizes.resources)),
        "scoring": classes.scoring,
        "gpu_num": classes.gpu_num,
        "gpu_milli": classes.gpu_milli,
        "level": np.searchsorted(priorities, classes.priority),
        "evicts": classes.may_preempt & (classes.priority > lowest),
        "preempts": classes.may_preempt,
        "load": classes.load[:, 0],
        "load_guess": classes.load_guess,
        "fits": _wide(_fits_empty(cluster), (count, sizes.nodes)),
        "measured": classes.request[:, 0] if base.by_cpu else classes.gpu_num * classes.gpu_milli,
        "context": context[:, :STATIC_CONTEXT],
        "selected": _wide(cluster.terms.selects[terms].T.reshape(count, len(terms)), (count, sizes.terms)),
        "avoids": avoids,
        "budgets": _wide(cluster.budgets.selects.T, (count, sizes.budgets)),
    }


def _fits_empty(cluster: Cluster) -> np.ndarray[Any, Any]:
    """bool[classes, N]: what no eviction cures does not speak against it (see `legality.local_refusal`)."""
    classes, nodes = cluster.classes, cluster.nodes
    need = classes.request[:, None, :]
    large = (need > nodes.allocatable[None]) & (need > 0)
    large[:, :, COL_PODS] = False
    blocked = cluster.shapes.blocked[classes.shape] != 0
    return ~blocked & ~large.any(2) & (nodes.gpu_count[None] >= classes.gpu_num[:, None])


def _excludes(cluster: Cluster) -> np.ndarray[Any, Any]:
    count = cluster.classes.request.shape[0]
    avoiding = np.zeros((count, count), dtype=np.bool_)
    terms = cluster.terms
    for c in range(count):
        for term in terms.avoid[terms.avoid_start[c] : terms.avoid_start[c + 1]]:
            avoiding[c] |= terms.selects[term]
    return avoiding | avoiding.T


def _lane_arrays(
    workload: Compiled, base: BasePods, sizes: _Sizes, first: tuple[int, int]
) -> dict[str, np.ndarray[Any, Any]]:
    """first: where the workload's classes and its GPU models begin."""
    cluster = workload.cluster
    nodes, budgets, count = cluster.nodes, cluster.budgets, cluster.nodes.gpu_count.shape[0]
    terms = _avoided(cluster)
    domain = np.full((sizes.terms, sizes.nodes), sizes.domains, dtype=np.int64)
    for t, term in enumerate(terms):
        own = nodes.domain[cluster.terms.key[term]]
        domain[t, :count] = np.where(own < 0, sizes.domains, own)
    model = np.where(nodes.gpu_model < 0, 0, nodes.gpu_model + first[1])
    return {
        "class_start": np.array(first[0]),
        "classes": first[0] + np.minimum(np.arange(sizes.classes), len(workload.specs) - 1),
        "nodes": np.array(count),
        "allocatable": _wide(nodes.allocatable, (sizes.nodes, sizes.resources)),
        "gpu_count": _wide(nodes.gpu_count, (sizes.nodes,)),
        "model": _wide(model, (sizes.nodes,)),
        "pace": _wide(nodes.pace[:, :2], (sizes.nodes, 2), 1.0),
        "order": 1.0 - np.arange(sizes.nodes) / count,
        "scale": cluster_scale(workload)[:SCALE_MODELS],
        "context_scale": context_scale(workload),
        "reward_scale": np.array(base.reward_scale),
        "domain": domain,
        "min_available": _wide(budgets.min_available, (sizes.budgets,)),
        "max_unavailable": _wide(budgets.max_unavailable, (sizes.budgets,)),
        "allowed": _wide(budgets.allowed, (sizes.budgets,)),
    }


def _pods(
    workloads: Sequence[Compiled],
    bases: Sequence[BasePods],
    class_start: I64,
    lane_workload: I64,
    tensor: Callable[[np.ndarray[Any, Any]], Tensor],
) -> Pods:
    of_class = [each.cluster.pod_class + start for each, start in zip(workloads, class_start, strict=False)]
    counts = np.array([len(pods) for pods in of_class])
    gaps = np.array([len(base.gap) for base in bases])
    by_workload = {
        "start": np.cumsum([0, *counts])[:-1],
        "count": counts,
        "gap_start": np.cumsum([0, *gaps])[:-1],
        "gap_count": gaps,
        "episode": np.array([base.episode for base in bases]),
    }
    return Pods(
        pod_class=tensor(np.concatenate(of_class)),
        work=tensor(np.concatenate([base.work for base in bases])),
        arrival=tensor(np.concatenate([base.arrival for base in bases])),
        gap=tensor(np.concatenate([base.gap for base in bases])),
        **{name: tensor(array[lane_workload]) for name, array in by_workload.items()},
    )


def _typical(
    workloads: Sequence[Compiled], tensor: Callable[[np.ndarray[Any, Any]], Tensor]
) -> TypicalTables:
    each = [workload.cluster.typical for workload in workloads]
    threshold = np.unique(np.concatenate([typical.cpu for typical in each]))
    spans: list[tuple[int, int, int]] = [(0, 0, 0)]  # of model 0
    for w, typical in enumerate(each):
        start = typical.model_start
        spans += [(w, int(start[m + 1]), int(start[m + 2])) for m in range(len(workloads[w].models))]
    models, groups = len(spans), max(max(last - first for _, first, last in spans), 1)
    num = np.full((models, groups), GPU_WHOLE, dtype=np.int64)
    milli = np.full((models, groups), GPU_WHOLE, dtype=np.int64)
    mass = np.zeros((models, groups, len(threshold) + 1))
    for m, (w, first, last) in enumerate(spans):
        typical = each[w]
        for q, g in enumerate(range(first, last)):
            num[m, q], milli[m, q] = typical.num[g], typical.milli[g]
            own = slice(int(typical.cpu_start[g]), int(typical.cpu_start[g + 1]))
            passed = np.searchsorted(typical.cpu[own], threshold, side="right")
            mass[m, q, 1:] = np.concatenate([[0.0], typical.mass[own]])[passed]
    shares = [1.0, *(1.0 - share for each in workloads for share in cluster_scale(each)[SCALE_MODELS:])]
    return TypicalTables(
        num=tensor(num),
        milli=tensor(milli),
        threshold=tensor(threshold),
        mass=tensor(mass),
        whole=tensor(mass[:, :, -1]),
        scarcity=tensor(np.array(shares)),
    )


def _joined(parts: Sequence[dict[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
