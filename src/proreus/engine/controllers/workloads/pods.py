"""The pods of a workload: made from its template, claimed, judged, and ranked for who goes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proreus.engine.controllers.instructions import Instruction, UpdateObject
from proreus.engine.objects.conditions import find_condition, holds, moment_of
from proreus.engine.objects.kinds import POD, Kind
from proreus.engine.objects.metadata import (
    Object,
    annotations_of,
    controlled_by,
    controller_of,
    created,
    deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    with_metadata,
)
from proreus.model.selectors import Selector

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = ("Pending", "Unknown", "Running")
"""Those that have come less far go first."""


def pod_from(kind: Kind, owner: Object, template: Mapping[str, Any], **metadata: Any) -> Object:
    """A pod by a template, owned; `metadata` adds to what the template states."""
    stated = template.get("metadata") or {}
    made: dict[str, Any] = {
        "generateName": f"{name_of(owner)}-",
        "namespace": namespace_of(owner),
        "ownerReferences": [owner_reference(kind, owner)],
    }
    for field in ("labels", "annotations"):
        both = {**(stated.get(field) or {}), **metadata.pop(field, {})}
        if both:
            made[field] = both
    finalizers = [*(stated.get("finalizers") or ()), *metadata.pop("finalizers", ())]
    if finalizers:
        made["finalizers"] = finalizers
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": made | metadata,
        "spec": template["spec"],
    }


def claim(
    kind: Kind, owner: Object, selector: Selector | None, dependents: Iterable[Object], of: Kind
) -> tuple[list[Object], list[Instruction]]:
    """The dependents that are the owner's, and what takes up orphans and lets go of strays."""
    mine: list[Object] = []
    instructions: list[Instruction] = []
    for dependent in dependents:
        matches = selector is not None and selector.matches(labels_of(dependent))
        if controlled_by(dependent, owner):
            if matches or deleting(dependent):
                mine.append(dependent)
            else:
                owners = [
                    ref for ref in dependent["metadata"]["ownerReferences"] if not ref.get("controller")
                ]
                instructions.append(UpdateObject(of, with_metadata(dependent, ownerReferences=owners)))
        elif matches and controller_of(dependent) is None and not deleting(dependent) and not deleting(owner):
            owners = [*(dependent["metadata"].get("ownerReferences") or ()), owner_reference(kind, owner)]
            instructions.append(UpdateObject(of, with_metadata(dependent, ownerReferences=owners)))
            mine.append(dependent)
    return mine, instructions


def phase_of(pod: Mapping[str, Any]) -> str:
    """Pending, Running, Succeeded, Failed, Unknown."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def active(pod: Mapping[str, Any]) -> bool:
    """Neither ended nor on its way out."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not deleting(pod)


def ready_since(pod: Mapping[str, Any]) -> float | None:
    """When it began to serve; None: it does not, or nobody says since when."""
    condition = find_condition(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return None
    return moment_of(condition)


def seconds_to_available(pod: Mapping[str, Any], min_ready: float, now: float) -> float | None:
    """How long until it has served long enough to be relied on: 0 now, None as long as it does not serve."""
    if not min_ready:
        return 0.0 if holds(pod, "Ready") else None
    since = ready_since(pod)
    return None if since is None else max(0.0, since + min_ready - now)


def first_to_go(pods: Sequence[Object]) -> list[Object]:
    """All of them, those first that would be missed least (the rules of the ReplicaSet controller)."""
    beside = Counter(pod["spec"].get("nodeName") for pod in pods if active(pod))

    def rank(pod: Object) -> tuple[Any, ...]:
        since = ready_since(pod)
        restarts = sum(
            int(container_status.get("restartCount") or 0)
            for container_status in (pod.get("status") or {}).get("containerStatuses") or ()
        )
        phase = phase_of(pod)
        return (
            bool(pod["spec"].get("nodeName")),
            _PHASES.index(phase) if phase in _PHASES else len(_PHASES),
            holds(pod, "Ready"),
            _deletion_cost(pod),
            -beside[pod["spec"].get("nodeName")],
            -(since or 0.0),
            -restarts,
            -created(pod),
            name_of(pod),
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Object) -> int:
    try:
        return int(annotations_of(pod).get(DELETION_COST, "0"))
    except ValueError:
        return 0
