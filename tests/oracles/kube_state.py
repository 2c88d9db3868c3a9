"""What runs where, kept as plain objects: the ground on which the reference kube-scheduler stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proreus.model.node import BETA_REGION, BETA_ZONE, REGION, ZONE, Node
from proreus.model.pod import GPU_WHOLE, NodeTerm, Pod, PodTerm
from proreus.model.resources import BASE_COLUMNS, PODS, Resources
from proreus.model.selectors import Operator

NODE_NAME_FIELD = "metadata.name"


@dataclass(frozen=True)
class Running:
    """A pod on a node, since when, and on which GPU devices."""

    pod: Pod
    node: int
    start: float
    order: int
    """How many pods were placed before it: the last word on which of two pods is more important."""
    devices: tuple[int, ...]


class ClusterState:
    """Nodes and the pods running on them; every question is answered by looking at all pods anew."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.running: dict[str, Running] = {}
        self.waiting: list[Pod] = []
        """Pods that exist and have no node, where somebody keeps count of them: budgets ask."""
        self._placements = 0

    def add(self, pod: Pod, node: int, now: float) -> None:
        """Start `pod`; its GPUs are those with the least left that is enough, of equals the lowest index."""
        if pod.name in self.running:
            raise ValueError(f"pod {pod.name!r} runs already")
        gpu = pod.spec.gpu
        left = self.gpu_left(node)
        usable = [device for device in range(len(left)) if left[device] >= gpu.milli]
        usable.sort(key=lambda device: (left[device], device))
        chosen = tuple(sorted(usable[: gpu.count]))
        self.restore(Running(pod, node, now, self._placements, chosen))
        self._placements += 1

    def restore(self, running: Running) -> None:
        """Put a removed pod back exactly as it was, on its own devices."""
        self.running[running.pod.name] = running

    def remove(self, pod_name: str) -> Running:
        """Stop a pod."""
        return self.running.pop(pod_name)

    def on_node(self, node: int) -> list[Running]:
        """The pods of one node in the order in which they were placed."""
        return sorted(
            (each for each in self.running.values() if each.node == node), key=lambda each: each.order
        )

    def gpu_left(self, node: int) -> list[int]:
        """Milli-GPU that nobody uses, per device of the node."""
        left = [GPU_WHOLE] * self.nodes[node].gpu_count
        for running in self.on_node(node):
            for device in running.devices:
                left[device] -= running.pod.spec.gpu.milli
        return left

    def requested(self, node: int) -> dict[str, int]:
        """The sum of the real requests of the pods on the node, by resource name."""
        total: dict[str, int] = {}
        for running in self.on_node(node):
            for name, amount in pod_amounts(running.pod).items():
                total[name] = total.get(name, 0) + amount
        return total


def amounts(resources: Resources) -> dict[str, int]:
    """Resources by name, the columns every cluster has first."""
    return {**dict(zip(BASE_COLUMNS, resources.base(), strict=True)), **dict(resources.extended)}


def pod_amounts(pod: Pod) -> dict[str, int]:
    """What a pod really takes from a node: its requests and exactly one pod slot."""
    return {**amounts(pod.spec.requests), PODS: 1}


def node_term_matches(term: NodeTerm, node: Node) -> bool:
    """Whether a nodeSelectorTerm selects the node; a term without any condition selects nothing.

    The model's Selector without requirements selects everything; for a nodeSelectorTerm Go says the opposite
    (component-helpers nodeaffinity, isEmptyNodeSelectorTerm), for required and preferred terms alike.
    """
    if not term.labels.requirements and not term.fields.requirements:
        return False
    return term.labels.matches(node.label_map()) and term.fields.matches({NODE_NAME_FIELD: node.name})


def node_affinity_allows(pod: Pod, node: Node) -> bool:
    """nodeSelector and, where there are required terms, at least one of them."""
    labels = node.label_map()
    if any(labels.get(key) != value for key, value in pod.spec.node_selector):
        return False
    required = pod.spec.node_affinity.required
    return not required or any(node_term_matches(term, node) for term in required)


def named_nodes(pod: Pod) -> set[str] | None:
    """The nodes that kube looks at if every required term has metadata.name In ...; None: it looks at all.

    Go: nodeaffinity, PreFilter. Several such conditions of a term must hold together, terms are alternatives.
    """
    names: set[str] = set()
    for term in pod.spec.node_affinity.required:
        ins = [
            set(condition.values)
            for condition in term.fields.requirements
            if condition.key == NODE_NAME_FIELD and condition.operator is Operator.IN
        ]
        if not ins:
            return None
        names |= set.intersection(*ins)
    return names if pod.spec.node_affinity.required else None


def pod_term_matches(term: PodTerm, owner: Pod, target: Pod) -> bool:
    """Whether the term that `owner` carries selects `target` (an empty selector selects every pod)."""
    namespaces = term.namespaces or (owner.spec.namespace,)
    return target.spec.namespace in namespaces and term.selector.matches(dict(target.spec.labels))


def zone_of(node: Node) -> tuple[str, str]:
    """What the node tree groups by: region and zone label, those of old first, empty where missing."""
    labels = node.label_map()
    return labels.get(BETA_REGION, labels.get(REGION, "")), labels.get(BETA_ZONE, labels.get(ZONE, ""))


def round_robin_by_zone(nodes: Sequence[Node]) -> Iterator[int]:
    """The first node of every zone, then the second of every zone, and so on."""
    zones: dict[tuple[str, str], list[int]] = {}
    for index, node in enumerate(nodes):
        zones.setdefault(zone_of(node), []).append(index)
    for turn in range(max((len(members) for members in zones.values()), default=0)):
        for members in zones.values():
            if turn < len(members):
                yield members[turn]
