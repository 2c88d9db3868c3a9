"""How many pods each ReplicaSet of a Deployment is to have next: the arithmetic of a rollout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proreus.engine.controllers.workloads.replica_sets import replicas_of
from proreus.engine.controllers.workloads.revisions import DESIRED, MOST, Revisions, annotated
from proreus.engine.objects.metadata import Object, created, uid_of

Sizes = dict[str, int]
"""What ReplicaSets are to be scaled to, by their uids."""


@dataclass(frozen=True)
class RolloutLimits:
    """How far a rollout may go from what was asked for."""

    desired: int
    surge: int
    """So many pods more than desired."""
    unavailable: int
    """So many fewer that serve."""

    @property
    def most(self) -> int:
        """The most pods at once."""
        return self.desired + self.surge

    @property
    def fewest(self) -> int:
        """The fewest that must serve."""
        return self.desired - self.unavailable


def limits_of(deployment: Object) -> RolloutLimits:
    """As the Deployment states them; percentages of what is desired."""
    desired = replicas_of(deployment)
    if not rolling(deployment) or desired == 0:
        return RolloutLimits(desired, 0, 0)
    stated = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = scaled_value(stated.get("maxSurge", "25%"), desired, up=True)
    unavailable = scaled_value(stated.get("maxUnavailable", "25%"), desired, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # neither more nor fewer: no rollout could ever begin
    return RolloutLimits(desired, surge, min(unavailable, desired))


def rolling(deployment: Object) -> bool:
    """Whether pods are replaced little by little."""
    return ((deployment["spec"].get("strategy") or {}).get("type") or "RollingUpdate") == "RollingUpdate"


def scaled_value(stated: object, of: int, *, up: bool) -> int:
    """A number, or a percentage of `of` rounded up or down."""
    if isinstance(stated, str) and stated.endswith("%"):
        share = int(stated[:-1]) * of
        return math.ceil(share / 100) if up else share // 100
    return int(str(stated))


def new_size(limits: RolloutLimits, revisions: Revisions, *, little_by_little: bool) -> int:
    """What the new ReplicaSet may have now."""
    standing = replicas_of(revisions.new) if revisions.new is not None else 0
    if not little_by_little or standing >= limits.desired:
        return limits.desired
    room = limits.most - count(revisions.every)
    return standing + max(0, min(room, limits.desired - standing))


def roll_down(limits: RolloutLimits, revisions: Revisions) -> Sizes:
    """The old ReplicaSets, those pods first that do not serve, then as many as are not needed any more."""
    new = revisions.new
    if new is None:
        return {}
    sizes: Sizes = {uid_of(replica_set): replicas_of(replica_set) for replica_set in revisions.old}
    unavailable_new = replicas_of(new) - available(new)
    most_down = count(revisions.every) - limits.fewest - unavailable_new
    if most_down <= 0 or not any(sizes.values()):
        return {}
    down = 0
    for replica_set in revisions.old:
        idle = min(most_down - down, max(0, sizes[uid_of(replica_set)] - available(replica_set)))
        sizes[uid_of(replica_set)] -= idle
        down += idle
    spare = sum(map(available, revisions.every)) - limits.fewest
    for old_set in revisions.old:
        taken = max(0, min(sizes[uid_of(old_set)], spare))
        sizes[uid_of(old_set)] -= taken
        spare -= taken
    return {
        uid_of(replica_set): sizes[uid_of(replica_set)]
        for replica_set in revisions.old
        if sizes[uid_of(replica_set)] != replicas_of(replica_set)
    }


def proportional(deployment: Object, limits: RolloutLimits, revisions: Revisions) -> Sizes:
    """Another number was asked for while a rollout is under way or paused: all grow or shrink alike."""
    living = [replica_set for replica_set in revisions.every if replicas_of(replica_set)]
    if len(living) <= 1:
        only = living[0] if living else revisions.new or (revisions.old[-1] if revisions.old else None)
        return {} if only is None else {uid_of(only): limits.desired}
    if _saturated(limits, revisions.new):
        return {uid_of(replica_set): 0 for replica_set in living if replica_set is not revisions.new}
    if not rolling(deployment):
        return {}
    to_add = (limits.most if limits.desired else 0) - count(living)
    newest_first = to_add > 0
    living.sort(
        key=lambda replica_set: (
            -replicas_of(replica_set),
            -created(replica_set) if newest_first else created(replica_set),
        )
    )
    sizes: Sizes = {}
    added = 0
    for replica_set in living:
        part = _fraction(replica_set, deployment, limits) if to_add else 0
        left = to_add - added
        part = min(part, left) if to_add > 0 else max(part, left)
        sizes[uid_of(replica_set)] = replicas_of(replica_set) + part
        added += part
    largest = uid_of(living[0])
    sizes[largest] = max(0, sizes[largest] + to_add - added)
    return sizes


def scaling_asked(deployment: Object, revisions: Revisions) -> bool:
    """Whether another number is asked for than the ReplicaSets were last scaled for."""
    desired = replicas_of(deployment)
    noted = [annotated(replica_set, DESIRED) for replica_set in revisions.every if replicas_of(replica_set)]
    return any(wanted is not None and wanted != desired for wanted in noted)


def count(replica_sets: Iterable[Object]) -> int:
    """The pods that they ask for together."""
    return sum(map(replicas_of, replica_sets))


def available(replica_set: Mapping[str, Any]) -> int:
    """The pods that serve."""
    return int((replica_set.get("status") or {}).get("availableReplicas") or 0)


def cleanable(deployment: Object, old: Sequence[Object]) -> list[Object]:
    """Old ReplicaSets without pods beyond the history that is to be kept, the oldest revisions first."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    alive = [replica_set for replica_set in old if replica_set["metadata"].get("deletionTimestamp") is None]
    surplus = len(alive) - (10 if limit is None else int(limit))
    if surplus <= 0:
        return []
    alive.sort(
        key=lambda replica_set: (
            annotated(replica_set, "deployment.kubernetes.io/revision") or 0,
            created(replica_set),
        )
    )
    return [replica_set for replica_set in alive[:surplus] if _empty(replica_set)]


def _empty(replica_set: Object) -> bool:
    status = replica_set.get("status") or {}
    seen = status.get("observedGeneration", 0) >= replica_set["metadata"].get("generation", 0)
    return replicas_of(replica_set) == 0 and not status.get("replicas") and seen


def _saturated(limits: RolloutLimits, new: Object | None) -> bool:
    if new is None:
        return False
    full = replicas_of(new) == limits.desired == available(new)
    return full and annotated(new, DESIRED) == limits.desired


def _fraction(replica_set: Object, deployment: Object, limits: RolloutLimits) -> int:
    """By how much it grows or shrinks, if all keep their share."""
    if limits.desired == 0:
        return -replicas_of(replica_set)
    before = annotated(replica_set, MOST) or int((deployment.get("status") or {}).get("replicas") or 0)
    if before == 0:
        return 0
    return math.floor(replicas_of(replica_set) * limits.most / before + 0.5) - replicas_of(replica_set)
