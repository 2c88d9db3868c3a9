"""What a decision in named fields costs, told from the request before any of the work is done.

The sum of what the tables take that the decision is made from, in units of about a microsecond. Each share
goes by the name of the field that it grows with, so that a refusal can say where to cut down.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import chain

import msgspec

from proreus.model.resources import BASE_COLUMNS, GPU
from proreus.serving.cluster_api.changes import AddNode, AddPod, RemoveNode, UpdateNode
from proreus.serving.cluster_api.request import DecideRequest
from proreus.serving.cluster_api.schema import NodeWire, PodAffinityWire, PodWire
from proreus.serving.messages import Refusal, Refused

MOST_UNITS = 4_000_000
_OWN_COLUMN = frozenset((*BASE_COLUMNS, GPU))
_MOVED, _WRITTEN, _READ = 0.25, 0.002, 0.003
"""For a cell of the tables of rows by resources: when columns come, when a row does, when somebody asks. The
first is a quarter time; the rest stands for the memory that is taken twice while rows are moved."""


@dataclass(frozen=True)
class Kept:
    """What a session holds already: what comes new is worked out against it."""

    nodes: int = 0
    pods: int = 0
    resources: Set[str] = frozenset()
    """Extended ones, each of which has a column."""


_NOTHING = Kept()
_NO_POD = PodWire("")


def check_cost(request: DecideRequest, most: float = MOST_UNITS, kept: Kept = _NOTHING) -> None:
    """Refuse what costs more than `most`; the refusal names the field that costs most."""
    shares = cost_of(request, kept)
    total = sum(shares.values())
    if total > most:
        field, largest = max(shares.items(), key=lambda share: share[1])
        says = f"takes {largest:,.0f} of {total:,.0f} units of work; {most:,.0f} are possible"
        raise Refused(Refusal.TOO_LARGE, f"{says} (see docs/security.md)", field)


def cost_of(request: DecideRequest, kept: Kept = _NOTHING) -> dict[str, float]:
    """Units by field."""
    size = _size(request, kept)
    asked = request.pod is not None
    pod, nodes, explained = request.pod or _NO_POD, size.nodes, 1 if request.explain and asked else 0
    spread = len(pod.spread)
    return {
        "nodes": 60 * (nodes - kept.nodes) + 90 * explained * nodes,
        "changes": 10 * len(request.changes)
        + (350 + 0.1 * nodes) * _node_changes(request)
        + (600 + 0.3 * nodes) * size.new_classes,
        "nodes.pods": 35 * (size.pods - kept.pods)
        + 60 * size.gpu_pods
        + 0.01 * (1 + 2 * explained) * size.crowding,
        "nodes.labels": 3 * size.labels,
        "nodes.allocatable": _resources(size, pod, kept)
        if request.keep or request.session
        else 0.2 * nodes * len(pod.requests.keys() - _OWN_COLUMN) + len(size.extended),
        "nodes.taints": (4 + 0.3 * (1 + len(pod.tolerations))) * size.taints,
        "nodes.images": 2 * size.images + 1.5 * len(pod.images) * nodes,
        "pod.node_affinity": 1.5 * _requirements(pod) * nodes,
        "pod.anti_affinity": 5 * size.terms
        + (15 + 3 * size.groups + 0.5 * nodes + 0.1 * size.pods) * size.selectors
        + 0.3 * size.keys * nodes,
        "pod.spread": 0.02 * spread * (spread + 1) * nodes * (1 + 0.1 * explained * nodes),
        "pod.host_ports": (0.2 * size.ports + 0.1 * nodes + 0.005 * len(pod.host_ports) * nodes) * size.ports,
    }


def _resources(size: _Size, pod: PodWire, kept: Kept) -> float:
    """A cluster that is kept has a column for each extended resource; one that is new may move all rows."""
    new = len(size.extended - kept.resources)
    width = len(kept.resources) + new
    moved = _MOVED * (size.nodes + size.pods) * width if new else 0.0
    written = _WRITTEN * width * (size.nodes - kept.nodes + size.new_classes)
    return 5 * new + moved + written + (_READ * size.nodes * width if pod is not _NO_POD else 0.0)


@dataclass(frozen=True)
class _Size:
    """How much of everything a request has."""

    nodes: int
    """Those of the session included, as with pods."""
    pods: int
    new_classes: int
    """Pods of different specs among those that come into a session."""
    gpu_pods: int
    crowding: int
    """Sum of the squares of pods per node: what preemption looks through."""
    labels: int
    groups: int
    """Kinds of pods that selectors tell apart."""
    extended: Set[str]
    taints: int
    images: int
    ports: int
    terms: int
    selectors: int
    keys: int


def _node_changes(request: DecideRequest) -> int:
    """After each of these the views of all rows are made anew."""
    return sum(isinstance(change, AddNode | UpdateNode | RemoveNode) for change in request.changes)


def _described(request: DecideRequest) -> tuple[list[NodeWire], list[PodWire]]:
    """Nodes and pods that the request tells of, in its description or its changes."""
    nodes = [*request.nodes]
    nodes += [change.node for change in request.changes if isinstance(change, AddNode | UpdateNode)]
    pods = [pod for node in nodes for pod in node.pods]
    pods += [change.pod for change in request.changes if isinstance(change, AddPod)]
    return nodes, pods


def _size(request: DecideRequest, kept: Kept) -> _Size:
    nodes, listed = _described(request)
    pods = listed if request.pod is None else [request.pod, *listed]
    resources: set[str] = set()
    for named in chain((node.allocatable for node in nodes), (pod.requests for pod in pods)):
        resources.update(named)
    groups: set[object] = set()
    ports: set[object] = set()
    keys: set[str] = set()
    selectors: set[object] = set()
    terms = 0
    for pod in pods:
        groups.add((pod.namespace, *pod.labels.items()))
        ports.update(pod.host_ports)
        for key, selected in _terms(pod):
            terms += 1
            keys.add(key)
            selectors.add((key, selected))
    return _Size(
        nodes=len(nodes) + kept.nodes,
        pods=len(pods) + kept.pods,
        new_classes=len({_spec(pod) for pod in pods}) if kept.nodes else 0,
        gpu_pods=sum(pod.gpu is not None or GPU in pod.requests for pod in listed),
        crowding=sum(len(node.pods) ** 2 for node in nodes),
        labels=sum(len(node.labels) for node in nodes) + sum(len(pod.labels) for pod in pods),
        groups=len(groups),
        extended=resources - _OWN_COLUMN,
        taints=sum(len(node.taints) for node in nodes),
        images=sum(len(node.images) for node in nodes),
        ports=len(ports),
        terms=terms,
        selectors=len(selectors),
        keys=len(keys) + 1,
    )


def _spec(pod: PodWire) -> bytes:
    """What pods of one class have in common."""
    return msgspec.msgpack.encode(msgspec.structs.replace(pod, name="", devices=(), since=0.0))


def _terms(pod: PodWire) -> Iterator[tuple[str, object]]:
    """Topology key and selection of everything about other pods that a pod asks for."""
    for part in (pod.affinity, pod.anti_affinity):
        yield from _affinity_terms(part, pod.namespace)
    for constraint in pod.spread:
        yield constraint.topology_key, (constraint.selector, pod.namespace)


def _affinity_terms(part: PodAffinityWire, namespace: str) -> Iterator[tuple[str, object]]:
    for term in chain(part.required, (term for _, term in part.preferred)):
        yield term.topology_key, (term.selector, term.namespaces or namespace)


def _requirements(pod: PodWire) -> int:
    """Conditions on a node that are looked at for every node."""
    affinity = pod.node_affinity
    terms = chain(affinity.required, (term for _, term in affinity.preferred))
    conditions = sum(1 + len(term.labels.requirements) + len(term.fields.requirements) for term in terms)
    return conditions + len(pod.node_selector)
