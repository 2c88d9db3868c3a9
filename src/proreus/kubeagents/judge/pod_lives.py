"""When pods came, ran and ended, as far as Kubernetes objects tell. No I/O.

An API server remembers a pod for as long as the object is there: what was deleted before somebody looked is
not known. Several looks at one cluster (files of several days, or following it for a while) say more: a pod
that is missing in a later one ended in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
_COMPLETED = ("Succeeded", "Failed")
_LAST_KEYS = ("lastHeartbeatTime", "renewTime", "lastTransitionTime", "startTime", "finishedAt", "startedAt")


@dataclass(frozen=True)
class PodLife:
    """One pod. Moments are seconds since 1970; None: it did not come to that while it was seen."""

    object: Object
    created: float
    bound: float | None = None
    ended: float | None = None

    @property
    def uid(self) -> str:
        """Which of all pods that ever had its name."""
        metadata = self.object["metadata"]
        return str(metadata.get("uid") or f"{metadata.get('namespace', 'default')}/{metadata['name']}")

    @property
    def node(self) -> str:
        """Where it ran; "": nowhere yet."""
        return str(self.object.get("spec", {}).get("nodeName") or "")


@dataclass
class SeenCluster:
    """What was seen of a cluster: pods that are there and that were there, and everything else as it is."""

    pods: dict[str, PodLife] = field(default_factory=dict)
    """By uid."""
    others: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    """Nodes and the rest by kind, namespace and name; nodes that left are kept."""
    last: float = 0.0
    """The last moment that is known of."""

    def look(self, objects: Iterable[Object], at: float | None = None) -> None:
        """All objects of one moment; by default the latest that any of them names."""
        told = list(objects)
        at = max((moment for obj in told for moment in moments(obj)), default=0.0) if at is None else at
        self.last = max(self.last, at)
        there = set()
        for obj in told:
            if obj.get("kind") == "Pod":
                there.add(self.see(obj).uid)
            else:
                self.note(obj)
        for uid, life in self.pods.items():
            if uid not in there and life.ended is None:
                self.pods[uid] = replace(life, ended=at)

    def see(self, pod: Object) -> PodLife:
        """A pod as it is now."""
        life = life_of(pod)
        before = self.pods.get(life.uid)
        if before is not None and before.ended is not None and life.ended is None:
            life = replace(life, ended=before.ended)
        self.pods[life.uid] = life
        return life

    def gone(self, pod: Object, at: float) -> None:
        """A pod that was deleted at that moment."""
        life = self.see(pod)
        if life.ended is None:
            self.pods[life.uid] = replace(life, ended=at)
        self.last = max(self.last, at)

    def note(self, obj: Object) -> None:
        """Anything that is no pod."""
        metadata = obj["metadata"]
        self.others[str(obj.get("kind")), str(metadata.get("namespace") or ""), str(metadata["name"])] = obj

    def of_kind(self, kind: str) -> list[Object]:
        """All that were seen of a kind, by name."""
        return [self.others[key] for key in sorted(self.others) if key[0] == kind]


def life_of(pod: Object) -> PodLife:
    """What a Pod object says of its past."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    bound = _moment(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None
    started = _moment(status.get("startTime"))
    bound = bound if bound is not None else started
    # An object that was written again by a backup is younger than the pod.
    known = [at for at in (_moment(metadata.get("creationTimestamp")), bound, started) if at is not None]
    created = min(known, default=0.0)
    if bound is None and (pod.get("spec") or {}).get("nodeName"):
        bound = created
    return PodLife(pod, created, bound, _ended(metadata, status))


def _ended(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> float | None:
    if status.get("phase") not in _COMPLETED:
        return None  # one that is being deleted runs until it is gone
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    finished = [_moment((state.get("terminated") or {}).get("finishedAt")) for state in states]
    known = [at for at in finished if at is not None]
    if known:
        return max(known)
    conditions = [_moment(one.get("lastTransitionTime")) for one in status.get("conditions") or ()]
    return max(
        (at for at in conditions if at is not None), default=_moment(metadata.get("creationTimestamp"))
    )


def moments(obj: Object) -> Iterator[float]:
    """Moments that an object names and that were there when it was looked at."""
    created = _moment((obj.get("metadata") or {}).get("creationTimestamp"))
    if created is not None:
        yield created
    yield from _moments_in(obj.get("status") or {}, 4)
    renewed = _moment((obj.get("spec") or {}).get("renewTime"))
    if renewed is not None:
        yield renewed


def _moments_in(part: Any, depth: int) -> Iterator[float]:
    if depth == 0:
        return
    match part:
        case dict():
            for key, value in part.items():
                if key in _LAST_KEYS and isinstance(value, str):
                    at = _moment(value)
                    if at is not None:
                        yield at
                else:
                    yield from _moments_in(value, depth - 1)
        case list():
            for value in part:
                yield from _moments_in(value, depth - 1)


def _moment(text: Any) -> float | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
