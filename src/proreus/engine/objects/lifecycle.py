"""From one state of an object to the next, by Kubernetes' rules: what a writer may not set is kept, what is
missing is filled in, what is wrong is refused. No I/O; nothing that is handed in is changed.
"""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.error_messages import check_preconditions, forbidden, invalid
from proreus.engine.objects.kinds import (
    BUDGET,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    Kind,
)
from proreus.engine.objects.schema.structure import shaped, with_spec
from proreus.engine.objects.timestamps import timestamp
from proreus.engine.objects.validation.by_kind import (
    causes_against,
    causes_against_status,
    causes_against_update,
    defaulted,
)
from proreus.engine.objects.validation.pods import quality_of_service
from proreus.engine.objects.validation.workloads import labelled_job

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_WITH_GENERATION = frozenset({POD, DEPLOYMENT, REPLICA_SET, JOB, BUDGET})
_DEFAULT_GRACE = 30
_KEPT_NAMESPACES = ("default", "kube-system", "kube-public")
_FINALIZER_OF = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_SYSTEM_METADATA = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generateName",
)


def first_state(kind: Kind, obj: dict[str, Any], name: str, *, uid: str, now: float) -> dict[str, Any]:
    """The object as it is stored first; without a resourceVersion."""
    given = obj["metadata"]
    metadata = {key: value for key, value in given.items() if key not in _SYSTEM_METADATA}
    metadata.pop("resourceVersion", None)
    if given.get("generateName"):
        metadata["generateName"] = given["generateName"]
    metadata.update(name=name, uid=uid, creationTimestamp=timestamp(now))
    if kind in _WITH_GENERATION:
        metadata["generation"] = 1
    state = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if kind.status and kind is not NODE:  # a node comes with what it is; of the others it is to be found out
        state.pop("status", None)
    state = defaulted(kind, state)
    causes = causes_against(kind, state)
    if causes:
        raise invalid(kind, name, causes)
    if kind is POD:
        state["status"] = {"phase": "Pending", "qosClass": quality_of_service(state["spec"])}
    elif kind is NAMESPACE:
        state["spec"] = {"finalizers": ["kubernetes"]}
        state["status"] = {"phase": "Active"}
    elif kind is JOB:
        state = labelled_job(state)
    return state


def next_state(
    kind: Kind, old: dict[str, Any], new: dict[str, Any], subresource: str
) -> dict[str, Any] | None:
    """What is stored when a writer asks for `new` where `old` stands; None where that changes nothing.

    Through a subresource only its own part is written, and otherwise all but the status.
    """
    before = old["metadata"]
    known = subresource == "binding"  # made here, by a function that knows what a pod looks like
    asked = with_spec(kind, new if known else shaped(kind, new).object)
    stated = asked.get("metadata", {})
    check_preconditions(kind, old, stated.get("uid", ""), stated.get("resourceVersion", ""))
    metadata = _kept_metadata(before, stated)
    match subresource:
        case "":
            state = defaulted(kind, {**asked, "metadata": metadata})
            if kind.status:
                _take(state, old, "status")
            if kind is NAMESPACE:
                _take(state, old, "spec")
            if kind is POD:
                state["spec"] = _with_priority(old["spec"], state["spec"])
        case "status":
            metadata = {**before, **_only(metadata, "annotations", "managedFields")}
            state = {**old, "metadata": metadata}
            _take(state, asked, "status")
        case "finalize":
            state = {**old, "metadata": metadata, "spec": asked.get("spec", {})}
        case _:
            state = {**asked, "metadata": metadata}
    state["apiVersion"], state["kind"] = kind.api_version, kind.kind
    metadata.pop("resourceVersion", None)
    state["metadata"].pop("resourceVersion", None)
    counted = kind in _WITH_GENERATION and subresource not in ("status", "binding")
    if counted and state.get("spec") != old.get("spec"):
        state["metadata"]["generation"] = before.get("generation", 0) + 1
    renamed = any(stated.get(key) not in (None, "", before.get(key, "")) for key in ("name", "namespace"))
    if not renamed and state == {
        **old,
        "metadata": {k: v for k, v in before.items() if k != "resourceVersion"},
    }:
        return None
    if subresource == "status":
        causes = causes_against_status(kind, state)
        if causes:
            raise invalid(kind, before["name"], causes)
    if not known and (subresource != "status" or kind is NODE):
        names = {key: stated[key] for key in ("name", "namespace") if stated.get(key)}
        meant = {**state, "metadata": {**state["metadata"], **names}}
        causes = causes_against_update(kind, old, meant)
        if causes:
            raise invalid(kind, before["name"], causes)
    return state


def _with_priority(before: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What was found out at the pod's creation holds where an update does not state it."""
    kept: dict[str, Any] = {
        key: before[key] for key in ("priority", "preemptionPolicy") if key in before and key not in asked
    }
    return {**asked, **kept} if kept else asked


def deletion_started(
    kind: Kind, old: dict[str, Any], grace: int | None, propagation: str, now: float
) -> dict[str, Any] | None:
    """The object marked for deletion; None where it is marked already and this adds nothing."""
    before = old["metadata"]
    check_may_go(kind, old)
    seconds = _grace(kind, old, grace)
    finalizers = [
        finalizer for finalizer in before.get("finalizers", ()) if finalizer not in (FOREGROUND, ORPHAN)
    ]
    if propagation in _FINALIZER_OF:
        finalizers.append(_FINALIZER_OF[propagation])
    marked = "deletionTimestamp" in before
    if marked and seconds >= before.get("deletionGracePeriodSeconds", 0) and seconds > 0:
        seconds = before.get("deletionGracePeriodSeconds", 0)
    metadata = {key: value for key, value in before.items() if key != "resourceVersion"}
    if marked and propagation == "Background":
        finalizers = before.get("finalizers", [])  # a second deletion takes nothing from the first
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if not marked or seconds != before.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = timestamp(now + seconds)
        metadata["deletionGracePeriodSeconds"] = seconds
        if "generation" in metadata:
            metadata["generation"] += 1
    state = {**old, "metadata": metadata}
    if kind is NAMESPACE:
        state["status"] = {**old.get("status", {}), "phase": "Terminating"}
    if not finished_deleting(kind, state) and metadata == {
        key: value for key, value in before.items() if key != "resourceVersion"
    }:
        return None
    return state


def check_may_go(kind: Kind, obj: dict[str, Any]) -> None:
    """`Forbidden` of what every cluster has and keeps."""
    name = obj["metadata"]["name"]
    if kind is NAMESPACE and name in _KEPT_NAMESPACES:
        raise forbidden(kind, name, "this namespace may not be deleted")


def finished_deleting(kind: Kind, state: dict[str, Any]) -> bool:
    """Marked for deletion, its grace over, and held by nobody."""
    metadata = state["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind is NAMESPACE and state.get("spec", {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _grace(kind: Kind, obj: dict[str, Any], asked: int | None) -> int:
    """How long a pod may take to end; whatever else there is goes at once."""
    if kind is not POD:
        return 0
    if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if asked is not None:
        return max(asked, 0)
    return int(obj["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))


def _kept_metadata(before: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, but for what the system alone sets."""
    metadata = {**asked, "name": before["name"]}
    for key in (*_SYSTEM_METADATA, "namespace"):
        if key in before:
            metadata[key] = before[key]
        else:
            metadata.pop(key, None)
    if before.get("managedFields") and not metadata.get("managedFields"):
        metadata["managedFields"] = before["managedFields"]
    return metadata


def _take(state: dict[str, Any], source: dict[str, Any], key: str) -> None:
    """The key as in `source`: there or not."""
    if key in source:
        state[key] = source[key]
    else:
        state.pop(key, None)


def _only(metadata: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: metadata[key] for key in keys if key in metadata}
