"""What every runtime is asked about the containers of a pod, and how it says no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.runtimes.protocol import ContainerReport, Pod, RuntimeRefused


def container_of(pod: Pod, name: str) -> Mapping[str, Any]:
    """A container of the pod by its name; raises `RuntimeRefused`."""
    spec = pod["spec"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        if container["name"] == name:
            found: Mapping[str, Any] = container
            return found
    raise RuntimeRefused(f"container {name} is not valid for pod {pod['metadata']['name']}")


def last_report(pod: Pod, reports: Mapping[str, ContainerReport], name: str) -> ContainerReport:
    """Of the last attempt at a container; raises `RuntimeRefused` where there was none yet."""
    if name not in reports:
        container_of(pod, name)
        raise RuntimeRefused(f"container {name} is waiting to start: PodInitializing")
    return reports[name]
