"""A ReplicaSet: as many pods as it states, no more and no fewer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proreus.engine.controllers.instructions import (
    CreateObject,
    DeleteObject,
    ReconcileResult,
    RecordEvent,
    UpdateObject,
    sooner,
)
from proreus.engine.controllers.workloads.pods import (
    active,
    claim,
    first_to_go,
    pod_from,
    seconds_to_available,
)
from proreus.engine.objects.conditions import Condition, with_conditions
from proreus.engine.objects.kinds import POD, REPLICA_SET
from proreus.engine.objects.metadata import Object, deleting, labels_of, name_of, read_selector

MOST_AT_ONCE = 500
"""Pods made or taken in one go."""


def reconcile_replica_set(
    replica_set: Object, pods: Iterable[Object], now: float, failure: str = ""
) -> ReconcileResult:
    """What brings its pods nearer to what it asks for; `failure` is why the last attempt made none.

    `pods` are those of its namespace that it owns or selects. The status comes last, and is of what was seen.
    """
    spec = replica_set["spec"]
    mine, instructions = claim(REPLICA_SET, replica_set, read_selector(spec["selector"]), pods, POD)
    living = [pod for pod in mine if active(pod)]
    missing = replicas_of(replica_set) - len(living)
    if not deleting(replica_set):
        if missing > 0:
            pod = pod_from(REPLICA_SET, replica_set, spec["template"])
            instructions += [CreateObject(POD, pod)] * min(missing, MOST_AT_ONCE)
        elif missing < 0:
            for pod in first_to_go(living)[: min(-missing, MOST_AT_ONCE)]:
                instructions.append(DeleteObject(POD, pod))
                message = f"Deleted pod: {name_of(pod)}"
                instructions.append(
                    RecordEvent(REPLICA_SET, replica_set, "Normal", "SuccessfulDelete", message)
                )
    min_ready = float(spec.get("minReadySeconds") or 0)
    waits = [seconds_to_available(pod, min_ready, now) for pod in living]
    status = _status(replica_set, living, waits)
    conditions = _conditions(replica_set, failure if missing > 0 else "", now)
    if conditions:
        status["conditions"] = conditions
    if status != (replica_set.get("status") or {}):
        instructions.append(UpdateObject(REPLICA_SET, {**replica_set, "status": status}, "status"))
    return ReconcileResult(tuple(instructions), sooner(*(wait for wait in waits if wait)))


def replicas_of(obj: Object) -> int:
    """What a ReplicaSet or a Deployment asks for."""
    stated = obj["spec"].get("replicas")
    return 1 if stated is None else int(stated)


def _status(replica_set: Object, living: list[Object], waits: list[float | None]) -> dict[str, Any]:
    labels = (replica_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in living),
        "readyReplicas": sum(wait is not None for wait in waits),
        "availableReplicas": sum(wait == 0 for wait in waits),
    }
    return {
        "replicas": len(living),
        # Zeros are left out, as the API server does, but for the two that are always told.
        **{name: value for name, value in counts.items() if value},
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }


def _conditions(replica_set: Object, failure: str, now: float) -> list[dict[str, Any]]:
    standing = (replica_set.get("status") or {}).get("conditions") or ()
    if failure:
        return with_conditions(standing, [Condition("ReplicaFailure", "True", "FailedCreate", failure)], now)
    return [condition for condition in standing if condition.get("type") != "ReplicaFailure"]
