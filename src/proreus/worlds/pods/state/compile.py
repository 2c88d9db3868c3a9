"""From the objects of a workload to columns: done once per run, in plain Python.

The only place that knows both `proreus.model` and the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I64, Bool
from proreus.kernels.structs import pack
from proreus.model.node import HOSTNAME, Node, Toleration
from proreus.model.pod import GPU_WHOLE, PodSpec
from proreus.model.resources import BASE_COLUMNS
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.state.columns import Budgets, Classes, Cluster, Nodes, Ports, Scratch, Shapes, State
from proreus.worlds.pods.state.demand import ResourceDemand, demand_of
from proreus.worlds.pods.state.filters import NODE_NOT_NAMED, OK
from proreus.worlds.pods.state.fragmentation import fill_fragments, typical_demand
from proreus.worlds.pods.state.images import ImageSpread
from proreus.worlds.pods.state.objects import (
    HostPort,
    bound,
    class_columns,
    host_ports,
    node_columns,
    ports_conflict,
    protects,
    zone_of,
    zone_round_robin,
)
from proreus.worlds.pods.state.static import ShapeKey, pair, refused_everywhere, shape_key, tolerates
from proreus.worlds.pods.state.terms import TermTable, compile_domains, compile_terms, ragged, topology_keys


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
    demand: ResourceDemand
    """What typical pods and figures of the whole are taken from."""


def compile_workload(
    workload: Workload, demand: ResourceDemand | None = None, *, decided: int | None = None
) -> Compiled:
    """Everything about `workload` that does not change while it runs; its demand is that of its pods, unless
    another is given.

    decided: the number of pods, the first ones, that will be decided about; None: all. How nodes suit the
    others (`Shapes`) is not worked out, nor is there a column for extended resources that only they or nodes
    name: so nobody may ask for it.
    """
    ids: dict[PodSpec, int] = {}
    pod_class = np.array([ids.setdefault(pod.spec, len(ids)) for pod in workload.pods], dtype=np.int64)
    specs = tuple(ids)
    deciding = len(specs) if decided is None else int(pod_class[:decided].max(initial=-1)) + 1
    nodes = workload.nodes
    asked = {name for spec in specs[:deciding] for name, _ in spec.requests.extended}
    if decided is None:  # else a resource that no pod asks for which is decided about says nothing
        asked |= {name for node in nodes for name, _ in node.allocatable.extended}
    named = sorted(asked)
    extended = {name: place for place, name in enumerate(named)}
    models = sorted({node.gpu_model for node in nodes if node.gpu_count})
    keys = sorted({HOSTNAME, *topology_keys(specs)})
    table = TermTable(specs, keys)
    columns = _nodes(nodes, extended, models, keys)
    if demand is None:
        times = np.bincount(pod_class, minlength=len(specs)).tolist()
        demand = demand_of(zip(specs, times, strict=True))
    cluster = pack(
        Cluster(
            nodes=columns,
            classes=_classes(specs, extended, deciding),
            shapes=_shapes(specs[:deciding], nodes, columns.visit_order),
            terms=compile_terms(specs, table),
            ports=Ports(_port_conflicts(_ports(specs))),
            budgets=_budgets(workload.budgets, specs),
            typical=typical_demand(demand, models),
            pod_class=pod_class,
        )
    )
    return Compiled(workload, cluster, (*BASE_COLUMNS, *named), tuple(models), specs, demand)


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
            flags=np.zeros(pods, dtype=np.int8),
            taken=np.zeros(max(cluster.budgets.min_available.shape[0], 1), dtype=np.int64),
        )
    )


def _nodes(
    nodes: Sequence[Node], extended: Mapping[str, int], models: Sequence[str], keys: Sequence[str]
) -> Nodes:
    domain, sizes = compile_domains(nodes, keys)
    ids: dict[tuple[str, str], int] = {}
    zones = np.array([ids.setdefault(zone_of(node), len(ids)) for node in nodes], dtype=np.int64)
    return Nodes(
        **node_columns(nodes, extended, models),
        domain=domain,
        domains=sizes,
        hostname_key=np.array([keys.index(HOSTNAME)], dtype=np.int64),
        visit_order=zone_round_robin(zones),
    )


def _classes(specs: Sequence[PodSpec], extended: Mapping[str, int], deciding: int) -> Classes:
    ports = {port: i for i, port in enumerate(_ports(specs))}
    port_start, port_flat = ragged([[ports[port] for port in host_ports(spec)] for spec in specs])
    return Classes(
        **class_columns(specs, extended),
        shape=np.array(_shape_ids(specs[:deciding])[0] + [0] * (len(specs) - deciding), dtype=np.int64),
        port_start=port_start,
        port=port_flat,
        epoch=np.zeros(len(specs), dtype=np.int64),
    )


def _ports(specs: Sequence[PodSpec]) -> list[HostPort]:
    return sorted({port for spec in specs for port in host_ports(spec)})


def _port_conflicts(ports: Sequence[HostPort]) -> Bool:
    """bool[Q, Q]: which exclude each other."""
    conflicts = [[ports_conflict(port, other) for other in ports] for port in ports]
    return np.array(conflicts, dtype=np.bool_).reshape(len(ports), len(ports))


def _budgets(budgets: Sequence[DisruptionBudget], specs: Sequence[PodSpec]) -> Budgets:
    selects = [[protects(budget, spec) for spec in specs] for budget in budgets]
    return Budgets(
        selects=np.array(selects, dtype=np.bool_).reshape(len(budgets), len(specs)),
        min_available=np.array([bound(b.min_available) for b in budgets], dtype=np.int64),
        max_unavailable=np.array([bound(b.max_unavailable) for b in budgets], dtype=np.int64),
        allowed=np.array([bound(b.allowed) for b in budgets], dtype=np.int64),
    )


def _shape_ids(specs: Sequence[PodSpec]) -> tuple[list[int], list[PodSpec]]:
    """(shape of each class, one class of each shape): classes whose static constraints are equal."""
    ids: dict[ShapeKey, int] = {}
    examples: list[PodSpec] = []
    shapes = []
    for spec in specs:
        shapes.append(ids.setdefault(shape_key(spec), len(ids)))
        if len(ids) > len(examples):
            examples.append(spec)
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
    images = ImageSpread()
    for node in nodes:
        images.add(node)
    labels = [node.label_map() for node in nodes]
    place = {node.name: n for n, node in enumerate(nodes)}
    visited = np.argsort(visit_order).tolist()
    named: list[list[int] | None] = []
    tolerating: dict[tuple[Toleration, ...], list[bool]] = {}
    for s, spec in enumerate(examples):
        names = spec.node_affinity.names()
        listed = (
            None
            if names is None
            else sorted({place[x] for x in names if x in place}, key=visited.__getitem__)
        )
        refused = refused_everywhere(spec)
        named.append([] if refused else listed)
        blocked[s] = refused or (OK if listed is None else NODE_NOT_NAMED)
        if spec.tolerations not in tolerating:
            tolerating[spec.tolerations] = [tolerates(spec, node) for node in nodes]
        tolerated[s] = tolerating[spec.tolerations]
        # A daemon's pods name a node each: what other nodes are like to them is nobody's question.
        for n in range(len(nodes)) if listed is None else listed:
            said = pair(spec, nodes[n], labels[n], tolerated=bool(tolerated[s, n]))
            blocked[s, n], repelled[s, n], preferred[s, n], allowed[s, n] = said
        image[s] = images.scores(spec.images, (), place)
        if mounts:
            image_mounted[s] = images.scores(spec.images, spec.image_volumes, place)
    named_start, named_flat = ragged([of_shape or [] for of_shape in named])
    return Shapes(
        blocked=blocked,
        repelled=repelled,
        preferred=preferred,
        has_preferred=np.array([bool(spec.node_affinity.preferred) for spec in examples], dtype=np.bool_),
        image=image,
        image_mounted=image_mounted,
        allowed=allowed,
        tolerated=tolerated,
        narrowed=np.array([of_shape is not None for of_shape in named], dtype=np.bool_),
        named_start=named_start,
        named=named_flat,
    )
