"""What was measured, for whoever asks: leases and notes of nodes, beside the objects that they are about.

A node that is not ready is left out, and its pods are: what it used when it was last heard of says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import LEASE, LEASE_NAMESPACE, NODE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.protocol import NodeUse, PodUse, Use
from proreus.engine.runtimes.stats import NODE as THE_NODE
from proreus.engine.runtimes.stats import TOPIC, USED_CPU, USED_MEMORY, Measures, Trend, decode
from proreus.model.resources import parse_quantity

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeMeasured:
    """A node that was heard of."""

    node: Object
    at: str
    """When it was measured, as Kubernetes writes it."""
    use: NodeUse
    """CPU and memory at least; the rest where its agent tells it."""
    minutes: Trend
    """The last quarter of an hour by the minute, as far as its agent has told it."""


@dataclass(frozen=True, slots=True)
class PodMeasured:
    """A pod of which a container runs."""

    pod: Object
    at: str
    containers: tuple[Use, ...]
    beside: PodUse
    """What belongs to none of them alone."""
    minutes: Trend
    """As of a node."""

    @property
    def cpu(self) -> int:
        """Thousandths of a core."""
        return sum(container.cpu for container in self.containers)

    @property
    def memory(self) -> int:
        """Bytes."""
        return sum(container.memory for container in self.containers)

    @property
    def disk(self) -> int:
        """Bytes, those in its volumes included."""
        return sum(container.disk for container in self.containers) + self.beside.volumes


class MeasuredUsage:
    """Reads it all from the registry; keeps nothing."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._notes = registry, registry.notes(TOPIC)

    async def nodes(self) -> list[NodeMeasured]:
        """Those that are well and have been measured, by name."""
        leases = {lease["metadata"]["name"]: lease for lease in await self._leases()}
        measures = await self._told()
        nodes = (await self._registry.list(NODE)).items
        return list(_measured_nodes(nodes, leases, measures))

    async def node(self, name: str) -> NodeMeasured:
        """One of them; `NotFound`."""
        node = await self._registry.get(NODE, "", name)
        lease = await self._registry.get(LEASE, LEASE_NAMESPACE, name)
        note = await self._notes.get(name)
        measures = {} if note is None else {name: _decoded(note)}
        for measured_node in _measured_nodes([node], {name: lease}, measures):
            return measured_node
        raise NotFound(f'nodes.metrics.k8s.io "{name}" not found', kind="nodes.metrics.k8s.io", name=name)

    async def pods(self, namespace: str = "") -> list[PodMeasured]:
        """Those that run and have been measured, by namespace and name."""
        nodes = {node.node["metadata"]["name"]: node.at for node in await self.nodes()}
        by_node = {name: measures for name, measures in (await self._told()).items() if name in nodes}
        pods = (await self._registry.list(POD, namespace)).items
        return list(_measured_pods(pods, nodes, by_node))

    async def pod(self, namespace: str, name: str) -> PodMeasured:
        """One of them; `NotFound`."""
        pod = await self._registry.get(POD, namespace, name)
        node = pod["spec"].get("nodeName") or ""
        note = await self._notes.get(node) if node else None
        if note is not None:
            at = (await self.node(node)).at
            for measured_pod in _measured_pods([pod], {node: at}, {node: _decoded(note)}):
                return measured_pod
        raise NotFound(
            f'pods.metrics.k8s.io "{namespace}/{name}" not found', kind="pods.metrics.k8s.io", name=name
        )

    async def containers(self) -> dict[str, tuple[Use, ...]]:
        """What is told of each pod's containers, by its uid."""
        by_pod: dict[str, list[Use]] = {}
        for measures in (await self._told()).values():
            for use in measures.containers:
                by_pod.setdefault(use.uid, []).append(use)
        return {uid: tuple(uses) for uid, uses in by_pod.items()}

    async def _leases(self) -> list[Object]:
        return (await self._registry.list(LEASE, LEASE_NAMESPACE)).items

    async def _told(self) -> dict[str, Measures]:
        return {name: _decoded(note) for name, note in (await self._notes.all()).items()}


def load_of(lease: Mapping[str, Any]) -> tuple[int, int] | None:
    """CPU and memory that a node's lease tells of; None where it tells nothing that can be read."""
    annotations = lease["metadata"].get("annotations") or {}
    try:
        return parse_quantity(annotations[USED_CPU], scale=1000), parse_quantity(annotations[USED_MEMORY])
    except (KeyError, ValueError):
        return None


def _decoded(note: bytes) -> Measures:
    try:
        return decode(note)
    except msgspec.MsgspecError:  # of another version of this program
        return Measures(NodeUse())


def _measured_nodes(
    nodes: Iterable[Object], leases: Mapping[str, Object], by_node: Mapping[str, Measures]
) -> Iterable[NodeMeasured]:
    for node in nodes:
        name = node["metadata"]["name"]
        lease = leases.get(name)
        load = None if lease is None else load_of(lease)
        if lease is None or load is None or not _ready(node):
            continue
        measures = by_node.get(name, Measures(NodeUse()))
        cpu, memory = load
        at = str(lease["spec"].get("renewTime") or "")
        use = replace(measures.node, cpu=cpu, memory=memory)
        yield NodeMeasured(node, at, use, measures.trends.get(THE_NODE, Trend()))


def _measured_pods(
    pods: Iterable[Object], nodes: Mapping[str, str], by_node: Mapping[str, Measures]
) -> Iterable[PodMeasured]:
    containers: dict[str, list[Use]] = {}
    beside: dict[str, PodUse] = {}
    for measures in by_node.values():
        for use in measures.containers:
            containers.setdefault(use.uid, []).append(use)
        beside.update((pod_use.uid, pod_use) for pod_use in measures.pods)
    for pod in pods:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName") or ""
        if uid in containers and node in nodes:
            minutes = by_node[node].trends.get(uid, Trend()) if node in by_node else Trend()
            uses = tuple(containers[uid])
            yield PodMeasured(pod, nodes[node], uses, beside.get(uid, PodUse(uid)), minutes)


def _ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
    )
