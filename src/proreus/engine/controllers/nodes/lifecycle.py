"""Nodes that fall silent, without I/O: leases, nodes and pods go in; conditions, taints, evictions come out.

A node lives as long as its lease changes, by this agent's own steady clock: neither the node's clock nor a
jump of ours matters. One that is silent for the grace gets the status Unknown and the taints that keep new
pods away; its pods stay as long as they tolerate that, then they are deleted, and whoever owns them makes
others elsewhere. Where all nodes fall silent at once it is more likely that we are cut off: then nobody is
evicted, and the waiting begins anew when the first node is heard again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.controllers.instructions import DeleteObject, Instruction, RecordEvent, UpdateObject
from proreus.engine.controllers.nodes.taint_eviction import (
    BY_TAINT,
    DEFAULT_SECONDS,
    NOT_READY,
    UNREACHABLE,
    executing,
    seconds_kept,
)
from proreus.engine.objects.conditions import Condition, find_condition, with_conditions
from proreus.engine.objects.kinds import NODE, POD
from proreus.engine.objects.metadata import Object, deleting, key_of, name_of, uid_of
from proreus.engine.objects.timestamps import timestamp
from proreus.engine.runtimes.clock import Moment

_SILENT = Condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_LONGEST_BETWEEN_TICKS = 10.0
_CORDONED = "node.kubernetes.io/unschedulable"
_OURS = frozenset({NOT_READY, UNREACHABLE, _CORDONED, *_PRESSURES.values()})


@dataclass(frozen=True)
class Patience:
    """How long silence is borne."""

    grace: float = 40.0
    """Seconds without a sign of life until a node counts as lost."""
    toleration: float = DEFAULT_SECONDS
    """Seconds that pods stay on it that do not say."""


@dataclass
class _Node:
    object: Object
    heard: float
    """When its lease was last seen to change, by the steady clock."""
    lease: str = ""
    tainted: float | None = None
    """Since when it has NoExecute taints."""


@dataclass
class NodeLifecycle:
    patience: Patience = field(default_factory=Patience)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _pods: dict[str, dict[tuple[str, str], Object]] = field(default_factory=dict)
    _leases: dict[str, str] = field(default_factory=dict)
    _cut_off: bool = False
    _last_tick: float | None = None

    def node(self, node: Object, now: Moment) -> None:
        """A node has come or changed."""
        name = name_of(node)
        known = self._nodes.get(name)
        if known is None or uid_of(known.object) != uid_of(node):
            known = self._nodes[name] = _Node(node, now.steady, self._leases.get(name, ""))
        known.object = node
        if not executing(node):
            known.tainted = None
        elif known.tainted is None:
            known.tainted = now.steady

    def node_gone(self, name: str) -> None:
        """It was deleted."""
        self._nodes.pop(name, None)

    def lease(self, name: str, renewed: str, now: Moment) -> None:
        """A sign of life, if it is another than the last."""
        if self._leases.get(name) != renewed:
            self._leases[name] = renewed
            node = self._nodes.get(name)
            if node is not None:
                node.heard = now.steady

    def pod(self, pod: Object, previous: Object | None = None) -> None:
        """A pod has come or changed."""
        if previous is not None:
            self.pod_gone(previous)
        if node := pod["spec"].get("nodeName"):
            self._pods.setdefault(node, {})[key_of(pod)] = pod

    def pod_gone(self, pod: Object) -> None:
        """It is not there any more."""
        on_node = self._pods.get(pod["spec"].get("nodeName") or "")
        if on_node is not None:
            on_node.pop(key_of(pod), None)

    def tick(self, now: Moment) -> list[Instruction]:
        """What is to be done by now; to be called every few seconds."""
        instructions: list[Instruction] = []
        self._excuse_own_absence(now)
        silent = {name: self._silent(node, now) for name, node in self._nodes.items()}
        cut_off = len(silent) > 1 and all(silent.values())
        if self._cut_off and not cut_off:
            for node in self._nodes.values():
                node.tainted = now.steady if node.tainted is not None else None
        self._cut_off = cut_off
        for name, node in self._nodes.items():
            instructions += self._judged(node, silent[name], now)
            if not cut_off:
                instructions += self._evicted(name, node, now)
        return instructions

    def orphans(self) -> list[Object]:
        """Pods that are bound to nodes that do not stand: nobody will ever end them."""
        return [pod for node, pods in self._pods.items() if node not in self._nodes for pod in pods.values()]

    def _excuse_own_absence(self, now: Moment) -> None:
        """Where we ourselves did not look for long, silence meanwhile is nobody's fault."""
        if self._last_tick is not None:
            away = now.steady - self._last_tick - _LONGEST_BETWEEN_TICKS
            if away > 0:
                for node in self._nodes.values():
                    node.heard += away
        self._last_tick = now.steady

    def _silent(self, node: _Node, now: Moment) -> bool:
        return now.steady - node.heard > self.patience.grace

    def _judged(self, node: _Node, silent: bool, now: Moment) -> Iterator[Instruction]:
        """Its conditions, then its taints by its conditions."""
        standing = node.object
        ready = find_condition(standing, "Ready")
        if silent and (ready is None or ready["status"] != "Unknown"):
            status = standing.get("status") or {}
            conditions = with_conditions(status.get("conditions") or (), _unknown(status), now.wall)
            yield UpdateObject(NODE, {**standing, "status": {**status, "conditions": conditions}}, "status")
            message = f"Node {name_of(standing)} status is now: NodeNotReady"
            yield RecordEvent(NODE, standing, "Normal", "NodeNotReady", message)
            return  # the taints follow when this is seen
        taints = list(_wanted_taints(standing, now.wall))
        if taints != (standing["spec"].get("taints") or []):
            others = {key: value for key, value in standing["spec"].items() if key != "taints"}
            spec = {**others, "taints": taints} if taints else others
            yield UpdateObject(NODE, {**standing, "spec": spec})

    def _evicted(self, name: str, node: _Node, now: Moment) -> Iterator[Instruction]:
        taints = executing(node.object)
        if not taints or node.tainted is None:
            return
        for pod in list(self._pods.get(name, {}).values()):
            if deleting(pod) or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            kept = seconds_kept(pod, taints, self.patience.toleration)
            if kept is not None and now.steady >= node.tainted + kept:
                yield DeleteObject(POD, pod, disruption=BY_TAINT)
                yield RecordEvent(
                    POD, pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {_path(pod)}"
                )


def _unknown(status: Mapping[str, Any]) -> Iterable[Condition]:
    """Nothing is known of it any more."""
    kinds = [kind for condition in status.get("conditions") or () if (kind := condition.get("type"))]
    for kind in dict.fromkeys((*kinds, "Ready")):
        yield Condition(kind, _SILENT.status, _SILENT.reason, _SILENT.message)


def _wanted_taints(node: Object, now: float) -> Iterator[dict[str, Any]]:
    """The taints of others as they stand, and ours by the node's conditions."""
    standing = node["spec"].get("taints") or ()
    before = {(taint["key"], taint["effect"]): taint for taint in standing if taint["key"] in _OURS}
    for taint in standing:
        if taint["key"] not in _OURS:
            yield taint
    for key, effect in _our_taints(node):
        kept = before.get((key, effect))
        if kept is not None:
            yield kept
        elif effect == "NoExecute":
            yield {"key": key, "effect": effect, "timeAdded": timestamp(now)}
        else:
            yield {"key": key, "effect": effect}


def _our_taints(node: Object) -> Iterator[tuple[str, str]]:
    ready = find_condition(node, "Ready")
    truth = ready["status"] if ready is not None else "False"
    key = {"True": "", "Unknown": UNREACHABLE}.get(truth, NOT_READY)
    if key:
        yield key, "NoSchedule"
        yield key, "NoExecute"
    for kind, pressure in _PRESSURES.items():
        condition = find_condition(node, kind)
        if condition is not None and condition["status"] == "True":
            yield pressure, "NoSchedule"
    if node["spec"].get("unschedulable"):
        yield _CORDONED, "NoSchedule"


def _path(pod: Object) -> str:
    namespace, name = key_of(pod)
    return f"{namespace}/{name}"
