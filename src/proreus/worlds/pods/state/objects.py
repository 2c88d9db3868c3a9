"""Rows of columns from objects: what of a node, a pod class, a host port or a budget goes into the arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import I64
from proreus.model.node import BETA_REGION, BETA_ZONE, MOST_DEVICES, REGION, ZONE, Node
from proreus.model.pod import GPU_WHOLE, PodSpec
from proreus.model.resources import BASE_COLUMNS, Resources
from proreus.model.workload import DisruptionBudget

HostPort: TypeAlias = tuple[str, str, int]
"""Address, protocol, number."""
# A pod that states neither limit nor request is expected to use this much CPU (Trimaran's default).
_UNKNOWN_LOAD = 1000
_LOAD_MULTIPLIER = 1.5


def amounts(rows: Sequence[Resources], extended: Mapping[str, int]) -> I64:
    """int64[rows, R]: the resource columns; extended: the place of each behind the base, others do not count.

    Only what is named is written: nodes and pods name few of many resources, and a list of all their zeros is
    long work under the interpreter's lock.
    """
    base = len(BASE_COLUMNS)
    table = np.zeros((len(rows), base + len(extended)), dtype=np.int64)
    if rows:
        table[:, :base] = np.array([resources.base() for resources in rows], dtype=np.int64)
    for row, resources in enumerate(rows):
        for name, amount in resources.extended:
            if name in extended:
                table[row, base + extended[name]] = amount
    return table


def node_columns(
    nodes: Sequence[Node], extended: Mapping[str, int], models: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Those columns of `Nodes` that a node alone determines."""
    return {
        "allocatable": amounts([node.allocatable for node in nodes], extended),
        "gpu_count": np.array([node.gpu_count for node in nodes], dtype=np.int64),
        "gpu_model": np.array(
            [models.index(node.gpu_model) if node.gpu_count else -1 for node in nodes], dtype=np.int64
        ),
        "pace": np.array([_pace(node) for node in nodes], dtype=np.float64),
    }


def _pace(node: Node) -> tuple[float, ...]:
    pace = node.pace
    started = (pace.start_seconds, pace.start_extra, pace.start_spacing)
    return (pace.speed, *started, pace.minimum_speed, pace.slow_threshold)


def zone_of(node: Node) -> tuple[str, str]:
    """Region and zone; the labels of old come first where a node has both, as in kube-scheduler."""
    labels = dict(node.labels)
    return labels.get(BETA_REGION, labels.get(REGION, "")), labels.get(BETA_ZONE, labels.get(ZONE, ""))


def zone_round_robin(zones: I64) -> I64:
    """Kube's node order: one node of each zone in turn, zones in order of first appearance.

    zones: int64[N], any number that stands for the node's zone.
    """
    _, first, zone = np.unique(zones, return_index=True, return_inverse=True)
    by_zone = np.argsort(zone, kind="stable")
    members = np.bincount(zone)
    turn = np.empty(len(zones), dtype=np.int64)
    turn[by_zone] = np.arange(len(zones)) - np.repeat(np.cumsum(members) - members, members)
    return np.lexsort((first[zone], turn)).astype(np.int64)


def class_columns(specs: Sequence[PodSpec], extended: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Those columns of `Classes` that a spec alone determines."""
    count = len(specs)
    request = amounts([spec.requests for spec in specs], extended)
    request[:, BASE_COLUMNS.index("pods")] = 1
    mean = np.array([spec.usage * spec.requests.cpu for spec in specs])
    deviation = np.array([spec.usage_deviation * spec.requests.cpu for spec in specs])
    incoming = np.array([spec.scored_incoming() for spec in specs], dtype=np.int64)
    return {
        "request": request,
        "scoring": np.array([spec.scored_requests() for spec in specs], dtype=np.int64).reshape(count, 2),
        "scoring_incoming": incoming.reshape(count, 2),
        "gpu_num": np.array([spec.gpu.count for spec in specs], dtype=np.int64),
        "gpu_milli": np.array([spec.gpu.milli for spec in specs], dtype=np.int64),
        "gpu_kind": np.array([_gpu_kind(spec) for spec in specs], dtype=np.int64),
        "priority": np.array([spec.priority for spec in specs], dtype=np.int64),
        "may_preempt": np.array([spec.may_preempt for spec in specs], dtype=np.bool_),
        "load": np.stack([mean, deviation**2], axis=1).reshape(count, 2),
        "cpu_limit": np.array([spec.cpu_limit for spec in specs], dtype=np.int64),
        "load_guess": np.array([_load_guess(spec) for spec in specs], dtype=np.float64),
    }


def _load_guess(spec: PodSpec) -> float:
    """Trimaran's expectation of a pod's CPU: its limit, else 1.5 times its request, else one core."""
    if spec.cpu_limit:
        return float(spec.cpu_limit)
    return _LOAD_MULTIPLIER * spec.requests.cpu if spec.requests.cpu else float(_UNKNOWN_LOAD)


def _gpu_kind(spec: PodSpec) -> int:
    if spec.gpu.count == 0:
        return -1
    return 0 if spec.gpu.milli < GPU_WHOLE else min(spec.gpu.count, MOST_DEVICES)


def host_ports(spec: PodSpec) -> list[HostPort]:
    """The host ports with Kubernetes' defaults filled in: every address, TCP."""
    return [(address or "0.0.0.0", protocol or "TCP", port) for address, protocol, port in spec.host_ports]


def ports_conflict(host_port: HostPort, other: HostPort) -> bool:
    """Same protocol and number, and addresses that overlap (0.0.0.0 is all of them)."""
    return host_port[1:] == other[1:] and (host_port[0] == other[0] or "0.0.0.0" in (host_port[0], other[0]))


def bound(value: int | None) -> int:
    """A bound of a budget, -1 for the one that is not given."""
    return -1 if value is None else value


def protects(budget: DisruptionBudget, spec: PodSpec) -> bool:
    """As kube-scheduler reads budgets: an empty selector, or a pod without labels, is not protected."""
    return (
        bool(budget.selector.requirements)
        and bool(spec.labels)
        and budget.namespace == spec.namespace
        and budget.selector.matches(dict(spec.labels))
    )
