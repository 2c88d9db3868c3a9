"""A cluster in figures, kept up to date change by change: what the status page shows."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from proreus.engine.agents.conditions import holds
from proreus.engine.agents.metadata import Object
from proreus.engine.agents.resource.admission import Amounts, read_amounts, requests_of
from proreus.engine.agents.resource.nodes import USED_CPU, USED_MEMORY
from proreus.engine.objects.decisions import DECISION, read_decision
from proreus.model.resources import CPU, GPU, MEMORY, PODS

SHOWN_DECISIONS = 100
_SHOWN_QUEUE = 50
_ENDED = ("Succeeded", "Failed")
_COUNTED = (CPU, MEMORY, GPU)
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Pod:
    """What of a pod is counted."""

    phase: str
    node: str
    asked: Amounts
    """Nothing where it has ended."""
    waits: dict[str, Any] | None
    """As the queue shows it; None: it has a node, or has ended."""
    told: str
    """What it was last told about its scheduling; a change of it is a decision."""


@dataclass(slots=True)
class _Node:
    """A node, and what its pods ask for."""

    object: Object | None = None
    asked: Counter[str] = field(default_factory=Counter)
    used: dict[str, float] | None = None
    changed: int = 0


class Picture:
    """See the module. Every change counts `version` up."""

    def __init__(self) -> None:
        self.version = 0
        self.decided = 0
        """How many decisions there were."""
        self._decisions: deque[tuple[int, dict[str, Any]]] = deque(maxlen=SHOWN_DECISIONS)
        self._pods: dict[_Key, _Pod] = {}
        self._nodes: dict[str, _Node] = {}
        self._gone: deque[tuple[int, str]] = deque(maxlen=1000)
        self._phases: Counter[str] = Counter()
        self._waiting: dict[_Key, dict[str, Any]] = {}

    def pod_seen(self, pod: Object) -> None:
        """A pod is there, or is now like this."""
        key = _key(pod)
        before, now = self._pods.get(key), _read_pod(pod)
        if before == now:
            return
        self.version += 1
        if before is not None:
            self._uncount(key, before)
        self._pods[key] = now
        self._count(key, now)
        if now.told and (before is None or before.told != now.told):
            self._note(pod)

    def pod_gone(self, pod: Object) -> None:
        """A pod is there no longer."""
        before = self._pods.pop(_key(pod), None)
        if before is not None:
            self.version += 1
            self._uncount(_key(pod), before)

    def node_seen(self, node: Object) -> None:
        """A node is there, or is now like this."""
        self.version += 1
        known = self._node(node["metadata"]["name"])
        known.object, known.changed = node, self.version

    def node_gone(self, node: Object) -> None:
        """A node is there no longer; what its pods ask for counts until they are gone, too."""
        self.version += 1
        name = node["metadata"]["name"]
        self._node(name).object = None
        self._gone.append((self.version, name))

    def lease_seen(self, lease: Object) -> None:
        """A node's sign of life: it says what the node uses."""
        annotations = lease["metadata"].get("annotations") or {}
        if USED_CPU not in annotations or USED_MEMORY not in annotations:
            return
        stated = read_amounts({CPU: annotations[USED_CPU], MEMORY: annotations[USED_MEMORY]})
        used = {CPU: stated[CPU] / 1000, MEMORY: float(stated[MEMORY])}
        known = self._node(lease["metadata"]["name"])
        if known.used != used:
            self.version += 1
            known.used, known.changed = used, self.version

    def status(self) -> dict[str, Any]:
        """The whole in figures."""
        nodes = [node for node in self._nodes.values() if node.object is not None]
        room: Counter[str] = Counter()
        asked: Counter[str] = Counter()
        for node in nodes:
            room.update(_allocatable(node.object))
            asked.update(node.asked)
        return {
            "phases": {phase: count for phase, count in self._phases.items() if count},
            "nodes": {
                "total": len(nodes),
                "ready": sum(holds(node.object or {}, "Ready") for node in nodes),
                "cordoned": sum(_cordoned(node.object) for node in nodes),
            },
            "requested": {
                name: [_unit(name, asked[name]), _unit(name, room[name])] for name in _COUNTED if room[name]
            },
            "queue": {"length": len(self._waiting), "pods": list(islice(self._waiting.values(), _SHOWN_QUEUE))},
        }

    def nodes_since(self, version: int) -> dict[str, Any]:
        """Nodes that have changed since; all of them from 0 on, or where it is too long ago."""
        everything = version == 0 or (len(self._gone) == self._gone.maxlen and self._gone[0][0] > version)
        rows = [
            _row(name, node)
            for name, node in self._nodes.items()
            if node.object is not None and (everything or node.changed > version)
        ]
        gone = [name for when, name in self._gone if when > version and self._nodes[name].object is None]
        return {"all": everything, "nodes": rows, "gone": [] if everything else gone}

    def decisions_since(self, number: int) -> list[dict[str, Any]]:
        """The last decisions after the one with that number."""
        return [row for count, row in self._decisions if count > number]

    def _node(self, name: str) -> _Node:
        return self._nodes.setdefault(name, _Node())

    def _count(self, key: _Key, pod: _Pod) -> None:
        self._phases[pod.phase] += 1
        if pod.waits is not None:
            self._waiting[key] = pod.waits
        if pod.node and pod.asked:
            node = self._node(pod.node)
            node.asked.update(pod.asked)
            node.changed = self.version

    def _uncount(self, key: _Key, pod: _Pod) -> None:
        self._phases[pod.phase] -= 1
        self._waiting.pop(key, None)
        if pod.node and pod.asked:
            node = self._node(pod.node)
            node.asked.subtract(pod.asked)
            node.changed = self.version

    def _note(self, pod: Object) -> None:
        """A decision, for those who look on."""
        self.decided += 1
        self._decisions.append((self.decided, _decision(pod)))


def _key(obj: Object) -> _Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _read_pod(pod: Object) -> _Pod:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    node = str(spec.get("nodeName") or "")
    ended = phase in _ENDED
    scheduled = _scheduled(status)
    why = str(scheduled.get("message") or "")
    waits = None
    if not node and not ended:
        waits = {
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "created": metadata.get("creationTimestamp", ""),
            "scheduler": spec.get("schedulerName", ""),
            "priority": spec.get("priority", 0),
            "reason": why,
        }
    told = str((metadata.get("annotations") or {}).get(DECISION, "")) if node else why
    shown = "Terminating" if metadata.get("deletionTimestamp") and not ended else phase
    return _Pod(shown, node, {} if ended else requests_of(pod), waits, told)


def _scheduled(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Iterator[Mapping[str, Any]] = (
        condition for condition in status.get("conditions") or () if condition.get("type") == "PodScheduled"
    )
    return next(found, {})


def _decision(pod: Object) -> dict[str, Any]:
    metadata, spec = pod["metadata"], pod["spec"]
    scheduled = _scheduled(pod.get("status") or {})
    row = {
        "time": scheduled.get("lastTransitionTime") or metadata.get("creationTimestamp", ""),
        "namespace": metadata.get("namespace", ""),
        "pod": metadata["name"],
        "scheduler": spec.get("schedulerName", ""),
    }
    if spec.get("nodeName"):
        noted = read_decision((metadata.get("annotations") or {}).get(DECISION))
        if noted is not None:
            return {**row, **noted.as_json()}
    refused = {"policy": "", "action": "none", "node": "", "fallback": False, "shadow": None}
    return {**row, **refused, "reasons": [str(scheduled.get("message") or "")]}


def _allocatable(node: Object | None) -> dict[str, int]:
    return read_amounts(((node or {}).get("status") or {}).get("allocatable"))


def _cordoned(node: Object | None) -> bool:
    return bool(((node or {}).get("spec") or {}).get("unschedulable"))


def _unit(name: str, amount: int) -> float:
    return amount / 1000 if name == CPU else float(amount)


def _row(name: str, node: _Node) -> dict[str, Any]:
    room = _allocatable(node.object)

    def share(resource: str) -> list[float]:
        return [_unit(resource, node.asked[resource]), _unit(resource, room.get(resource, 0))]

    return {
        "name": name,
        "ready": holds(node.object or {}, "Ready"),
        "cordoned": _cordoned(node.object),
        "pods": [node.asked[PODS], room.get(PODS, 0)],
        "cpu": share(CPU),
        "memory": share(MEMORY),
        "gpu": share(GPU),
        "used": node.used,
    }
