"""From one state of an object to the next, by Kubernetes' rules: what a writer may not set is kept, what is
missing is filled in, what is wrong is refused. No I/O; nothing that is handed in is changed.
"""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.errors import Cause, Invalid
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
from proreus.engine.objects.times import timestamp

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_WITH_GENERATION = frozenset({POD, DEPLOYMENT, REPLICA_SET, JOB, BUDGET})
_DEFAULT_GRACE = 30
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
    if kind is POD:
        state["status"] = {"phase": "Pending"}
    elif kind is NAMESPACE:
        state["spec"] = {"finalizers": ["kubernetes"]}
        state["status"] = {"phase": "Active"}
    return state


def next_state(
    kind: Kind, old: dict[str, Any], new: dict[str, Any], subresource: str
) -> dict[str, Any] | None:
    """What is stored when a writer asks for `new` where `old` stands; None where that changes nothing.

    Through a subresource only its own part is written, and otherwise all but the status.
    """
    before = old["metadata"]
    metadata = _kept_metadata(before, new.get("metadata", {}))
    match subresource:
        case "":
            state = {**new, "metadata": metadata}
            if kind.status:
                _take(state, old, "status")
            if kind is NAMESPACE:
                _take(state, old, "spec")
        case "status":
            metadata = {**before, **_only(metadata, "annotations", "managedFields")}
            state = {**old, "metadata": metadata}
            _take(state, new, "status")
        case "finalize":
            state = {**old, "metadata": metadata, "spec": new.get("spec", {})}
        case _:
            state = {**new, "metadata": metadata}
    state["apiVersion"], state["kind"] = kind.api_version, kind.kind
    metadata.pop("resourceVersion", None)
    counted = kind in _WITH_GENERATION and subresource not in ("status", "binding")
    if counted and state.get("spec") != old.get("spec"):
        metadata["generation"] = before.get("generation", 0) + 1
    if state == {**old, "metadata": {k: v for k, v in before.items() if k != "resourceVersion"}}:
        return None
    return state


def deletion_started(
    kind: Kind, old: dict[str, Any], grace: int | None, propagation: str, now: float
) -> dict[str, Any] | None:
    """The object marked for deletion; None where it is marked already and this adds nothing."""
    before = old["metadata"]
    seconds = _grace(kind, old, grace)
    finalizers = [one for one in before.get("finalizers", ()) if one not in (FOREGROUND, ORPHAN)]
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
    return metadata


def _take(state: dict[str, Any], source: dict[str, Any], key: str) -> None:
    """The key as in `source`: there or not."""
    if key in source:
        state[key] = source[key]
    else:
        state.pop(key, None)


def _only(metadata: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: metadata[key] for key in keys if key in metadata}


def invalid(kind: Kind, name: str, causes: tuple[Cause, ...]) -> Invalid:
    """The fields that are wrong, as the API server lists them."""
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    shown = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return Invalid(f'{shown} "{name}" is invalid: {listed}', kind=kind.kind, name=name, causes=causes)
