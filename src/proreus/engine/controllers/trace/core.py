"""What becomes of pods and nodes, without I/O: objects as they are seen in, entries of the trace out.

The same change may be seen twice: what is known already is not told again. Moments are those at which a
change was seen, held to what the object itself says to the second: after a gap the object knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec

from proreus.engine.objects.decision_annotation import DECISION
from proreus.engine.objects.intents import DISRUPTED, PREEMPTED
from proreus.engine.objects.metadata import Object, controller_of, key_of
from proreus.engine.objects.scheduler_config import DEFAULT_SCHEDULER
from proreus.engine.objects.timestamps import parse_timestamp
from proreus.engine.scheduler.pod_templates import parts_that_matter
from proreus.engine.trace.segments import NodeEntry, PodEntry, Segment, digest
from proreus.model.cluster_trace import End
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import PodSpec

_ENDS: Mapping[str, End] = {"Succeeded": "succeeded", "Failed": "failed"}
_SECOND = 0.999
"""What a moment that is stated to the second may lack."""
_MOST_SPECS = 4_096
"""Whose digests are remembered."""

ReadSpec = Callable[[Object], PodSpec]
"""What a pod asks for; an InputError where that cannot be understood."""
ReadNode = Callable[[Object], Node]


class _Decided(msgspec.Struct):
    """The part of the decision's annotation that is kept."""

    policy: str = ""
    fallback: str = ""


_decided = msgspec.json.Decoder(_Decided)


class TraceCore:
    def __init__(self, read_spec: ReadSpec, read_node: ReadNode) -> None:
        self._read_spec, self._read_node = read_spec, read_node
        self._pods: dict[str, PodEntry] = {}
        """By uid: pods that are there, those that ended included until they are deleted."""
        self._nodes: dict[str, NodeEntry] = {}
        self._looks: dict[str, bytes] = {}
        """What of each node matters, as it was read last."""
        self._unread: dict[str, Object] = {}
        """Pods whose specs have not been read yet, as they were seen first."""
        self._specs: dict[str, PodSpec] = {}
        self._digests: dict[int, tuple[PodSpec, PodSpec, str]] = {}
        """By identity, for equal templates are read as the very same spec: it, what is meant, its digest."""
        self._gone: set[str] = set()
        """Pods that are there no longer, and of which something is still to be taken."""
        self._news: dict[str, None] = {}
        self._node_news: list[NodeEntry] = []

    @property
    def waiting(self) -> int:
        """Entries that have not been taken."""
        return len(self._news) + len(self._node_news)

    def recall(self, segment: Segment) -> None:
        """What an earlier leader has written, oldest first; of pods that ended nothing more is said."""
        for entry in segment.pods:
            if entry.ended:
                self._pods.pop(entry.uid, None)
            else:
                self._pods[entry.uid] = entry
        self._specs |= segment.specs
        self._forget_specs()
        for node in segment.nodes:
            if node.node is None:
                self._nodes.pop(node.name, None)
            else:
                self._nodes[node.name] = node

    def pod_came(self, obj: Object, now: float) -> None:
        """A pod is there that was not there before."""
        if obj["metadata"]["uid"] not in self._pods:
            self._begin(obj, now)
        self.pod_seen(obj, now)

    def pod_seen(self, obj: Object, now: float) -> None:
        """A pod is now like this; one that nobody saw come has ended before, and that was told."""
        uid = obj["metadata"]["uid"]
        entry = self._pods.get(uid)
        if entry is None or entry.ended:
            return
        status = obj.get("status") or {}
        if not entry.bound and (node := obj["spec"].get("nodeName")):
            self._bound(entry, obj, node, now)
        phase = status.get("phase") or "Pending"
        if phase == "Pending":
            return
        if not entry.running and (begun := _times(status, "startedAt")):
            entry.running = _held(now, max(begun))
            self._news[uid] = None
        if phase in _ENDS:
            finished = _times(status, "finishedAt")
            killed = phase == "Failed" and "deletionTimestamp" in obj["metadata"]
            end = _taken(obj) if killed else _ENDS[phase]
            self._ended(entry, end, _held(now, max(finished)) if finished else now)

    def pod_used(self, uid: str, cpu: int, memory: int) -> None:
        """What a pod uses now, in thousandths of a core and bytes.

        That is news each time as often again as it was measured before: of a pod that stays for ever not too
        much is written, and of one that ends its end tells all.
        """
        entry = self._pods.get(uid)
        if entry is None or not entry.running or entry.ended:
            return
        entry.looks += 1
        before = cpu - entry.cpu
        entry.cpu += before / entry.looks
        entry.cpu_squares += before * (cpu - entry.cpu)
        entry.memory = max(entry.memory, memory)
        if entry.looks & (entry.looks - 1) == 0:
            self._news[uid] = None

    def pod_gone(self, obj: Object, now: float) -> None:
        """A pod is there no longer; this was its last state."""
        self.pod_seen(obj, now)
        uid = obj["metadata"]["uid"]
        entry = self._pods.get(uid)
        if entry is None:
            return
        if not entry.ended:
            self._ended(entry, _taken(obj), now)
        self._leave(uid)

    def pods_listed(self, pods: Iterable[Object], since: float, now: float) -> None:
        """All pods that are there, after a time (since then) that nobody saw: the others have ended."""
        there = set()
        for obj in pods:
            there.add(obj["metadata"]["uid"])
            finished = _times(obj.get("status") or {}, "finishedAt")
            over = (obj.get("status") or {}).get("phase") in _ENDS
            if over and finished and max(finished) + _SECOND < since:
                self.pod_seen(obj, now)
            else:
                self.pod_came(obj, now)
        for uid, entry in list(self._pods.items()):
            if uid in there:
                continue
            if not entry.ended:
                self._ended(entry, "unseen", max(since, entry.created, entry.bound, entry.running))
            self._leave(uid)

    def node_seen(self, obj: Object, now: float) -> None:
        """A node is there, or is now like this."""
        name = obj["metadata"]["name"]
        look = parts_that_matter(obj)
        if self._looks.get(name) == look:
            return
        self._looks[name] = look
        try:
            node = self._read_node(obj)
        except (InputError, ValueError):
            return  # the scheduling agent says what is wrong with it
        before = self._nodes.get(name)
        if before is None or before.node != node:
            entry = self._nodes[name] = NodeEntry(name, round(now, 3), node)
            self._node_news.append(entry)

    def node_gone(self, name: str, now: float) -> None:
        """A node is there no longer."""
        self._looks.pop(name, None)
        if self._nodes.pop(name, None) is not None:
            self._node_news.append(NodeEntry(name, round(now, 3), None))

    def nodes_listed(self, nodes: Iterable[Object], now: float) -> None:
        """All nodes that are there, after a time that nobody saw."""
        there = set()
        for obj in nodes:
            there.add(obj["metadata"]["name"])
            self.node_seen(obj, now)
        for name in sorted(self._nodes.keys() - there):
            self.node_gone(name, now)

    def tell_again(self, dropped: Segment) -> None:
        """A part of the trace goes: what it said of those that are still there is news."""
        for entry in dropped.pods:
            known = self._pods.get(entry.uid)
            if known is not None and not known.ended:
                self._news[entry.uid] = None
        names = {node_entry.name for node_entry in self._node_news}
        for name in {entry.name for entry in dropped.nodes} - names:
            if name in self._nodes:
                self._node_news.append(self._nodes[name])

    def take(self, through: int, now: float, most: int) -> Segment:
        """The next part of the trace; through: the revision up to which everything has been seen."""
        segment = Segment(through, round(now, 3), [], self._node_news, {})
        self._node_news = []
        for uid in list(self._news)[:most]:
            del self._news[uid]
            entry = self._pods[uid]
            if (first := self._unread.pop(uid, None)) is not None:
                entry.spec = self._digest(first)
            if entry.spec:
                segment.specs[entry.spec] = self._specs[entry.spec]
            # A copy: what is written must not change while the store has it, for it may be written again.
            segment.pods.append(msgspec.structs.replace(entry))
            if uid in self._gone:
                self._gone.remove(uid)
                del self._pods[uid]
        if len(self._specs) > _MOST_SPECS:
            self._forget_specs()
        return segment

    def _begin(self, obj: Object, now: float) -> PodEntry:
        metadata, owner = obj["metadata"], controller_of(obj)
        entry = PodEntry(
            metadata["uid"],
            "/".join(key_of(obj)),
            "",
            _held(now, parse_timestamp(metadata["creationTimestamp"])),
            obj["spec"].get("schedulerName") or DEFAULT_SCHEDULER,
            "" if owner is None else f"{owner['kind']}/{owner['name']}",
        )
        self._pods[entry.uid] = entry
        self._unread[entry.uid] = obj
        self._news[entry.uid] = None
        return entry

    def _bound(self, entry: PodEntry, obj: Object, node: str, now: float) -> None:
        stated = next(
            (
                condition["lastTransitionTime"]
                for condition in (obj.get("status") or {}).get("conditions") or ()
                if condition.get("type") == "PodScheduled" and condition.get("lastTransitionTime")
            ),
            "",
        )
        entry.bound = _held(now, parse_timestamp(stated)) if stated else round(now, 3)
        entry.node = node
        note = (obj["metadata"].get("annotations") or {}).get(DECISION)
        if note:
            try:
                decided = _decided.decode(note)
            except msgspec.DecodeError:
                decided = _Decided()
            entry.policy, entry.fallback = decided.policy, decided.fallback
        self._news[entry.uid] = None

    def _ended(self, entry: PodEntry, end: End, at: float) -> None:
        entry.ended, entry.end = round(at, 3), end
        self._news[entry.uid] = None

    def _digest(self, obj: Object) -> str:
        try:
            spec = self._read_spec(obj)
        except (InputError, ValueError):
            return ""
        known = self._digests.get(id(spec))
        if known is None or known[0] is not spec:
            if len(self._digests) >= _MOST_SPECS:
                self._digests.clear()
            # Whether it is on its way out, or on which node, is no part of what it asks for.
            meant = replace(spec, terminating=False)
            known = self._digests[id(spec)] = (spec, meant, digest(meant))
        _, meant, name = known
        self._specs[name] = meant
        return name

    def _leave(self, uid: str) -> None:
        """Nothing more will be heard of it."""
        if uid in self._news:
            self._gone.add(uid)
        else:
            del self._pods[uid]

    def _forget_specs(self) -> None:
        """Those of pods that are there are kept."""
        used = {entry.spec for entry in self._pods.values()}
        self._specs = {name: spec for name, spec in self._specs.items() if name in used}


def _held(now: float, stated: float) -> float:
    """When something was seen, held to the second that is stated of it."""
    return round(min(max(now, stated), stated + _SECOND), 3)


def _times(status: Object, field: str) -> list[float]:
    """When containers began or ended, as far as that is told."""
    timestamps = []
    for container_status in status.get("containerStatuses") or ():
        for state in (container_status.get("state") or {}).values():
            if state.get(field):
                timestamps.append(parse_timestamp(state[field]))
    return timestamps


def _taken(obj: Object) -> End:
    """Why a pod that did not end by itself is gone."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == DISRUPTED and condition.get("status") == "True":
            return "preempted" if condition.get("reason") == PREEMPTED else "evicted"
    return "deleted"
