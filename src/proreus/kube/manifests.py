"""Plain Kubernetes manifests as a workload: what `kubectl get -o yaml` prints or `kubectl apply` takes.

Nodes, pods and what owns pods (Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)
make the workload; PriorityClass, PodDisruptionBudget, Service, Namespace and PersistentVolumeClaim have a say
in where pods go; a List holds any of them. Objects of other kinds are counted and left out, as are pods that
are done or that another scheduler is to place: one line of the log tells of them.

A pod that names its node is on it from the start. Controllers become the pods that they still lack (see
`owners`). The annotations `proreus.io/arrival` and `proreus.io/duration` (seconds; on the object, or on its
template, which wins) place pods in time; without them a pod arrives at 0 and stays.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType

from proreus.data.cursor import Entry
from proreus.data.yaml_tree import read_documents
from proreus.kube.budgets import read_budget
from proreus.kube.nodes import read_node
from proreus.kube.owners import EXPANSIONS, MOST_REPLICAS, PodReader, namespace_of
from proreus.kube.pods import NAMESPACE_NAME, PriorityClass, TemplateReferences, read_preemption_policy
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import Pod
from proreus.model.selectors import Selector
from proreus.model.workload import Workload

BUILT_IN_PRIORITIES = MappingProxyType(
    {
        "system-cluster-critical": PriorityClass(2_000_000_000),
        "system-node-critical": PriorityClass(2_000_001_000),
    }
)

# The API group of each kind that matters: others may use the same word for something else.
_GROUPS = MappingProxyType(
    {
        "Node": "",
        "Pod": "",
        "ReplicationController": "",
        "Service": "",
        "Namespace": "",
        "PersistentVolumeClaim": "",
        "Deployment": "apps",
        "ReplicaSet": "apps",
        "StatefulSet": "apps",
        "DaemonSet": "apps",
        "Job": "batch",
        "PriorityClass": "scheduling.k8s.io",
        "PodDisruptionBudget": "policy",
    }
)
_log = logging.getLogger(__name__)


def read_manifests(paths: Sequence[Path]) -> Workload:
    """Everything in the files as one workload, named after the first of them."""
    left_out: Counter[str] = Counter()
    objects = [
        item for path in paths for document in read_documents(path) for item in _flatten(document, left_out)
    ]
    by_kind: dict[str, list[Entry]] = {}
    for item in objects:
        by_kind.setdefault(item.require("kind").text(), []).append(item)
    nodes = _read_nodes(by_kind.get("Node", []))
    if not nodes:
        raise InputError("the manifests hold no Node", file=paths[0] if paths else None, field="kind")
    reader = PodReader(nodes, _surroundings(by_kind), by_kind, left_out)
    node_names = {node.name for node in nodes}
    pods: dict[tuple[str, str], Pod] = {}
    for item in objects:
        expand = EXPANSIONS.get(item.require("kind").text())
        for pod in expand(reader, item) if expand else ():
            if len(pods) >= MOST_REPLICAS:
                raise item.require("metadata.name").fail(f"more than {MOST_REPLICAS:,} pods in all")
            if (pod.spec.namespace, pod.name) in pods:
                raise item.require("metadata.name").fail(f"two pods are named {pod.name!r}")
            if pod.node and pod.node not in node_names:
                raise item.require("spec").fail(f"there is no node {pod.node!r}")
            pods[pod.spec.namespace, pod.name] = pod
    if left_out:
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(left_out.items()))
        _log.warning("%s: left out %s", paths[0].name, counts)
    ordered = tuple(sorted(pods.values(), key=lambda pod: pod.arrival))

    def covered(namespace: str, selector: Selector) -> int:
        return sum(
            pod.spec.namespace == namespace and selector.matches(dict(pod.spec.labels)) for pod in ordered
        )

    budgets = tuple(read_budget(item, covered) for item in by_kind.get("PodDisruptionBudget", []))
    return Workload(paths[0].stem, nodes, ordered, budgets)


def _flatten(document: Entry, left_out: Counter[str]) -> Iterator[Entry]:
    """The objects of a document that matter: itself, or what a List holds."""
    kind = document.require("kind")
    if kind.text() == "List":
        for item in document.children("items"):
            if item.require("kind").text() == "List":
                raise item.require("kind").fail("a List within a List")
            yield from _flatten(item, left_out)
        return
    group = _GROUPS.get(kind.text())
    stated = document.find("apiVersion")
    if group is None or (stated is not None and stated.text().rpartition("/")[0] != group):
        left_out[f"of kind {kind.text()}"] += 1
    else:
        yield document


def _read_nodes(items: Sequence[Entry]) -> tuple[Node, ...]:
    nodes: dict[str, Node] = {}
    for item in items:
        node = read_node(item)
        if node.name in nodes:
            raise item.require("metadata.name").fail(f"two nodes are named {node.name!r}")
        nodes[node.name] = node
    return tuple(nodes.values())


def _surroundings(by_kind: dict[str, list[Entry]]) -> TemplateReferences:
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
    named = {namespace_of(item) for kind in EXPANSIONS for item in by_kind.get(kind, [])}
    namespaces = {name: {NAMESPACE_NAME: name} for name in sorted(named)}
    for item in by_kind.get("Namespace", []):
        name = item.require("metadata.name").text()
        namespaces[name] = {**dict(item.texts("metadata.labels")), NAMESPACE_NAME: name}
    claims = frozenset(
        (namespace_of(item), item.require("metadata.name").text())
        for item in by_kind.get("PersistentVolumeClaim", [])
    )
    return TemplateReferences("default", classes, default, namespaces, claims)
