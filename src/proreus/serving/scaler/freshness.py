"""Whether what replicas say is still true: an exposition that stands still is no reading.

A replica that computes counts tokens every fraction of a second, and its KV memory fills while it computes a
long prompt. So one that says requests are under way, and whose values are all as they were a while ago, does
not tell what is. One that says it has none, and whose values stand still, is idle, unless

- the others of its pool that have requests are all frozen, or requests wait at the router while the whole
  pool stands still: who froze them froze it as well, or
- it tells the CPU time of its process, which grows with every answer, and that stands still too.

Without any of these nobody can tell an idle replica from one that froze without a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.replicas import Reading, ReplicaSample, Unreadable

FROZEN = "frozen"
"""The reason of those that are not read because of it."""
_TICKS = 6
"""Looks that the CPU time of an idle process may stand still for: it is told in steps of 10 ms."""
_DOUBTED_SECONDS = 1.0
"""Less is how exactly Prometheus tells the age of a sample."""
Readings = Mapping[Role, Mapping[str, Reading]]


@dataclass
class _Seen:
    """A replica, since its values last changed."""

    values: ReplicaSample
    """All but the moment and the heartbeat."""
    moved_at: float
    heartbeat: float | None
    beat_at: float


@dataclass(frozen=True)
class FreshnessVerdict:
    """Readings that may be believed."""

    readings: dict[Role, dict[str, Reading]]
    frozen: tuple[str, ...]
    """Why each that is frozen is not read."""
    doubt: str
    """Why fewer replicas would be premature: some that are busy have not moved, if not yet for long; or half
    of them are frozen."""


class Freshness:
    """Of the replicas of one service, look by look."""

    def __init__(self, still_seconds: float, interval: float, stale_seconds: float) -> None:
        """still_seconds: that a busy replica may stand still; 0: for ever."""
        self._still = still_seconds
        self._beat = max(stale_seconds, still_seconds, _TICKS * interval)
        self._seen: dict[tuple[Role, str], _Seen] = {}

    def judge(self, readings: Readings, at_router: int = 0) -> FreshnessVerdict:
        """Frozen samples become unreadable."""
        if not self._still:
            return FreshnessVerdict({role: dict(of_pool) for role, of_pool in readings.items()}, (), "")
        judged: dict[Role, dict[str, Reading]] = {}
        frozen: list[str] = []
        doubts: list[str] = []
        samples = 0
        for role, of_pool in readings.items():
            found = {
                name: replica_sample
                for name, replica_sample in of_pool.items()
                if isinstance(replica_sample, ReplicaSample)
            }
            still = {name: self._still_for(role, name, sample) for name, sample in found.items()}
            why = self._frozen(role, found, still, at_router)
            judged[role] = {**of_pool, **{name: Unreadable(FROZEN, text) for name, text in why.items()}}
            frozen += [f"{name}: {text}" for name, text in why.items()]
            doubts += [
                f"{name} has requests under way and has not moved for {seconds:.0f} s"
                for name, seconds in still.items()
                if seconds >= _DOUBTED_SECONDS and found[name].under_way > 0 and name not in why
            ]
            samples += len(found)
            for gone in [key for key in self._seen if key[0] == role and key[1] not in of_pool]:
                del self._seen[gone]
        if frozen and 2 * len(frozen) >= samples:
            doubts.append(f"{len(frozen)} of {samples} replicas are frozen")
        return FreshnessVerdict(judged, tuple(frozen), doubts[0] if doubts else "")

    def _still_for(self, role: Role, name: str, sample: ReplicaSample) -> float:
        """Seconds, of the samples themselves: one that was scraped once and read twice has not aged."""
        values = replace(sample, at=0.0, heartbeat=None)
        seen = self._seen.get((role, name))
        if seen is None:
            self._seen[role, name] = _Seen(values, sample.at, sample.heartbeat, sample.at)
            return 0.0
        if seen.values != values:
            seen.values, seen.moved_at = values, sample.at
        if seen.heartbeat != sample.heartbeat:
            seen.heartbeat, seen.beat_at = sample.heartbeat, sample.at
        return max(sample.at - seen.moved_at, 0.0)

    def _frozen(
        self,
        role: Role,
        replica_samples: Mapping[str, ReplicaSample],
        still: Mapping[str, float],
        at_router: int,
    ) -> dict[str, str]:
        """Why each that is frozen is."""
        long_still = {name for name, seconds in still.items() if seconds >= self._still}
        busy = {name for name, sample in replica_samples.items() if sample.under_way > 0}
        why = {
            name: f"its metrics stand still for {still[name]:.0f} s "
            f"while {replica_samples[name].under_way:.0f} requests are under way"
            for name in sorted(busy & long_still)
        }
        all_still = bool(replica_samples) and len(long_still) == len(replica_samples)
        if all_still and (busy or at_router > 0):
            whom = "where others are busy" if busy else f"while {at_router} requests wait at the router"
            for name in sorted(long_still - why.keys()):
                why[name] = f"its metrics stand still for {still[name]:.0f} s {whom}"
        for name, sample in replica_samples.items():
            seen = self._seen[role, name]
            quiet = sample.at - seen.beat_at
            if name not in why and sample.heartbeat is not None and quiet >= self._beat:
                why[name] = f"the CPU time of its process stands still for {quiet:.0f} s"
        return why
