"""What holds of the metadata of every object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.objects.kinds import NAMESPACE, SERVICE, Kind
from proreus.engine.objects.names import (
    dns_1035_problem,
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    label_value_problem,
)
from proreus.engine.objects.validation.error_list import Problems

_MOST_ANNOTATION_BYTES = 256 * 1024
_NAME_RULES = {NAMESPACE: dns_label_problem, SERVICE: dns_1035_problem}


def check_metadata(kind: Kind, metadata: Mapping[str, Any], problems: Problems) -> None:
    """Name, namespace, labels, annotations, finalizers, owners."""
    rule = _NAME_RULES.get(kind, dns_subdomain_problem)
    problems.unless("metadata.name", metadata["name"], rule(metadata["name"]))
    if "labels" in metadata:
        check_labels(metadata["labels"], "metadata.labels", problems)
    annotations = metadata.get("annotations")
    if annotations:
        size = 0
        for key, value in annotations.items():
            size += len(key) + len(value)
            why = label_key_problem(key.lower())
            if why:
                problems.invalid("metadata.annotations", key, why)
        if size > _MOST_ANNOTATION_BYTES:
            problems.too_long("metadata.annotations", f"must have at most {_MOST_ANNOTATION_BYTES} bytes")
    for finalizer in metadata.get("finalizers", ()):
        problems.unless("metadata.finalizers", finalizer, label_key_problem(finalizer))
    _check_owners(metadata.get("ownerReferences", ()), problems)


def check_labels(labels: Mapping[str, str], field: str, problems: Problems) -> None:
    """Keys and values of labels."""
    for key, value in labels.items():
        why = label_key_problem(key)
        if why:
            problems.invalid(field, key, why)
        why = label_value_problem(value)
        if why:
            problems.invalid(field, value, why)


def _check_owners(owners: Any, problems: Problems) -> None:
    controllers = 0
    for place, owner in enumerate(owners):
        field = f"metadata.ownerReferences[{place}]"
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                problems.invalid(f"{field}.{key}", owner.get(key, ""), "must not be empty")
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        problems.invalid(
            "metadata.ownerReferences", controllers, "Only one reference can have Controller set to true"
        )


def check_metadata_update(old: Mapping[str, Any], new: Mapping[str, Any], problems: Problems) -> None:
    """Names do not change; of an object on its way out no finalizer is added."""
    for key in ("name", "namespace"):
        asked = new.get(key) or old.get(key, "")
        if asked != old.get(key, ""):
            problems.invalid(f"metadata.{key}", asked, "field is immutable")
    if "deletionTimestamp" in old:
        before = set(old.get("finalizers", ()))
        added = [finalizer for finalizer in new.get("finalizers", ()) if finalizer not in before]
        if added:
            problems.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"{added!s:.200}",
            )


# What holds of a LabelSelector inside an object.

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_selector(selector: Mapping[str, Any], field: str, problems: Problems) -> None:
    """Keys, operators, and values where there must be some."""
    check_labels(selector.get("matchLabels", {}), f"{field}.matchLabels", problems)
    for place, match_expression in enumerate(selector.get("matchExpressions", ())):
        here = f"{field}.matchExpressions[{place}]"
        operator, values = match_expression.get("operator", ""), match_expression.get("values", ())
        if operator not in _OPERATORS:
            problems.invalid(f"{here}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            problems.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            problems.forbidden(
                f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        problems.unless(
            f"{here}.key", match_expression.get("key", ""), label_key_problem(match_expression.get("key", ""))
        )
