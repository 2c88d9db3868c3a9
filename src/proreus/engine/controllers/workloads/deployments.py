"""A Deployment: one ReplicaSet a template, and pods that move from the old ones to the new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proreus.engine.controllers.instructions import (
    CreateObject,
    DeleteObject,
    Instruction,
    ReconcileResult,
    RecordEvent,
    UpdateObject,
)
from proreus.engine.controllers.workloads.pods import claim, phase_of
from proreus.engine.controllers.workloads.replica_sets import replicas_of
from proreus.engine.controllers.workloads.revisions import (
    DESIRED,
    MOST,
    REVISION,
    Revisions,
    new_replica_set,
    renewed,
    revision_of,
    sort_out,
)
from proreus.engine.controllers.workloads.rolling_update import (
    RolloutLimits,
    Sizes,
    cleanable,
    limits_of,
    new_size,
    proportional,
    roll_down,
    rolling,
    scaling_asked,
)
from proreus.engine.controllers.workloads.rollout_status import complete, rollout_status, seconds_to_deadline
from proreus.engine.objects.kinds import DEPLOYMENT, REPLICA_SET
from proreus.engine.objects.metadata import (
    Object,
    annotations_of,
    controlled_by,
    deleting,
    name_of,
    read_selector,
    uid_of,
    with_metadata,
)


def reconcile_deployment(
    deployment: Object,
    replica_sets: Iterable[Object],
    pods: Sequence[Object],
    now: float,
    failure: str = "",
) -> ReconcileResult:
    """The next step of its rollout, and its status.

    `replica_sets` are those that it owns or selects, `pods` those of these sets; `failure` is why the last
    attempt at a new ReplicaSet was refused.
    """
    selector = read_selector(deployment["spec"]["selector"])
    mine, instructions = claim(DEPLOYMENT, deployment, selector, replica_sets, REPLICA_SET)
    revisions = sort_out(deployment, mine)
    limits = limits_of(deployment)
    if not deleting(deployment):
        instructions += _next_step(deployment, revisions, limits, pods)
    status = rollout_status(deployment, revisions, limits, now, failure)
    revision = _revision_shown(deployment, revisions)
    if status != (deployment.get("status") or {}) or revision is not None:
        metadata = {**deployment, "status": status}
        if revision is not None:
            metadata = with_metadata(metadata, annotations={**annotations_of(deployment), REVISION: revision})
        instructions.append(UpdateObject(DEPLOYMENT, metadata, "status"))
    return ReconcileResult(tuple(instructions), seconds_to_deadline(deployment, status, now))


def _next_step(
    deployment: Object, revisions: Revisions, limits: RolloutLimits, pods: Sequence[Object]
) -> list[Instruction]:
    """One step: renew, or scale, or begin the new ReplicaSet, or go down with the old ones, or clean up."""
    if deployment["spec"].get("paused") or scaling_asked(deployment, revisions):
        sizes = proportional(deployment, limits, revisions)
        return [*_scaled(deployment, revisions, limits, sizes), *_cleaned(deployment, revisions, paused=True)]
    if revisions.new is not None:
        fresh = renewed(deployment, revisions.new, revisions.next_revision)
        if fresh is not None:
            return [UpdateObject(REPLICA_SET, fresh)]
    if not rolling(deployment):
        down: Sizes = {uid_of(replica_set): 0 for replica_set in revisions.old if replicas_of(replica_set)}
        if down:
            return _scaled(deployment, revisions, limits, down)
        if _old_pods_run(revisions, pods):
            return []
    size = new_size(limits, revisions, little_by_little=rolling(deployment))
    if revisions.new is None:
        made = new_replica_set(deployment, size, limits.most, revisions.next_revision)
        message = f"Scaled up replica set {name_of(made)} from 0 to {size}"
        note = RecordEvent(DEPLOYMENT, deployment, "Normal", "ScalingReplicaSet", message)
        return [CreateObject(REPLICA_SET, made), *([note] if size else [])]
    if size != replicas_of(revisions.new):
        return _scaled(deployment, revisions, limits, {uid_of(revisions.new): size})
    if rolling(deployment):
        sizes = roll_down(limits, revisions)
        if sizes:
            return _scaled(deployment, revisions, limits, sizes)
    return _cleaned(deployment, revisions, paused=False)


def _scaled(
    deployment: Object, revisions: Revisions, limits: RolloutLimits, sizes: Sizes
) -> list[Instruction]:
    """These ReplicaSets with their new sizes, and with what they were scaled for."""
    instructions: list[Instruction] = []
    for replica_set in revisions.every:
        size = sizes.get(uid_of(replica_set))
        if size is None:
            continue
        noted = {DESIRED: str(limits.desired), MOST: str(limits.most)}
        annotations = {**annotations_of(replica_set), **noted}
        before = replicas_of(replica_set)
        if size == before and annotations == annotations_of(replica_set):
            continue
        scaled = {
            **with_metadata(replica_set, annotations=annotations),
            "spec": {**replica_set["spec"], "replicas": size},
        }
        instructions.append(UpdateObject(REPLICA_SET, scaled))
        if size != before:
            way = "up" if size > before else "down"
            message = f"Scaled {way} replica set {name_of(replica_set)} from {before} to {size}"
            instructions.append(RecordEvent(DEPLOYMENT, deployment, "Normal", "ScalingReplicaSet", message))
    return instructions


def _cleaned(deployment: Object, revisions: Revisions, *, paused: bool) -> list[Instruction]:
    if not paused and not complete(deployment, deployment.get("status") or {}):
        return []
    return [DeleteObject(REPLICA_SET, replica_set) for replica_set in cleanable(deployment, revisions.old)]


def _old_pods_run(revisions: Revisions, pods: Sequence[Object]) -> bool:
    return any(
        controlled_by(pod, owner) and phase_of(pod) not in ("Succeeded", "Failed")
        for pod in pods
        for owner in revisions.old
    )


def _revision_shown(deployment: Object, revisions: Revisions) -> str | None:
    """The revision that the Deployment must carry by now; None where it does."""
    if revisions.new is None:
        return None
    revision = revision_of(revisions.new)
    shown = str(revision) if revision else ""
    return shown if shown and annotations_of(deployment).get(REVISION) != shown else None
