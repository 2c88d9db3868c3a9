"""From Kubernetes objects that are pods, or that own pods, to the model's pods.

Controllers become the pods that they still lack: `replicas` less the pods of the files that they own; for a
Job `completions`, else `parallelism` (all arrive together, parallelism is not enforced), less those that are
done; for a DaemonSet one pod for each node that its selector, affinity and tolerations admit and that has
none, bound to it by affinity as the DaemonSet controller does. A Deployment that owns a ReplicaSet leaves all
to it. Pods that state no spread constraint get the scheduler's two defaults where a Service, a ReplicaSet, a
ReplicationController or a StatefulSet selects them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from proreus.data.cursor import Entry
from proreus.kube.default_spread import SPREADING, OwnerKey, controller_of, selector_of, with_default_spread
from proreus.kube.pods import TemplateReferences, read_pod_spec
from proreus.model.node import Effect, Node, Toleration, hard_effect
from proreus.model.pod import NODE_NAME_FIELD, NodeAffinity, NodeTerm, Pod, PodSpec
from proreus.model.selectors import Operator, Requirement, Selector

ARRIVAL = "proreus.io/arrival"
DURATION = "proreus.io/duration"

MOST_REPLICAS = 1_000_000
"""More than any cluster runs: a larger number is a slip of the keyboard, not a workload."""

_OUR_SCHEDULER = "default-scheduler"
_COMPLETED = ("Succeeded", "Failed")
_GRACE_SECONDS = 30
"""How long a pod that is being deleted may still run, where it does not say."""

# What the DaemonSet controller adds to its pods, so that they also start on troubled nodes.
_DAEMON_TOLERATIONS = (
    Toleration("node.kubernetes.io/not-ready", exists=True, effect=Effect.NO_EXECUTE),
    Toleration("node.kubernetes.io/unreachable", exists=True, effect=Effect.NO_EXECUTE),
    Toleration("node.kubernetes.io/disk-pressure", exists=True, effect=Effect.NO_SCHEDULE),
    Toleration("node.kubernetes.io/memory-pressure", exists=True, effect=Effect.NO_SCHEDULE),
    Toleration("node.kubernetes.io/pid-pressure", exists=True, effect=Effect.NO_SCHEDULE),
    Toleration("node.kubernetes.io/unschedulable", exists=True, effect=Effect.NO_SCHEDULE),
)


def namespace_of(item: Entry) -> str:
    """The namespace that an object is in."""
    return item.text_at("metadata.namespace", "default")


@dataclass(frozen=True)
class PodReader:
    """Turns objects that own pods into pods."""

    nodes: tuple[Node, ...]
    around: TemplateReferences
    objects: Mapping[str, Sequence[Entry]]
    """What the files hold, by kind."""
    left_out: Counter[str]
    """Pods that are not taken, by the reason: counted here."""

    def lone_pod(self, item: Entry) -> Iterator[Pod]:
        """A Pod object, unless it is done or another's business."""
        if item.text_at("status.phase") in _COMPLETED:
            self.left_out["pods that are done"] += 1
            return
        if not item.text_at("spec.nodeName") and item.find("metadata.deletionTimestamp") is not None:
            self.left_out["pods that are deleted before they ran"] += 1
            return
        owner = controller_of(item)
        selector = self._selectors.get(owner, Selector()) if owner else Selector()
        yield from self._pods(item, self._spread(self._spec(item, item), selector), item, [self._name(item)])

    def replicated(self, item: Entry) -> Iterator[Pod]:
        """The replicas of a Deployment, ReplicaSet, ReplicationController or StatefulSet that are missing."""
        template = item.require("spec.template")
        spec = self._spec(item, template)
        selector = selector_of(item, item.require("kind").text())
        if not selector.matches(dict(spec.labels)):
            raise item.require("spec.selector").fail("the selector does not match the template's labels")
        count = item.integer_at("spec.replicas", 1, maximum=MOST_REPLICAS)
        if _key(item) in self._owning_sets:
            return
        yield from self._pods(item, self._spread(spec, selector), template, self._missing(item, count))

    def job(self, item: Entry) -> Iterator[Pod]:
        """The completions of a Job that are still to come."""
        template = item.require("spec.template")
        parallelism = item.integer_at("spec.parallelism", 1, maximum=MOST_REPLICAS)
        count = item.integer_at("spec.completions", parallelism, maximum=MOST_REPLICAS)
        over = any(
            each.text_at("type") in ("Complete", "Failed") and each.text_at("status") == "True"
            for each in item.children("status.conditions")
        )
        if over or item.truth_at("spec.suspend"):
            return
        count -= item.integer_at("status.succeeded", 0)
        spec = self._spread(self._spec(item, template), Selector())
        for pod in self._pods(item, spec, template, self._missing(item, count)):
            yield replace(pod, job=self._name(item))

    def daemon(self, item: Entry) -> Iterator[Pod]:
        """One pod of a DaemonSet for each node that admits it and has none yet."""
        template = item.require("spec.template")
        spec = self._spec(item, template)
        spec = replace(spec, tolerations=(*spec.tolerations, *_DAEMON_TOLERATIONS))
        spec = self._spread(spec, Selector())
        served = {place for pod in self._owned(item) for place in self._places(pod)}
        for node in self.nodes:
            if node.name not in served and _admits(node, spec):
                here = NodeTerm(fields=Selector((Requirement(NODE_NAME_FIELD, Operator.IN, (node.name,)),)))
                bound = replace(spec, node_affinity=NodeAffinity((here,), spec.node_affinity.preferred))
                yield from self._pods(item, bound, template, [f"{self._name(item)}-{node.name}"])

    def _spec(self, item: Entry, template: Entry) -> PodSpec:
        return read_pod_spec(template, replace(self.around, namespace=namespace_of(item)))

    def _pods(self, item: Entry, spec: PodSpec, template: Entry, names: Sequence[str]) -> Iterator[Pod]:
        if not spec.node_name:
            whose = template.text_at("spec.schedulerName") or _OUR_SCHEDULER
            if whose != _OUR_SCHEDULER:
                self.left_out[f"pods for the scheduler {whose}"] += len(names)
                return
            if template.children("spec.schedulingGates"):
                self.left_out["pods that wait at a scheduling gate"] += len(names)
                return
        arrival = _seconds(item, template, ARRIVAL, 0.0)
        stays = math.inf
        if spec.terminating:
            stays = float(template.integer_at("metadata.deletionGracePeriodSeconds", _GRACE_SECONDS))
        duration = _seconds(item, template, DURATION, stays)
        # Who names a node is not scheduled: the filters are not asked, and what is evicted may go elsewhere.
        node, spec = spec.node_name, replace(spec, node_name="")
        for name in names:
            yield Pod(name, spec, arrival, duration, node=node)

    def _name(self, item: Entry) -> str:
        """The object's name; outside the default namespace with the namespace, so that names stay unique."""
        name, namespace = item.require("metadata.name").text(), namespace_of(item)
        return name if namespace == "default" else f"{namespace}/{name}"

    def _spread(self, spec: PodSpec, owner: Selector) -> PodSpec:
        return with_default_spread(spec, self._services, owner)

    @cached_property
    def _services(self) -> list[tuple[str, dict[str, str]]]:
        """(namespace, selector) of every Service."""
        return [(namespace_of(s), dict(s.texts("spec.selector"))) for s in self.objects.get("Service", ())]

    @cached_property
    def _selectors(self) -> dict[OwnerKey, Selector]:
        """The selectors of the owners that count for the default spread."""
        return {
            _key(item): selector_of(item, kind) for kind in SPREADING for item in self.objects.get(kind, ())
        }

    @cached_property
    def _owning_sets(self) -> set[OwnerKey | None]:
        """Owners of ReplicaSets: their pods are those of the sets."""
        return {controller_of(item) for item in self.objects.get("ReplicaSet", ())}

    @cached_property
    def _pods_of(self) -> dict[OwnerKey, list[Entry]]:
        """The pods that live, by who owns them."""
        pods: dict[OwnerKey, list[Entry]] = {}
        for item in self.objects.get("Pod", ()):
            owner = controller_of(item)
            done = item.text_at("status.phase") in _COMPLETED
            if owner and not done and item.find("metadata.deletionTimestamp") is None:
                pods.setdefault(owner, []).append(item)
        return pods

    def _owned(self, item: Entry) -> list[Entry]:
        return self._pods_of.get(_key(item), [])

    def _missing(self, item: Entry, count: int) -> list[str]:
        """Names for the pods that an owner of `count` pods has yet to make."""
        owned = {self._name(pod) for pod in self._owned(item)}
        fresh = (f"{self._name(item)}-{index}" for index in itertools.count())
        wanted = max(0, count - len(owned))
        return list(itertools.islice((name for name in fresh if name not in owned), wanted))

    def _places(self, pod: Entry) -> frozenset[str]:
        """The nodes that a daemon's pod is on, or is bound to."""
        spec = self._spec(pod, pod)
        return frozenset({spec.node_name}) if spec.node_name else spec.node_affinity.names() or frozenset()


EXPANSIONS: Mapping[str, Callable[[PodReader, Entry], Iterator[Pod]]] = MappingProxyType(
    {
        "Pod": PodReader.lone_pod,
        "Deployment": PodReader.replicated,
        "ReplicaSet": PodReader.replicated,
        "ReplicationController": PodReader.replicated,
        "StatefulSet": PodReader.replicated,
        "DaemonSet": PodReader.daemon,
        "Job": PodReader.job,
    }
)


def _key(item: Entry) -> OwnerKey:
    return item.require("kind").text(), namespace_of(item), item.require("metadata.name").text()


def _admits(node: Node, spec: PodSpec) -> bool:
    """Whether the DaemonSet controller would start a pod of this spec on the node."""
    labels = node.label_map()
    if spec.node_name not in ("", node.name):
        return False
    if any(labels.get(key) != value for key, value in spec.node_selector):
        return False
    if not spec.node_affinity.allows(node.name, labels):
        return False
    hard = (taint for taint in node.taints if hard_effect(taint.effect))
    return all(any(toleration.tolerates(taint) for toleration in spec.tolerations) for taint in hard)


def _seconds(item: Entry, template: Entry, name: str, default: float) -> float:
    for holder in (template, item):
        for key, value in holder.entries("metadata.annotations"):
            if key == name:
                return value.number()
    return default
