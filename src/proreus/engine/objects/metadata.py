"""Who an object is, whose it is, and whether it is on its way out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.timestamps import parse_timestamp
from proreus.model.selectors import Operator, Requirement, Selector

Object = dict[str, Any]
"""In Kubernetes' JSON shape; read only unless one has made it."""


def uid_of(obj: Mapping[str, Any]) -> str:
    """What no other object ever has."""
    return str(obj["metadata"]["uid"])


def name_of(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Its namespace; "" where its kind has none."""
    return str(obj["metadata"].get("namespace") or "")


def key_of(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def deleting(obj: Mapping[str, Any]) -> bool:
    """Whether it is on its way out."""
    return obj["metadata"].get("deletionTimestamp") is not None


def created(obj: Mapping[str, Any]) -> float:
    """When it came to be."""
    return parse_timestamp(obj["metadata"]["creationTimestamp"])


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner that manages it."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            reference: Mapping[str, Any] = owner
            return reference
    return None


def controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether `owner` manages it."""
    controller = controller_of(obj)
    return controller is not None and controller["uid"] == owner["metadata"]["uid"]


def owner_reference(kind: Kind, owner: Mapping[str, Any]) -> Object:
    """What its dependents state of the owner that manages them."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def read_selector(stated: Mapping[str, Any] | None) -> Selector | None:
    """A metav1.LabelSelector; None, where none is stated, selects nothing."""
    if stated is None:
        return None
    equal = _equal(stated.get("matchLabels") or {})
    others = (
        Requirement(
            match_expression["key"],
            Operator(match_expression["operator"]),
            tuple(match_expression.get("values") or ()),
        )
        for match_expression in stated.get("matchExpressions") or ()
    )
    return Selector((*equal, *others))


def _equal(labels: Mapping[str, str]) -> Iterable[Requirement]:
    return (Requirement(key, Operator.IN, (value,)) for key, value in sorted(labels.items()))


def with_metadata(obj: Mapping[str, Any], **changed: Any) -> Object:
    """The object with these fields of its metadata; shares everything else."""
    return {**obj, "metadata": {**obj["metadata"], **changed}}


def without_finalizer(obj: Mapping[str, Any], finalizer: str) -> Object | None:
    """The object without that finalizer; None where it has it not."""
    finalizers = obj["metadata"].get("finalizers") or ()
    if finalizer not in finalizers:
        return None
    return with_metadata(obj, finalizers=[held for held in finalizers if held != finalizer])
