"""A pod is put onto a node: once, and never one that is on its way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from proreus.engine.objects.error_messages import check_preconditions
from proreus.engine.objects.errors import Conflict
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.timestamps import timestamp


class Binding(msgspec.Struct, frozen=True, gc=False):
    """Which pod goes to which node; `uid` names the one pod that is meant, "" whichever has the name now."""

    namespace: str
    name: str
    node: str
    uid: str = ""
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)


def bound(pod: dict[str, Any], binding: Binding, now: float) -> dict[str, Any]:
    """The pod on its node; `Conflict` where it may not be put there any more."""
    check_preconditions(POD, pod, binding.uid, "")
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    if "deletionTimestamp" in metadata:
        raise _refusal(binding, f"pod {binding.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _refusal(binding, f'pod {binding.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refusal(binding, f"pod {binding.name} has non-empty .spec.schedulingGates")
    if binding.annotations:
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **binding.annotations}}
    conditions = [
        condition for condition in status.get("conditions", ()) if condition.get("type") != "PodScheduled"
    ]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(now)})
    return {
        **pod,
        "metadata": metadata,
        "spec": {**spec, "nodeName": binding.node},
        "status": {**status, "conditions": conditions},
    }


def _refusal(binding: Binding, why: str) -> Conflict:
    return Conflict(
        f'Operation cannot be fulfilled on pods/binding "{binding.name}": {why}',
        kind="pods/binding",
        name=binding.name,
    )
