"""What every runtime is asked about the containers of a pod, and how it says no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.runtimes.protocol import ContainerReport, Phase, Pod, RuntimeRefused

CRASHED = "CrashLoopBackOff"
"""The reason for which a container waits whose last attempt has ended."""


def container_of(pod: Pod, name: str) -> Mapping[str, Any]:
    """A container of the pod by its name; raises `RuntimeRefused`."""
    spec = pod["spec"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        if container["name"] == name:
            named: Mapping[str, Any] = container
            return named
    raise RuntimeRefused(f"container {name} is not valid for pod {pod['metadata']['name']}")


def last_report(pod: Pod, reports: Mapping[str, ContainerReport], name: str) -> ContainerReport:
    """Of the last attempt at a container; raises `RuntimeRefused` where there was none yet."""
    if name not in reports:
        container_of(pod, name)
        raise RuntimeRefused(f"container {name} is waiting to start: PodInitializing")
    return reports[name]


def restarts(policy: str, exit_code: int) -> bool:
    """Whether a container that ended so is run again."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def first_attempt(pod: Pod, name: str) -> int:
    """The number of the next attempt at a container of which a runtime knows nothing.

    It goes on from what the pod's status tells: another runtime may have run it, or its attempts are gone.
    """
    status = pod.get("status") or {}
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    for shown in statuses:
        if shown["name"] == name:
            state = shown.get("state") or {}
            count = int(shown.get("restartCount") or 0)
            waited = state.get("waiting") or {}
            ended = bool(state.get("running") or state.get("terminated"))
            return count + 1 if ended or waited.get("reason") == CRASHED else count
    return 0


def is_over(pod: Pod, reports: Mapping[str, ContainerReport]) -> bool:
    """Whether nothing of the pod runs, nor will by its restart policy."""
    if any(report.phase is not Phase.EXITED for report in reports.values()):
        return False
    spec = pod["spec"]
    policy = str(spec.get("restartPolicy") or "Always")
    for init in spec.get("initContainers") or ():
        report = reports.get(init["name"])
        if init.get("restartPolicy") == "Always":
            continue
        if report is None or report.exit_code != 0:
            return report is not None and policy == "Never"
    ends = [reports.get(container["name"]) for container in spec["containers"]]
    return all(end is not None and not restarts(policy, end.exit_code) for end in ends)
