"""From the objects of a workload to columns: done once per run, in plain Python.

The only place that knows both `proreus.model` and the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I64, Bool
from proreus.kernels.packed import pack
from proreus.model.node import (
    BETA_REGION,
    BETA_ZONE,
    HOSTNAME,
    MOST_DEVICES,
    REGION,
    ZONE,
    Effect,
    Node,
    Taint,
    Toleration,
    hard_effect,
)
from proreus.model.pod import GPU_WHOLE, PodSpec
from proreus.model.resources import BASE_COLUMNS, Resources
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.state.columns import Budgets, Classes, Cluster, Nodes, Ports, Scratch, Shapes, State
from proreus.worlds.pods.state.filters import (
    GPU_NEVER,
    NODE_AFFINITY,
    NODE_NAME,
    NODE_NOT_NAMED,
    NODE_UNSCHEDULABLE,
    OK,
    TAINTS,
    VOLUME_CLAIM,
)
from proreus.worlds.pods.state.fragmentation import fill_fragments, typical_demand
from proreus.worlds.pods.state.images import ImageSpread
from proreus.worlds.pods.state.terms import TermTable, compile_domains, compile_terms, ragged, topology_keys

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
# A pod that states neither limit nor request is expected to use this much CPU (Trimaran's default).
_UNKNOWN_LOAD = 1000
_LOAD_MULTIPLIER = 1.5


@dataclass(frozen=True)
class Compiled:
    """A workload as columns, with the names that the columns dropped."""

    workload: Workload
    cluster: Cluster
    columns: tuple[str, ...]
    """Names of the resource columns."""
    models: tuple[str, ...]
    """Names of the GPU models, in index order."""
    specs: tuple[PodSpec, ...]
    """The pod classes."""


def compile_workload(workload: Workload, *, decided: int | None = None) -> Compiled:
    """Everything about `workload` that does not change while it runs.

    decided: the number of pods, the first ones, that will be decided about; None: all. How nodes suit the
    others (`Shapes`) is not worked out, so nobody may ask for it.
    """
    ids: dict[PodSpec, int] = {}
    pod_class = np.array([ids.setdefault(pod.spec, len(ids)) for pod in workload.pods], dtype=np.int64)
    specs = tuple(ids)
    deciding = len(specs) if decided is None else int(pod_class[:decided].max(initial=-1)) + 1
    nodes = workload.nodes
    extended = sorted(
        {name for node in nodes for name, _ in node.allocatable.extended}
        | {name for spec in specs for name, _ in spec.requests.extended}
    )
    models = sorted({node.gpu_model for node in nodes if node.gpu_count})
    keys = sorted({HOSTNAME, *topology_keys(specs)})
    table = TermTable(specs, keys)
    columns = _nodes(nodes, extended, models, keys)
    cluster = pack(
        Cluster(
            nodes=columns,
            classes=_classes(specs, extended, deciding),
            shapes=_shapes(specs[:deciding], nodes, columns.visit_order),
            terms=compile_terms(specs, table),
            ports=Ports(_port_conflicts(_ports(specs))),
            budgets=_budgets(workload.budgets, specs),
            typical=typical_demand([pod.spec for pod in workload.pods], models),
            pod_class=pod_class,
        )
    )
    return Compiled(workload, cluster, (*BASE_COLUMNS, *extended), tuple(models), specs)


def empty_state(cluster: Cluster) -> State:
    """The cluster with nothing on it."""
    nodes = cluster.nodes
    n, pods, terms = nodes.gpu_count.shape[0], cluster.pod_class.shape[0], cluster.terms.key.shape[0]
    widest = max(int(nodes.gpu_count.max(initial=0)), 1)
    domains = max(int(nodes.domains.max(initial=0)), 1)
    left = np.where(np.arange(widest) < nodes.gpu_count[:, None], GPU_WHOLE, 0).astype(np.int64)
    ring = 1 << max(8, int(2 * n - 1).bit_length())
    fragment = np.zeros(n)
    fill_fragments(cluster, left, fragment)
    return pack(
        State(
            free=nodes.allocatable.copy(),
            gpu_left=left,
            scored=np.zeros((n, 2), dtype=np.int64),
            load=np.zeros((n, 2)),
            kinds=np.zeros((n, widest + 1), dtype=np.int64),
            fragment=fragment,
            ports_used=np.zeros((cluster.ports.conflict.shape[0], n), dtype=np.int64),
            matching=np.zeros((terms, n), dtype=np.int64),
            matching_in=np.zeros((terms, domains), dtype=np.int64),
            matching_all=np.zeros(terms, dtype=np.int64),
            avoided_in=np.zeros((terms, domains), dtype=np.int64),
            drawn_in=np.zeros((terms, domains), dtype=np.int64),
            healthy=np.zeros(cluster.budgets.min_available.shape[0], dtype=np.int64),
            expected=np.zeros(cluster.budgets.min_available.shape[0], dtype=np.int64),
            pod_node=np.full(pods, -1, dtype=np.int64),
            pod_devices=np.zeros(pods, dtype=np.int64),
            pod_since=np.zeros(pods),
            pod_rank=np.zeros(pods, dtype=np.int64),
            first=np.full(n, -1, dtype=np.int64),
            following=np.full(pods, -1, dtype=np.int64),
            preceding=np.full(pods, -1, dtype=np.int64),
            changed=np.zeros(ring, dtype=np.int64),
            counts=np.zeros(2, dtype=np.int64),
        )
    )


def new_scratch(cluster: Cluster) -> Scratch:
    """Working space for decisions over `cluster`."""
    n, pods = cluster.nodes.gpu_count.shape[0], cluster.pod_class.shape[0]
    terms = cluster.terms
    hard = [
        int(terms.spread_hard[start:stop].sum())
        for start, stop in zip(terms.spread_start[:-1], terms.spread_start[1:], strict=True)
    ]
    domains = max(int(cluster.nodes.domains.max(initial=0)), 1)
    return pack(
        Scratch(
            spread_count=np.zeros((max(hard, default=0), domains), dtype=np.int64),
            spread_min=np.zeros(max(hard, default=0), dtype=np.int64),
            nodes=np.zeros(n, dtype=np.int64),
            pods=np.zeros(pods, dtype=np.int64),
            order=np.zeros(pods, dtype=np.int64),
            flags=np.zeros(pods, dtype=np.int8),
            taken=np.zeros(max(cluster.budgets.min_available.shape[0], 1), dtype=np.int64),
        )
    )


def _row(resources: Resources, extended: Sequence[str]) -> list[int]:
    amounts = dict(resources.extended)
    return [*resources.base(), *(amounts.get(name, 0) for name in extended)]


def _nodes(
    nodes: Sequence[Node], extended: Sequence[str], models: Sequence[str], keys: Sequence[str]
) -> Nodes:
    domain, sizes = compile_domains(nodes, keys)
    return Nodes(
        allocatable=np.array([_row(node.allocatable, extended) for node in nodes], dtype=np.int64),
        gpu_count=np.array([node.gpu_count for node in nodes], dtype=np.int64),
        gpu_model=np.array(
            [models.index(node.gpu_model) if node.gpu_count else -1 for node in nodes], dtype=np.int64
        ),
        domain=domain,
        domains=sizes,
        hostname_key=np.array([keys.index(HOSTNAME)], dtype=np.int64),
        visit_order=_zone_round_robin(nodes),
        pace=np.array(
            [
                [
                    node.pace.speed,
                    node.pace.start_seconds,
                    node.pace.start_extra,
                    node.pace.start_spacing,
                    node.pace.minimum_speed,
                    node.pace.slow_threshold,
                ]
                for node in nodes
            ],
            dtype=np.float64,
        ),
    )


def _zone_round_robin(nodes: Sequence[Node]) -> I64:
    """Kube's node order: one node of each zone in turn, zones in order of first appearance.

    The labels of old come first where a node has both, as in kube-scheduler.
    """
    zones: dict[tuple[str, str], list[int]] = {}
    for n, node in enumerate(nodes):
        labels = dict(node.labels)
        region = labels.get(BETA_REGION, labels.get(REGION, ""))
        zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
        zones.setdefault((region, zone), []).append(n)
    depth = max(len(members) for members in zones.values())
    order = [members[i] for i in range(depth) for members in zones.values() if i < len(members)]
    return np.array(order, dtype=np.int64)


def _classes(specs: Sequence[PodSpec], extended: Sequence[str], deciding: int) -> Classes:
    request = np.array([_row(spec.requests, extended) for spec in specs], dtype=np.int64)
    request = request.reshape(len(specs), len(BASE_COLUMNS) + len(extended))
    request[:, BASE_COLUMNS.index("pods")] = 1
    ports = {port: i for i, port in enumerate(_ports(specs))}
    port_start, port_flat = ragged([[ports[port] for port in _host_ports(spec)] for spec in specs])
    mean = np.array([spec.usage * spec.requests.cpu for spec in specs])
    deviation = np.array([spec.usage_deviation * spec.requests.cpu for spec in specs])
    return Classes(
        request=request,
        scoring=np.array([spec.scored_requests() for spec in specs], dtype=np.int64).reshape(len(specs), 2),
        scoring_incoming=np.array([spec.scored_incoming() for spec in specs], dtype=np.int64).reshape(
            len(specs), 2
        ),
        gpu_num=np.array([spec.gpu.count for spec in specs], dtype=np.int64),
        gpu_milli=np.array([spec.gpu.milli for spec in specs], dtype=np.int64),
        gpu_kind=np.array([_gpu_kind(spec) for spec in specs], dtype=np.int64),
        shape=np.array(_shape_ids(specs[:deciding])[0] + [0] * (len(specs) - deciding), dtype=np.int64),
        priority=np.array([spec.priority for spec in specs], dtype=np.int64),
        may_preempt=np.array([spec.may_preempt for spec in specs], dtype=np.bool_),
        load=np.stack([mean, deviation**2], axis=1).reshape(len(specs), 2),
        cpu_limit=np.array([spec.cpu_limit for spec in specs], dtype=np.int64),
        load_guess=np.array([_load_guess(spec) for spec in specs], dtype=np.float64),
        port_start=port_start,
        port=port_flat,
    )


def _load_guess(spec: PodSpec) -> float:
    """Trimaran's expectation of a pod's CPU: its limit, else 1.5 times its request, else one core."""
    if spec.cpu_limit:
        return float(spec.cpu_limit)
    return _LOAD_MULTIPLIER * spec.requests.cpu if spec.requests.cpu else float(_UNKNOWN_LOAD)


def _gpu_kind(spec: PodSpec) -> int:
    if spec.gpu.count == 0:
        return -1
    return 0 if spec.gpu.milli < GPU_WHOLE else min(spec.gpu.count, MOST_DEVICES)


def _host_ports(spec: PodSpec) -> list[tuple[str, str, int]]:
    """The host ports with Kubernetes' defaults filled in: every address, TCP."""
    return [(address or "0.0.0.0", protocol or "TCP", port) for address, protocol, port in spec.host_ports]


def _ports(specs: Sequence[PodSpec]) -> list[tuple[str, str, int]]:
    return sorted({port for spec in specs for port in _host_ports(spec)})


def _port_conflicts(ports: Sequence[tuple[str, str, int]]) -> Bool:
    """bool[Q, Q]: same protocol and number, and addresses that overlap (0.0.0.0 is all of them)."""
    conflicts = [
        [a[1:] == b[1:] and (a[0] == b[0] or "0.0.0.0" in (a[0], b[0])) for b in ports] for a in ports
    ]
    return np.array(conflicts, dtype=np.bool_).reshape(len(ports), len(ports))


def _budgets(budgets: Sequence[DisruptionBudget], specs: Sequence[PodSpec]) -> Budgets:
    selects = [[_protects(budget, spec) for spec in specs] for budget in budgets]
    return Budgets(
        selects=np.array(selects, dtype=np.bool_).reshape(len(budgets), len(specs)),
        min_available=np.array([_bound(b.min_available) for b in budgets], dtype=np.int64),
        max_unavailable=np.array([_bound(b.max_unavailable) for b in budgets], dtype=np.int64),
    )


def _bound(value: int | None) -> int:
    return -1 if value is None else value


def _protects(budget: DisruptionBudget, spec: PodSpec) -> bool:
    """As kube-scheduler reads budgets: an empty selector, or a pod without labels, is not protected."""
    return (
        bool(budget.selector.requirements)
        and bool(spec.labels)
        and budget.namespace == spec.namespace
        and budget.selector.matches(dict(spec.labels))
    )


def _shape_ids(specs: Sequence[PodSpec]) -> tuple[list[int], list[PodSpec]]:
    """(shape of each class, one class of each shape): classes whose static constraints are equal."""
    ids: dict[object, int] = {}
    examples: list[PodSpec] = []
    shapes = []
    for s in specs:
        where = (s.node_name, s.node_selector, s.node_affinity, s.tolerations, s.gpu.models)
        key = (*where, s.images, s.image_volumes, s.missing_claim)
        if key not in ids:
            ids[key] = len(ids)
            examples.append(s)
        shapes.append(ids[key])
    return shapes, examples


def _shapes(specs: Sequence[PodSpec], nodes: Sequence[Node], visit_order: I64) -> Shapes:
    examples = _shape_ids(specs)[1]
    size = (len(examples), len(nodes))
    blocked = np.zeros(size, dtype=np.int8)
    repelled = np.zeros(size, dtype=np.int64)
    preferred = np.zeros(size, dtype=np.int64)
    image = np.zeros(size, dtype=np.int64)
    mounts = any(spec.image_volumes for spec in examples)
    image_mounted = np.zeros(size if mounts else (0, len(nodes)), dtype=np.int64)
    allowed = np.zeros(size, dtype=np.bool_)
    tolerated = np.zeros(size, dtype=np.bool_)
    images = ImageSpread(nodes)
    labels = [node.label_map() for node in nodes]
    place = {node.name: n for n, node in enumerate(nodes)}
    visited = np.argsort(visit_order).tolist()
    named: list[list[int] | None] = []
    tolerating: dict[tuple[Toleration, ...], list[bool]] = {}
    for s, spec in enumerate(examples):
        names = spec.node_affinity.names()
        found = (
            None
            if names is None
            else sorted({place[x] for x in names if x in place}, key=visited.__getitem__)
        )
        refused = VOLUME_CLAIM if spec.missing_claim and (names is None or names) else OK
        named.append([] if refused else found)
        blocked[s] = refused or (OK if found is None else NODE_NOT_NAMED)
        soft = [t for t in spec.tolerations if t.effect in (None, Effect.PREFER_NO_SCHEDULE)]
        if spec.tolerations not in tolerating:
            tolerating[spec.tolerations] = [_tolerates(spec, node) for node in nodes]
        tolerated[s] = tolerating[spec.tolerations]
        # A daemon's pods name a node each: what other nodes are like to them is nobody's question.
        for n in range(len(nodes)) if found is None else found:
            node = nodes[n]
            allowed[s, n] = _affinity_allows(spec, node, labels[n])
            if not refused:
                blocked[s, n] = _static_refusal(spec, node, bool(tolerated[s, n]), bool(allowed[s, n]))
            repelled[s, n] = sum(
                not hard_effect(taint.effect) and not any(t.tolerates(taint) for t in soft)
                for taint in node.taints
            )
            preferred[s, n] = sum(
                weight for weight, term in spec.node_affinity.preferred if term.matches(node.name, labels[n])
            )
            image[s, n] = images.score(spec.images, (), n)
            if mounts:
                image_mounted[s, n] = images.score(spec.images, spec.image_volumes, n)
    named_start, named_flat = ragged([one or [] for one in named])
    return Shapes(
        blocked=blocked,
        repelled=repelled,
        preferred=preferred,
        has_preferred=np.array([bool(spec.node_affinity.preferred) for spec in examples], dtype=np.bool_),
        image=image,
        image_mounted=image_mounted,
        allowed=allowed,
        tolerated=tolerated,
        narrowed=np.array([one is not None for one in named], dtype=np.bool_),
        named_start=named_start,
        named=named_flat,
    )


def _static_refusal(spec: PodSpec, node: Node, tolerated: bool, allowed: bool) -> int:
    """The first filter, in kube's order, that refuses whatever else runs on the node."""
    if node.unschedulable and not any(t.tolerates(UNSCHEDULABLE_TAINT) for t in spec.tolerations):
        return NODE_UNSCHEDULABLE
    if spec.node_name and spec.node_name != node.name:
        return NODE_NAME
    if not tolerated:
        return TAINTS
    if not allowed:
        return NODE_AFFINITY
    if spec.gpu.models and node.gpu_model not in spec.gpu.models:
        return GPU_NEVER
    return OK


def _tolerates(spec: PodSpec, node: Node) -> bool:
    """Whether the pod tolerates every taint that would keep it away."""
    hard = (taint for taint in node.taints if hard_effect(taint.effect))
    return all(any(t.tolerates(taint) for t in spec.tolerations) for taint in hard)


def _affinity_allows(spec: PodSpec, node: Node, labels: dict[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in spec.node_selector):
        return False
    return spec.node_affinity.allows(node.name, labels)
