"""What must hold of every revision, checked from what a watch told and from nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_OVER = ("Succeeded", "Failed")


@dataclass
class _Pod:
    name: str
    node: str
    holds: tuple[int, int]
    """Thousandths of cores, and bytes, while it is bound and not over."""


@dataclass
class Laws:
    """Takes the changes of each kind in order; `broken` says which law was broken, where."""

    broken: list[str] = field(default_factory=list)
    told: dict[str, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    """By kind: uid and revision of every state that was ever told."""
    gone: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    standing: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """By kind: the revision of each uid that stands."""
    newest: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    counts: Counter[str] = field(default_factory=Counter)
    holders: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By Lease: who held it, one after the other."""
    _room: dict[str, tuple[int, int]] = field(default_factory=dict)
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _used: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    _touched: set[str] = field(default_factory=set)

    def take(self, kind: str, type_: str, obj: dict[str, Any]) -> None:
        """One change."""
        uid, revision = obj["metadata"]["uid"], int(obj["metadata"]["resourceVersion"])
        if revision < self.newest[kind]:
            self.broken.append(f"{kind}: revision {revision} was told after {self.newest[kind]}")
        if kind == "pods" and revision != self.newest[kind]:
            self.check_room()
        self.newest[kind] = revision
        if uid in self.gone[kind]:
            self.broken.append(f"{kind} {obj['metadata']['name']} {uid}: it came back at {revision}")
        self.counts[f"{kind} {type_}"] += 1
        if type_ == "DELETED":
            self.gone[kind].add(uid)
            self.standing[kind].pop(uid, None)
        else:
            self.told[kind].add((uid, revision))
            self.standing[kind][uid] = revision
        match kind:
            case "pods":
                self._pod(uid, type_, obj)
            case "nodes":
                self._node(obj)
            case "leases":
                self._lease(obj)

    def check_room(self) -> None:
        """At the revision that has just been told in full: nobody holds more than there is."""
        for node in self._touched:
            room = self._room.get(node)
            used = self._used[node]
            if room is not None and (used[0] > room[0] or used[1] > room[1]):
                self.broken.append(f"node {node} holds {used} of {room} at {self.newest['pods']}")
        self._touched.clear()

    def _pod(self, uid: str, type_: str, pod: dict[str, Any]) -> None:
        node, status = pod["spec"].get("nodeName") or "", pod.get("status") or {}
        name, before = pod["metadata"]["name"], self._pods.get(uid)
        if before is not None:
            if before.node and node != before.node:
                self.broken.append(f"pod {name} {uid}: bound to {before.node}, then to {node!r}")
            self._hold(before, -1)
        elif node and type_ == "MODIFIED":
            self.broken.append(f"pod {name} {uid}: it was never seen to come")
        if node and (before is None or not before.node):
            self.counts["bound"] += 1
        if str(status.get("reason", "")).startswith("OutOf"):
            self.broken.append(f"pod {name} {uid}: {node} had no room for it: {status['reason']}")
        if any(condition["type"] == "DisruptionTarget" for condition in status.get("conditions") or ()):
            if type_ == "DELETED":
                self.counts["evicted"] += 1
        if type_ == "DELETED":
            self._pods.pop(uid, None)
            return
        holds = (0, 0) if status.get("phase") in _OVER or not node else _asked(pod)
        self._pods[uid] = now = _Pod(name, node, holds)
        self._hold(now, 1)

    def _hold(self, pod: _Pod, sign: int) -> None:
        if pod.node:
            self._used[pod.node][0] += sign * pod.holds[0]
            self._used[pod.node][1] += sign * pod.holds[1]
            self._touched.add(pod.node)

    def _node(self, node: dict[str, Any]) -> None:
        there = node["status"]["allocatable"]
        self._room[node["metadata"]["name"]] = _thousandths(there["cpu"]), _bytes(there["memory"])

    def _lease(self, lease: dict[str, Any]) -> None:
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        held = self.holders[lease["metadata"]["name"]]
        if not held or held[-1] != holder:
            held.append(holder)


def _asked(pod: dict[str, Any]) -> tuple[int, int]:
    wanted = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    cpu = sum(_thousandths(one.get("cpu", "0")) for one in wanted)
    return cpu, sum(_bytes(one.get("memory", "0")) for one in wanted)


def _thousandths(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else round(float(quantity) * 1000)


def _bytes(quantity: str) -> int:
    return int(quantity[:-2]) * _UNITS[quantity[-2:]] if quantity[-2:] in _UNITS else int(quantity)
