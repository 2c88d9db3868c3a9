"""Plain Kubernetes manifests as a workload: what `kubectl get -o yaml` prints or `kubectl apply` takes.

Kinds: Node, Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, PriorityClass, PodDisruptionBudget,
and List of these; any other kind is an error. The command line calls `read_manifests`.

Controllers become their pods: `replicas` of them; for a Job `completions`, else `parallelism` (all arrive
together, parallelism is not enforced); for a DaemonSet one pod bound by name to each node that its
selector, affinity and tolerations admit. Pods of a Deployment, ReplicaSet or StatefulSet that state no
spread constraint get the scheduler's two defaults. The annotations `proreus.io/arrival` and
`proreus.io/duration` (seconds; on the object, or on its template, which wins) place pods in time; without
them a pod arrives at 0 and stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from proreus.kube.constraints import read_label_selector
from proreus.kube.nodes import read_node
from proreus.kube.pods import PriorityClass, Surroundings, read_pod_spec, read_preemption_policy
from proreus.model.errors import InputError
from proreus.model.node import HOSTNAME, ZONE, Effect, Node, Toleration, hard_effect
from proreus.model.pod import Pod, PodSpec, SpreadConstraint
from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget, Workload
from proreus.reading.table import parse_number, shown
from proreus.reading.tree import Entry
from proreus.reading.yamltree import read_documents

ARRIVAL = "proreus.io/arrival"
DURATION = "proreus.io/duration"

MOST_REPLICAS = 1_000_000
"""More than any cluster runs: a larger number is a slip of the keyboard, not a workload."""

BUILT_IN_PRIORITIES = MappingProxyType(
    {
        "system-cluster-critical": PriorityClass(2_000_000_000),
        "system-node-critical": PriorityClass(2_000_001_000),
    }
)

# What the DaemonSet controller adds to its pods, so that they also start on troubled nodes.
_DAEMON_TOLERATIONS = (
    Toleration("node.kubernetes.io/not-ready", exists=True, effect=Effect.NO_EXECUTE),
    Toleration("node.kubernetes.io/unreachable", exists=True, effect=Effect.NO_EXECUTE),
    Toleration("node.kubernetes.io/disk-pressure", exists=True, effect=Effect.NO_SCHEDULE),
    Toleration("node.kubernetes.io/memory-pressure", exists=True, effect=Effect.NO_SCHEDULE),
    Toleration("node.kubernetes.io/pid-pressure", exists=True, effect=Effect.NO_SCHEDULE),
    Toleration("node.kubernetes.io/unschedulable", exists=True, effect=Effect.NO_SCHEDULE),
)


def read_manifests(paths: Sequence[Path]) -> Workload:
    """Everything in the files as one workload, named after the first of them."""
    objects = [item for path in paths for document in read_documents(path) for item in _flatten(document)]
    by_kind: dict[str, list[Entry]] = {}
    for item in objects:
        by_kind.setdefault(item.require("kind").text(), []).append(item)
    nodes = _read_nodes(by_kind.get("Node", []))
    if not nodes:
        raise InputError("the manifests hold no Node", file=paths[0] if paths else None, field="kind")
    reader = _PodReader(nodes, _surroundings(by_kind))
    pods: dict[tuple[str, str], Pod] = {}
    for item in objects:
        expand = _EXPANSIONS.get(item.require("kind").text())
        for pod in expand(reader, item) if expand else ():
            if (pod.spec.namespace, pod.name) in pods:
                raise item.require("metadata.name").fail(f"two pods are named {pod.name!r}")
            if pod.spec.node_name and pod.spec.node_name not in reader.node_names:
                raise item.require("spec").fail(f"there is no node {pod.spec.node_name!r}")
            pods[pod.spec.namespace, pod.name] = pod
    ordered = tuple(sorted(pods.values(), key=lambda pod: pod.arrival))
    budgets = tuple(_read_budget(item, ordered) for item in by_kind.get("PodDisruptionBudget", []))
    return Workload(paths[0].stem, nodes, ordered, budgets)


def _flatten(document: Entry) -> Iterator[Entry]:
    """The objects of a document: itself, or what a List holds."""
    kind = document.require("kind")
    if kind.text() == "List":
        for item in document.children("items"):
            if item.require("kind").text() == "List":
                raise item.require("kind").fail("a List within a List")
            yield from _flatten(item)
    elif kind.text() in _EXPANSIONS or kind.text() in _OTHER_KINDS:
        yield document
    else:
        known = ", ".join(sorted({*_EXPANSIONS, *_OTHER_KINDS, "List"}))
        raise kind.fail(f"unknown kind {shown(kind.text())} (known: {known})")


def _read_nodes(items: Sequence[Entry]) -> tuple[Node, ...]:
    nodes: dict[str, Node] = {}
    for item in items:
        node = read_node(item)
        if node.name in nodes:
            raise item.require("metadata.name").fail(f"two nodes are named {node.name!r}")
        nodes[node.name] = node
    return tuple(nodes.values())


def _surroundings(by_kind: dict[str, list[Entry]]) -> Surroundings:
    classes = dict(BUILT_IN_PRIORITIES)
    default = PriorityClass(0)
    for item in by_kind.get("PriorityClass", []):
        policy = item.find("preemptionPolicy")
        priority = PriorityClass(
            item.require("value").integer(minimum=-(2**31)),
            policy is None or read_preemption_policy(policy),
        )
        classes[item.require("metadata.name").text()] = priority
        if item.truth_at("globalDefault"):
            default = priority
    namespaces = {_namespace(item) for kind in _EXPANSIONS for item in by_kind.get(kind, [])}
    return Surroundings("default", classes, default, tuple(sorted(namespaces)))


def _namespace(item: Entry) -> str:
    return item.text_at("metadata.namespace", "default")


@dataclass(frozen=True)
class _PodReader:
    """Turns objects that own pods into pods."""

    nodes: tuple[Node, ...]
    around: Surroundings

    @property
    def node_names(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes)

    def lone_pod(self, item: Entry) -> Iterator[Pod]:
        """A Pod object."""
        yield from self._pods(item, self._spec(item, item), item, [self._name(item)])

    def replicated(self, item: Entry) -> Iterator[Pod]:
        """The replicas of a Deployment, ReplicaSet or StatefulSet."""
        template = item.require("spec.template")
        spec = self._spec(item, template)
        selector = read_label_selector(item.require("spec.selector"))
        if not selector.matches(dict(spec.labels)):
            raise item.require("spec.selector").fail("the selector does not match the template's labels")
        if not spec.spread:
            spec = replace(spec, spread=_default_spread(selector))
        count = item.integer_at("spec.replicas", 1, maximum=MOST_REPLICAS)
        names = [f"{self._name(item)}-{index}" for index in range(count)]
        yield from self._pods(item, spec, template, names)

    def job(self, item: Entry) -> Iterator[Pod]:
        """The completions of a Job."""
        template = item.require("spec.template")
        parallelism = item.integer_at("spec.parallelism", 1, maximum=MOST_REPLICAS)
        count = item.integer_at("spec.completions", parallelism, maximum=MOST_REPLICAS)
        names = [f"{self._name(item)}-{index}" for index in range(count)]
        for pod in self._pods(item, self._spec(item, template), template, names):
            yield replace(pod, job=self._name(item))

    def daemon(self, item: Entry) -> Iterator[Pod]:
        """One pod of a DaemonSet for each node that admits it."""
        template = item.require("spec.template")
        spec = self._spec(item, template)
        spec = replace(spec, tolerations=(*spec.tolerations, *_DAEMON_TOLERATIONS))
        for node in self.nodes:
            if _admits(node, spec):
                bound = replace(spec, node_name=node.name)
                yield from self._pods(item, bound, template, [f"{self._name(item)}-{node.name}"])

    def _spec(self, item: Entry, template: Entry) -> PodSpec:
        return read_pod_spec(template, replace(self.around, namespace=_namespace(item)))

    def _pods(self, item: Entry, spec: PodSpec, template: Entry, names: Sequence[str]) -> Iterator[Pod]:
        arrival = _seconds(item, template, ARRIVAL, 0.0)
        duration = _seconds(item, template, DURATION, math.inf)
        for name in names:
            yield Pod(name, spec, arrival, duration)

    def _name(self, item: Entry) -> str:
        """The object's name; outside the default namespace with the namespace, so that names stay unique."""
        name, namespace = item.require("metadata.name").text(), _namespace(item)
        return name if namespace == "default" else f"{namespace}/{name}"


_EXPANSIONS: MappingProxyType[str, Callable[[_PodReader, Entry], Iterator[Pod]]] = MappingProxyType(
    {
        "Pod": _PodReader.lone_pod,
        "Deployment": _PodReader.replicated,
        "ReplicaSet": _PodReader.replicated,
        "StatefulSet": _PodReader.replicated,
        "DaemonSet": _PodReader.daemon,
        "Job": _PodReader.job,
    }
)
_OTHER_KINDS = frozenset({"Node", "PriorityClass", "PodDisruptionBudget"})


def _default_spread(selector: Selector) -> tuple[SpreadConstraint, ...]:
    return (
        SpreadConstraint(selector, HOSTNAME, max_skew=3, hard=False, system_default=True),
        SpreadConstraint(selector, ZONE, max_skew=5, hard=False, system_default=True),
    )


def _admits(node: Node, spec: PodSpec) -> bool:
    """Whether the DaemonSet controller would start a pod of this spec on the node."""
    labels = node.label_map()
    if any(labels.get(key) != value for key, value in spec.node_selector):
        return False
    terms = spec.node_affinity.required
    fields = {"metadata.name": node.name}
    if terms and not any(term.labels.matches(labels) and term.fields.matches(fields) for term in terms):
        return False
    hard = (taint for taint in node.taints if hard_effect(taint.effect))
    return all(any(toleration.tolerates(taint) for toleration in spec.tolerations) for taint in hard)


def _seconds(item: Entry, template: Entry, name: str, default: float) -> float:
    for holder in (template, item):
        for key, value in holder.entries("metadata.annotations"):
            if key == name:
                return value.number()
    return default


def _read_budget(item: Entry, pods: Sequence[Pod]) -> DisruptionBudget:
    selector = read_label_selector(item.find("spec.selector"))
    namespace = _namespace(item)
    lowest, highest = item.find("spec.minAvailable"), item.find("spec.maxUnavailable")
    if (lowest is None) == (highest is None):
        raise item.require("spec").fail("a disruption budget has either minAvailable or maxUnavailable")
    covered = sum(pod.spec.namespace == namespace and selector.matches(dict(pod.spec.labels)) for pod in pods)
    return DisruptionBudget(
        name=item.require("metadata.name").text(),
        selector=selector,
        namespace=namespace,
        min_available=None if lowest is None else _pod_count(lowest, covered),
        max_unavailable=None if highest is None else _pod_count(highest, covered),
    )


def _pod_count(entry: Entry, covered: int) -> int:
    """A number of pods, or a percentage of the `covered` ones, rounded up as Kubernetes does."""
    text = entry.text()
    if not text.endswith("%"):
        return entry.integer()
    try:
        percentage = parse_number(text.removesuffix("%"))
    except ValueError as error:
        raise entry.fail(str(error)) from None
    return math.ceil(percentage * covered / 100)
