"""A pod is asked to go: deleted if its disruption budgets allow one more disruption now.

The deletion and what it takes from the budgets go into one transaction, so that two evictions never spend the
same allowance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from proreus.engine.objects.error_messages import check_preconditions
from proreus.engine.objects.errors import Cause, TooManyRequests
from proreus.engine.objects.intents import Change, DeletionTerms, Disruption, Intent
from proreus.engine.objects.kinds import BUDGET, POD
from proreus.engine.objects.selectors import selector_of
from proreus.engine.objects.timestamps import timestamp

if TYPE_CHECKING:
    from proreus.engine.objects.registry import Registry

_MOST_DISRUPTED = 2000
_EVICTED = Disruption("EvictionByEvictionAPI", "Eviction API: evicting")
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_Map = dict[str, Any]


async def eviction_intents(
    registry: Registry, namespace: str, name: str, terms: DeletionTerms, now: float
) -> list[Intent]:
    """What an eviction on those terms comes to; planning it raises `TooManyRequests`."""
    pod = await registry.get(POD, namespace, name)
    check_preconditions(POD, pod, terms.uid, terms.resource_version)
    budgets = [] if _needs_no_leave(pod) else await _budgets(registry, pod)
    spending = [
        registry.editing(
            BUDGET, namespace, budget["metadata"]["name"], _spent(pod, now), subresource="status"
        )
        for budget in budgets
        if not _ready_enough_without(budget, pod)
    ]
    meant = structs.replace(terms, uid=pod["metadata"]["uid"], disruption=_EVICTED)
    return [*spending, registry.deleting(POD, namespace, name, meant)]


async def _budgets(registry: Registry, pod: _Map) -> list[_Map]:
    metadata = pod["metadata"]
    listed = await registry.list(BUDGET, metadata["namespace"])
    labels = metadata.get("labels", {})
    return [
        item for item in listed.items if selector_of(item.get("spec", {}).get("selector")).matches(labels)
    ]


def _needs_no_leave(pod: _Map) -> bool:
    """Done, not begun, or on its way out already."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _ready_enough_without(budget: _Map, pod: _Map) -> bool:
    """Whether the pod does not count: it is not ready, and the budget lets such go."""
    conditions = pod.get("status", {}).get("conditions", ())
    if any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
    ):
        return False
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    return bool(0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0))


def _spent(pod: _Map, now: float) -> Change:
    """The change of a budget by which one disruption is spent on the pod."""

    def change(budget: _Map) -> _Map:
        metadata, status = budget["metadata"], budget.get("status", {})
        if status.get("observedGeneration", 0) < metadata.get("generation", 0):
            raise _refusal(
                f"The disruption budget {metadata['name']} is still being processed by the server."
            )
        if status.get("disruptionsAllowed", 0) <= 0:
            raise _refusal(
                f"The disruption budget {metadata['name']} needs {status.get('desiredHealthy', 0)} healthy "
                f"pods and has {status.get('currentHealthy', 0)} currently"
            )
        disrupted = status.get("disruptedPods", {})
        if len(disrupted) > _MOST_DISRUPTED:
            raise _refusal(f"The disruption budget {metadata['name']} has too many evictions under way.")
        spent = {
            **status,
            "disruptionsAllowed": status["disruptionsAllowed"] - 1,
            "disruptedPods": {**disrupted, pod["metadata"]["name"]: timestamp(now)},
        }
        return {**budget, "status": spent}

    return change


def _refusal(why: str) -> TooManyRequests:
    return TooManyRequests(_REFUSED, causes=(Cause("", why, "DisruptionBudget"),))
