"""What a Deployment tells of its rollout: counts, and whether it is available, progressing, or stuck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.controllers.workloads.replica_sets import replicas_of
from proreus.engine.controllers.workloads.revisions import Revisions
from proreus.engine.controllers.workloads.rolling_update import RolloutLimits, count
from proreus.engine.objects.conditions import find_among, find_condition, moment_of
from proreus.engine.objects.metadata import Object, created, name_of
from proreus.engine.objects.timestamps import timestamp

Status = dict[str, Any]
_AVAILABLE_NEW = "NewReplicaSetAvailable"
_TIMED_OUT = "ProgressDeadlineExceeded"


def rollout_status(
    deployment: Object, revisions: Revisions, limits: RolloutLimits, now: float, failure: str = ""
) -> Status:
    """The status by what is seen now; `failure` is why the new ReplicaSet could not be made."""
    status = _counts(deployment, revisions)
    serving = status.get("availableReplicas", 0) >= limits.fewest
    _set(
        status,
        ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if serving
        else (
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
        now,
    )
    if deployment["spec"].get("progressDeadlineSeconds") is None:
        _drop(status, "Progressing")
    else:
        _progress(deployment, revisions, status, now, failure)
    _replica_failures(revisions, status)
    return status


def complete(deployment: Object, status: Mapping[str, Any]) -> bool:
    """Everything asked for is new and serves."""
    desired = replicas_of(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return seen and all(status.get(name, 0) == desired for name in counts)


def seconds_to_deadline(deployment: Object, status: Mapping[str, Any], now: float) -> float | None:
    """How long until a rollout without progress is called stuck; None: it is done, stuck or unlimited."""
    limit = deployment["spec"].get("progressDeadlineSeconds")
    condition = find_among(status["conditions"], "Progressing")
    if limit is None or condition is None or deployment["spec"].get("paused"):
        return None
    if condition["reason"] in (_AVAILABLE_NEW, _TIMED_OUT) or complete(deployment, status):
        return None
    # A second more, since the moment of the last progress is written down in whole seconds.
    return max(0.0, _progressed(deployment, condition) + float(limit) + 1.0 - now)


def _counts(deployment: Object, revisions: Revisions) -> Status:
    def of_status(name: str, *sets: Object) -> int:
        return sum(int((replica_set.get("status") or {}).get(name) or 0) for replica_set in sets)

    every = revisions.every
    available = of_status("availableReplicas", *every)
    before = deployment.get("status") or {}
    numbers = {
        "replicas": of_status("replicas", *every),
        "updatedReplicas": of_status("replicas", *((revisions.new,) if revisions.new is not None else ())),
        "readyReplicas": of_status("readyReplicas", *every),
        "availableReplicas": available,
        "unavailableReplicas": max(0, count(every) - available),
        "collisionCount": before.get("collisionCount") or 0,
    }
    status: Status = {name: number for name, number in numbers.items() if number}
    status["observedGeneration"] = deployment["metadata"].get("generation", 0)
    status["conditions"] = list(before.get("conditions") or ())
    return status


def _progress(deployment: Object, revisions: Revisions, status: Status, now: float, failure: str) -> None:
    before = find_condition(deployment, "Progressing")
    new = revisions.new
    what = f'ReplicaSet "{name_of(new)}"' if new is not None else f'Deployment "{name_of(deployment)}"'
    reason = before["reason"] if before is not None else ""
    if deployment["spec"].get("paused"):
        if reason not in (_TIMED_OUT, "DeploymentPaused"):
            _set(status, ("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"), now)
        return
    if reason == "DeploymentPaused":
        _set(status, ("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"), now)
        return
    if failure:
        _set(status, ("Progressing", "False", "ReplicaSetCreateError", failure), now)
        return
    if status.get("replicas", 0) == status.get("updatedReplicas", 0) and reason == _AVAILABLE_NEW:
        return  # the last rollout is done, and this is no new one
    if new is not None and before is None:
        _set(status, ("Progressing", "True", "NewReplicaSetCreated", f"Created new {_lowered(what)}"), now)
    if complete(deployment, status):
        _set(status, ("Progressing", "True", _AVAILABLE_NEW, f"{what} has successfully progressed."), now)
    elif _moved(deployment, status):
        standing = before is not None and before["status"] == "True" and before.get("lastTransitionTime")
        _drop(status, "Progressing")
        _set(status, ("Progressing", "True", "ReplicaSetUpdated", f"{what} is progressing."), now)
        if standing:
            status["conditions"][-1]["lastTransitionTime"] = standing
    elif _late(deployment, status, now):
        _set(status, ("Progressing", "False", _TIMED_OUT, f"{what} has timed out progressing."), now)


def _moved(deployment: Object, status: Status) -> bool:
    before = deployment.get("status") or {}

    def number(of: Mapping[str, Any], name: str) -> int:
        return int(of.get(name) or 0)

    def old(of: Mapping[str, Any]) -> int:
        return number(of, "replicas") - number(of, "updatedReplicas")

    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(status) < old(before) or any(number(status, name) > number(before, name) for name in more)


def _late(deployment: Object, status: Status, now: float) -> bool:
    condition = find_among(status["conditions"], "Progressing")
    if condition is None or condition["reason"] == _AVAILABLE_NEW:
        return False
    limit = float(deployment["spec"]["progressDeadlineSeconds"])
    return condition["reason"] == _TIMED_OUT or now > _progressed(deployment, condition) + limit


def _progressed(deployment: Object, condition: Mapping[str, Any]) -> float:
    """When it last moved; where nobody says, it has not since it was made."""
    since = moment_of(condition, "lastUpdateTime")
    return created(deployment) if since is None else since


def _replica_failures(revisions: Revisions, status: Status) -> None:
    """A ReplicaSet that cannot make its pods is told of here, the new one first."""
    newest_first = reversed(revisions.every)
    conditions = (find_condition(replica_set, "ReplicaFailure") for replica_set in newest_first)
    failing = next((condition for condition in conditions if condition is not None), None)
    _drop(status, "ReplicaFailure")
    if failing is not None:
        moment = failing.get("lastTransitionTime")
        status["conditions"].append({**failing, "lastUpdateTime": moment} if moment else dict(failing))


def _set(status: Status, stated: tuple[str, str, str, str], now: float) -> None:
    """The condition; one of the same status and reason stays as it is."""
    kind, truth, reason, message = stated
    before = find_among(status["conditions"], kind)
    if before is not None and before["status"] == truth and before["reason"] == reason:
        return
    moment = timestamp(now)
    stayed = before.get("lastTransitionTime") if before is not None and before["status"] == truth else None
    condition = {
        "type": kind,
        "status": truth,
        "lastUpdateTime": moment,
        "lastTransitionTime": stayed or moment,
        "reason": reason,
        "message": message,
    }
    _drop(status, kind)
    status["conditions"].append(condition)


def _drop(status: Status, kind: str) -> None:
    status["conditions"] = [condition for condition in status["conditions"] if condition.get("type") != kind]


def _lowered(what: str) -> str:
    return what.replace("ReplicaSet", "replica set", 1)
