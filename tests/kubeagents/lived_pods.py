"""Pods with a past, as an API server tells of them."""

from __future__ import annotations

from typing import Any

from tests.kube.control_plane import node, pod

Object = dict[str, Any]


def at(hours: float) -> str:
    """So long after the beginning of 2026."""
    whole = round(hours * 3600)
    return f"2026-01-{1 + whole // 86_400:02}T{whole // 3600 % 24:02}:{whole // 60 % 60:02}:{whole % 60:02}Z"


def lived_pod(name: str, came: float, ended: float | None = None, where: str = "a", **more: Any) -> Object:
    """A pod that came at that hour, and ended if it did."""
    made = pod(name, {"cpu": "1", "memory": "1Gi"}, **more)
    made["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": at(came)}
    if where:
        made["spec"]["nodeName"] = where
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(came)}]
    made["status"] = {"phase": "Pending"}
    if where:
        made["status"] = {"phase": "Running", "startTime": at(came), "conditions": conditions}
    if ended is not None:
        state = {"terminated": {"finishedAt": at(ended)}}
        made["status"] |= {"phase": "Succeeded", "containerStatuses": [{"state": state}]}
    return made


def small_cluster(*pods: Object) -> list[Object]:
    """Two nodes of 4 cores that were last heard of after a day, and these pods."""
    nodes = [node("a", {"cpu": "4"}), node("b", {"cpu": "4"})]
    for one in nodes:
        one["metadata"]["creationTimestamp"] = at(0)
        one["status"]["conditions"][0] |= {"lastHeartbeatTime": at(24), "lastTransitionTime": at(0)}
    return [*nodes, *pods]
