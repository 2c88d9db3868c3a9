"""What requests about the inside of a pod need to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.objects.errors import BadRequest


def container_of(pod: Mapping[str, Any], name: str) -> str:
    """The container of that name, or the only one; `BadRequest` where there is none or a choice."""
    spec = pod["spec"]
    names = [
        init_container["name"]
        for init_container in (*spec.get("initContainers", ()), *spec.get("containers", ()))
    ]
    if name:
        if name not in names:
            raise BadRequest(f"container {name} is not valid for pod {pod['metadata']['name']}")
        return name
    first = [container["name"] for container in spec.get("containers", ())]
    if len(first) != 1:
        raise BadRequest(
            f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: {first}"
        )
    return str(first[0])


def node_of(pod: Mapping[str, Any]) -> str:
    """Where it runs, or will; `BadRequest`, with the scheduler's reason, where it is nowhere yet."""
    node = pod["spec"].get("nodeName")
    if node:
        return str(node)
    name = pod["metadata"]["name"]
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("message"):
            raise BadRequest(f"pod {name} does not have a host assigned: {condition['message']}")
    raise BadRequest(f"pod {name} does not have a host assigned: it waits to be scheduled")
