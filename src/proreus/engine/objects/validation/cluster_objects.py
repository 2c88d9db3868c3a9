"""What a cluster is made of and ruled by: nodes, namespaces, priority classes, disruption budgets, leases."""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.names import label_key_problem, label_value_problem
from proreus.engine.objects.validation.error_list import Problems
from proreus.engine.objects.validation.metadata import check_selector
from proreus.engine.objects.validation.quantities import check_amounts
from proreus.engine.objects.validation.workloads import check_count_or_percent

_Map = dict[str, Any]
HIGHEST_USER_PRIORITY = 1_000_000_000
NAMESPACE_NAME = "kubernetes.io/metadata.name"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def defaulted_namespace(obj: _Map) -> _Map:
    """With its name as a label, for namespace selectors."""
    metadata = obj["metadata"]
    labels = {**metadata.get("labels", {}), NAMESPACE_NAME: metadata["name"]}
    return {**obj, "metadata": {**metadata, "labels": labels}}


def defaulted_node(obj: _Map) -> _Map:
    """What a node can give away is all that it has, where it does not say."""
    status = obj.get("status", {})
    if "allocatable" not in status and "capacity" in status:
        status = {**status, "allocatable": status["capacity"]}
    return {**obj, "spec": obj.get("spec", {}), "status": status}


def check_node(obj: _Map, problems: Problems) -> None:
    """Taints and amounts of resources."""
    seen: set[tuple[str, str]] = set()
    for place, taint in enumerate(obj.get("spec", {}).get("taints", ())):
        here = f"spec.taints[{place}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        problems.unless(f"{here}.key", key, label_key_problem(key))
        problems.unless(f"{here}.value", taint.get("value", ""), label_value_problem(taint.get("value", "")))
        if effect:
            problems.one_of(f"{here}.effect", effect, _EFFECTS)
        else:
            problems.required(f"{here}.effect")
        if (key, effect) in seen:
            problems.duplicate(here, taint)
        seen.add((key, effect))
    for key in ("capacity", "allocatable"):
        check_amounts(obj.get("status", {}).get(key, {}), f"status.{key}", problems)


def defaulted_priority_class(obj: _Map) -> _Map:
    """It may preempt, where it does not say."""
    return {"preemptionPolicy": "PreemptLowerPriority", **obj}


def check_priority_class(obj: _Map, problems: Problems) -> None:
    """Users' priorities stay below the system's."""
    name = obj["metadata"]["name"]
    if "value" not in obj:
        problems.required("value")
    elif obj["value"] > HIGHEST_USER_PRIORITY and not name.startswith("system-"):
        problems.forbidden(
            "value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        )
    problems.one_of("preemptionPolicy", obj["preemptionPolicy"], ("Never", "PreemptLowerPriority"))


def check_priority_class_update(old: _Map, new: _Map, problems: Problems) -> None:
    """What pods were admitted by stays."""
    for key, word in (("value", "value"), ("preemptionPolicy", "preemptionPolicy")):
        if old.get(key) != new.get(key):
            problems.forbidden(key, f"may not be changed in an update: {word}")


def check_budget(obj: _Map, problems: Problems) -> None:
    """One of the two bounds, and whom it is about."""
    spec = obj.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        problems.invalid("spec", "", "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            check_count_or_percent(spec[key], f"spec.{key}", problems)
    if "selector" in spec:
        check_selector(spec["selector"], "spec.selector", problems)


def check_lease(obj: _Map, problems: Problems) -> None:
    """A lease lasts some time and changes hands so many times."""
    spec = obj.get("spec", {})
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        problems.invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    problems.at_least("spec.leaseTransitions", spec.get("leaseTransitions", 0))
