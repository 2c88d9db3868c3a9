"""The cluster at a glance, kept up to date from watches: what the status page and the metrics show."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.api.usage import load_of
from proreus.engine.api.v1.pod_feed import PodFeed, PodRow
from proreus.engine.api.v1.recent_events import RecentEvents
from proreus.engine.objects.decision_annotation import DECISION, read_decision
from proreus.engine.objects.kinds import LEASE, LEASE_NAMESPACE, NODE, POD
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.objects.resource_amounts import read_amounts, requests_of
from proreus.engine.watch.informer import Informer
from proreus.model.resources import CPU, MEMORY, PODS

_DECISIONS_KEPT = 200
_QUEUE_SHOWN = 50
_NODES_FIRST_SECONDS = 0.1
_ENDED = ("Succeeded", "Failed")
_GPU = "nvidia.com/gpu"
_SHOWN = ((CPU, "cpu", 1000.0), (MEMORY, "memory", 1.0), (_GPU, "gpu", 1.0))
"""Resource, what the page calls it, and what an amount is divided by."""
_TOTALS = (CPU, MEMORY, _GPU)


@dataclass
class _Node:
    """What is known of a node, and what its pods take of it."""

    allocatable: dict[str, int] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    ready: bool = False
    cordoned: bool = False
    there: bool = False
    """Whether it is registered; pods may name one that is not, any more."""
    used: tuple[int, int] | None = None
    """CPU and memory as they were last measured."""


@dataclass(frozen=True, slots=True)
class _Pod:
    namespace: str
    name: str
    created: str
    phase: str
    node: str
    requests: Mapping[str, int]
    reason: str
    """Why it waits, where it does."""
    decision: str
    owner: str
    """The object that controls it, as Kind/name; "": nobody does."""

    def row(self) -> PodRow:
        """For the feed."""
        return PodRow(
            self.namespace,
            self.name,
            self.phase,
            self.node,
            self.created,
            self.owner,
            self.requests.get(CPU, 0) / 1000.0,
            self.requests.get(MEMORY, 0),
            self.requests.get(_GPU, 0),
        )


@dataclass(frozen=True, slots=True)
class Numbered:
    """A decision, and its number in the order that they were seen."""

    number: int
    told: dict[str, Any]


class Overview:
    """See the module. It begins to watch when somebody first looks."""

    def __init__(self, registry: Registry) -> None:
        self._pods: dict[str, _Pod] = {}
        self._nodes: dict[str, _Node] = {}
        self._changed: dict[str, int] = {}
        """Node -> the number of its last change."""
        self._waiting: dict[str, _Pod] = {}
        self._phases: Counter[str] = Counter()
        self.pods = PodFeed()
        self.events = RecentEvents(registry)
        self.decisions: deque[Numbered] = deque(maxlen=_DECISIONS_KEPT)
        self.changes = 0
        """So many have been seen: whoever remembers the number knows whether there is news."""
        nodes, pods = Informer(registry, NODE), Informer(registry, POD)
        leases = Informer(registry, LEASE, LEASE_NAMESPACE)
        nodes.subscribe(self._see_node)
        leases.subscribe(self._see_lease)
        pods.subscribe(self._see_pod)
        self._informers = (nodes, leases, pods)
        self._tasks: list[asyncio.Task[None]] = []

    async def look(self) -> None:
        """Begin to watch, where that is not done; returns once what stands is known."""
        self._begin()
        for informer in self._informers:
            await informer.synced.wait()

    async def look_at_nodes(self) -> None:
        """The same, but returns once nodes are known; pods may come to them."""
        self._begin()
        await self._informers[0].synced.wait()

    @property
    def synced(self) -> bool:
        """Whether what stands is known."""
        return all(informer.synced.is_set() for informer in self._informers)

    def _begin(self) -> None:
        if not self._tasks:
            nodes, *others = self._informers
            later = (*(informer.run for informer in others), self.events.run)
            self._tasks = [
                asyncio.create_task(nodes.run()),
                *(asyncio.create_task(self._after_nodes(run)) for run in later),
            ]

    async def _after_nodes(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Tens of thousands of pods take seconds to be read: whoever looks sees the nodes meanwhile."""
        await self._informers[0].synced.wait()
        await asyncio.sleep(_NODES_FIRST_SECONDS)
        await run()

    async def stop(self) -> None:
        """Watch no more."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    def _change(self, node: str) -> None:
        self.changes += 1
        if node:
            self._changed[node] = self.changes

    def _see_node(self, event: ObjectEvent) -> None:
        obj, gone = event.object, event.type == "DELETED"
        name = obj["metadata"]["name"]
        node = self._nodes.setdefault(name, _Node())
        status, spec = obj.get("status") or {}, obj.get("spec") or {}
        ready = [
            condition.get("status")
            for condition in status.get("conditions") or ()
            if condition.get("type") == "Ready"
        ]
        seen = (
            _amounts(status.get("allocatable")),
            ready == ["True"],
            bool(spec.get("unschedulable")),
            not gone,
        )
        if seen != (node.allocatable, node.ready, node.cordoned, node.there):
            node.allocatable, node.ready, node.cordoned, node.there = seen
            self._change(name)

    def _see_lease(self, event: ObjectEvent) -> None:
        obj, gone = event.object, event.type == "DELETED"
        node = self._nodes.setdefault(obj["metadata"]["name"], _Node())
        used = None if gone else load_of(obj)
        if used != node.used:
            node.used = used
            self._change(obj["metadata"]["name"])

    def _see_pod(self, event: ObjectEvent) -> None:
        obj, gone = event.object, event.type == "DELETED"
        metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
        pod = _Pod(
            metadata.get("namespace", ""),
            metadata["name"],
            metadata.get("creationTimestamp", ""),
            "Terminating" if "deletionTimestamp" in metadata else status.get("phase", "Unknown"),
            spec.get("nodeName", ""),
            _requests(obj),
            _why_waiting(status),
            (metadata.get("annotations") or {}).get(DECISION, ""),
            _owner(metadata),
        )
        key = metadata["uid"]
        before = self._pods.get(key)
        self._put_pod(key, None if gone else pod)
        if pod.decision and not gone and (before is None or before.decision != pod.decision):
            self._see_decision(pod, status)

    def _put_pod(self, key: str, pod: _Pod | None) -> None:
        before = self._pods.pop(key, None)
        if before is not None:
            self._phases[before.phase] -= 1
            self._waiting.pop(key, None)
            if before.node and before.phase not in _ENDED:
                self._nodes.setdefault(before.node, _Node()).taken.subtract(before.requests)
                self._change(before.node)
        if pod is not None:
            self._pods[key] = pod
            self._phases[pod.phase] += 1
            if not pod.node and pod.phase == "Pending":
                self._waiting[key] = pod
            if pod.node and pod.phase not in _ENDED:
                self._nodes.setdefault(pod.node, _Node()).taken.update(pod.requests)
                self._change(pod.node)
        self._change("")
        seen = pod or before
        if seen is not None:
            self.pods.put((seen.namespace, seen.name), None if pod is None else pod.row(), self.changes)

    def _see_decision(self, pod: _Pod, status: dict[str, Any]) -> None:
        noted = read_decision(pod.decision)
        if noted is not None:
            moments = [
                condition.get("lastTransitionTime")
                for condition in status.get("conditions") or ()
                if condition.get("type") == "PodScheduled"
            ]
            time = moments[0] if moments and moments[0] else pod.created
            decision = {"time": time, "namespace": pod.namespace, "pod": pod.name, **noted.as_json()}
            self.decisions.append(Numbered(self.changes, decision))

    @property
    def phases(self) -> dict[str, int]:
        """Pods by what they are at."""
        return {phase: count for phase, count in self._phases.items() if count}

    @property
    def waiting(self) -> int:
        """Pods without a node."""
        return len(self._waiting)

    def node_counts(self) -> dict[str, int]:
        """How many there are, are ready, are cordoned."""
        there = [node for node in self._nodes.values() if node.there]
        return {
            "total": len(there),
            "ready": sum(node.ready for node in there),
            "cordoned": sum(node.cordoned for node in there),
        }

    def summary(self) -> dict[str, Any]:
        """Everything but single nodes and decisions."""
        asked: Counter[str] = Counter()
        room: Counter[str] = Counter()
        used: Counter[str] = Counter()
        for node in self._nodes.values():
            if node.there:
                for name in _TOTALS:  # thousands of nodes every second: no counter is made of each
                    asked[name] += node.taken.get(name, 0)
                    room[name] += node.allocatable.get(name, 0)
                for name, amount in _used_of(node).items():
                    used[name] += amount
        queue = heapq.nsmallest(
            _QUEUE_SHOWN, self._waiting.values(), key=lambda pod: (pod.created, pod.namespace, pod.name)
        )
        return {
            "phases": self.phases,
            "requested": {
                name: [asked[name] / by, room[name] / by]
                for name, by in ((CPU, 1000.0), (MEMORY, 1.0), (_GPU, 1.0))
                if room[name]
            },
            "used": {name: used[name] / by for name, by in ((CPU, 1000.0), (MEMORY, 1.0)) if name in used},
            "nodes": self.node_counts(),
            "queue": {
                "length": len(self._waiting),
                "pods": [
                    {
                        "namespace": pod.namespace,
                        "name": pod.name,
                        "created": pod.created,
                        "reason": pod.reason,
                    }
                    for pod in queue
                ],
            },
        }

    def nodes_since(self, change: int) -> tuple[list[dict[str, Any]], list[str]]:
        """Nodes that have changed after that change, and those that went."""
        names = [name for name, number in self._changed.items() if number > change]
        here = [self._node(name) for name in names if self._nodes[name].there]
        gone = [name for name in names if not self._nodes[name].there]
        return here, gone

    def _node(self, name: str) -> dict[str, Any]:
        node = self._nodes[name]
        row: dict[str, Any] = {
            "name": name,
            "ready": node.ready,
            "cordoned": node.cordoned,
            "pods": [node.taken[PODS], node.allocatable.get(PODS, 0)],
        }
        for resource, shown, by in _SHOWN:
            if node.allocatable.get(resource):
                row[shown] = [node.taken[resource] / by, node.allocatable[resource] / by]
        used = _used_of(node)
        if used:
            row["used"] = {"cpu": used[CPU] / 1000.0, "memory": used[MEMORY]}
        return row

    def used(self) -> Iterator[tuple[str, int, int]]:
        """Nodes that are well, with CPU and memory as they were last measured."""
        for name, node in sorted(self._nodes.items()):
            used = _used_of(node)
            if node.there and used:
                yield name, used[CPU], used[MEMORY]

    def pod_at(self, uid: str) -> tuple[str, str, str] | None:
        """Namespace, name and node of a pod; None where it is not there."""
        pod = self._pods.get(uid)
        return None if pod is None else (pod.namespace, pod.name, pod.node)


def _used_of(node: _Node) -> dict[str, int]:
    """What is used on a node that is well: of another nothing is known."""
    return {CPU: node.used[0], MEMORY: node.used[1]} if node.ready and node.used is not None else {}


def _amounts(stated: Any) -> dict[str, int]:
    """What is stated; nothing where it cannot be read, which validation should have refused."""
    try:
        return read_amounts(stated)
    except (ValueError, AttributeError):
        return {}


def _requests(pod: dict[str, Any]) -> dict[str, int]:
    try:
        return requests_of(pod)
    except (ValueError, KeyError, AttributeError, TypeError):
        return {PODS: 1}


def _owner(metadata: dict[str, Any]) -> str:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner.get('kind', '')}/{owner.get('name', '')}"
    return ""


def _why_waiting(status: dict[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""
