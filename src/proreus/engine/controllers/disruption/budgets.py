"""How many pods of a disruption budget may be disturbed now, as the disruption controller counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proreus.engine.controllers.instructions import ReconcileResult, UpdateObject
from proreus.engine.controllers.workloads.rolling_update import scaled_value
from proreus.engine.objects.conditions import Condition, holds, with_conditions
from proreus.engine.objects.kinds import BUDGET
from proreus.engine.objects.metadata import Object, controller_of, deleting, name_of
from proreus.engine.objects.timestamps import parse_timestamp

DELETION_SECONDS = 120.0
"""So long a pod whose eviction was granted may take to be seen as deleted."""
Scale = Callable[[Object], tuple[str, int] | None]
"""Of a pod: the uid of what scales it, and how many pods that asks for; None: it has no such owner."""


class NoScale(Exception):
    """A pod is managed by something that does not say how many there should be."""


def reconcile_budget(budget: Object, pods: Sequence[Object], scale: Scale, now: float) -> ReconcileResult:
    """The budget's status by the pods that it selects."""
    try:
        expected, desired = _wanted(budget, pods, scale)
    except NoScale as error:
        return _failed(budget, str(error), now)
    granted = _granted(budget, pods, now)
    healthy = sum(not deleting(pod) and name_of(pod) not in granted and holds(pod, "Ready") for pod in pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    condition = (
        Condition("DisruptionAllowed", "True", "SufficientPods")
        if allowed
        else Condition("DisruptionAllowed", "False", "InsufficientPods")
    )
    status: dict[str, Any] = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "conditions": _conditions(budget, condition, now),
    }
    if granted:
        status["disruptedPods"] = granted
    moments = [parse_timestamp(moment) + DELETION_SECONDS - now for moment in granted.values()]
    return _plan(budget, status, min(moments) if moments else None)


def _wanted(budget: Object, pods: Sequence[Object], scale: Scale) -> tuple[int, int]:
    """How many pods there should be, and how many of them healthy."""
    spec = budget.get("spec") or {}
    if spec.get("maxUnavailable") is not None:
        expected = _expected(pods, scale)
        return expected, max(0, expected - scaled_value(spec["maxUnavailable"], expected, up=True))
    least = spec.get("minAvailable")
    if least is None:
        return 0, 0
    if isinstance(least, str) and least.endswith("%"):
        expected = _expected(pods, scale)
        return expected, scaled_value(least, expected, up=True)
    return len(pods), int(least)


def _expected(pods: Sequence[Object], scale: Scale) -> int:
    """What the owners of these pods ask for together; pods without one do not count."""
    scales: dict[str, int] = {}
    for pod in pods:
        if controller_of(pod) is None:
            continue
        controller = scale(pod)
        if controller is None:
            raise NoScale(f'found no controllers for pod "{name_of(pod)}"')
        scales[controller[0]] = controller[1]
    return sum(scales.values())


def _granted(budget: Object, pods: Sequence[Object], now: float) -> dict[str, str]:
    """Pods whose eviction was granted and that are not yet seen to go, by the moment of the grant."""
    known = (budget.get("status") or {}).get("disruptedPods") or {}
    here = {name_of(pod) for pod in pods if not deleting(pod)}
    return {
        name: moment
        for name, moment in known.items()
        if name in here and parse_timestamp(moment) + DELETION_SECONDS >= now
    }


def _failed(budget: Object, why: str, now: float) -> ReconcileResult:
    """Nothing may be disturbed where it cannot be counted."""
    before = budget.get("status") or {}
    condition = Condition("DisruptionAllowed", "False", "SyncFailed", why)
    counts = {name: before.get(name, 0) for name in ("currentHealthy", "desiredHealthy", "expectedPods")}
    status = {**before, **counts, "disruptionsAllowed": 0, "conditions": _conditions(budget, condition, now)}
    return _plan(budget, status, None)


def _conditions(budget: Object, condition: Condition, now: float) -> list[dict[str, Any]]:
    standing = (budget.get("status") or {}).get("conditions") or ()
    conditions = with_conditions(standing, [condition], now)
    generation = budget["metadata"].get("generation", 0)
    # metav1.Condition demands a message, if an empty one, and tells of which generation it is.
    return [{"message": "", **condition, "observedGeneration": generation} for condition in conditions]


def _plan(budget: Object, status: dict[str, Any], again_in: float | None) -> ReconcileResult:
    if status == (budget.get("status") or {}):
        return ReconcileResult((), again_in)
    return ReconcileResult((UpdateObject(BUDGET, {**budget, "status": status}, "status"),), again_in)
