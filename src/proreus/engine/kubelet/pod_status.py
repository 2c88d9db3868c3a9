"""A pod's status as its node tells it: phase, conditions and containers, from the runtime's report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from proreus.engine.kubelet.lost_containers import lost_container
from proreus.engine.kubelet.restarts import Due, held_open, restarts
from proreus.engine.objects.conditions import Condition, holds, with_conditions
from proreus.engine.objects.metadata import key_of
from proreus.engine.objects.timestamps import timestamp
from proreus.engine.runtimes.pod_reports import CRASHED
from proreus.engine.runtimes.protocol import ContainerReport, Phase, PodReport

TERMINAL = ("Succeeded", "Failed")


class NodeVerdict(msgspec.Struct, frozen=True, gc=False):
    """Why the node itself ended or refused the pod."""

    reason: str
    message: str


class StatusInputs(msgspec.Struct, frozen=True, gc=False):
    """All that a status is made of."""

    pod: Mapping[str, Any]
    report: PodReport | None
    waits: Mapping[str, Due]
    """Containers that wait for another attempt."""
    ends: Mapping[str, ContainerReport]
    """How the attempts before the last ended that this agent saw the end of."""
    verdict: NodeVerdict | None
    started: float
    """When the node took the pod, by the wall clock."""
    address: str
    """The node's."""
    taken_up: float
    """When this agent was given the pod, be it anew after a restart, by the wall clock."""


def pod_phase(seen: StatusInputs) -> str:
    """As the kubelet computes it."""
    spec = seen.pod["spec"]
    reports = _by_name(seen.report)
    running = any(container_report.phase is Phase.RUNNING for container_report in reports.values())
    if seen.verdict is not None:
        return "Running" if running else "Failed"
    policy = spec.get("restartPolicy") or "Always"
    for container in spec.get("initContainers") or ():
        report = reports.get(container["name"])
        if container.get("restartPolicy") == "Always" and report is not None and report.started:
            continue
        if report is not None and report.phase is Phase.EXITED and report.exit_code == 0:
            continue
        failed = report is not None and report.phase is Phase.EXITED and policy == "Never"
        return "Failed" if failed else "Pending"
    phase = _phase_of(policy, [reports.get(container["name"]) for container in spec["containers"]])
    return "Running" if phase in TERMINAL and held_open(seen.pod, reports) else phase


def _phase_of(policy: str, reports: list[ContainerReport | None]) -> str:
    """Of the containers proper, once all init containers are done."""
    container_reports = [report for report in reports if report is not None]
    if len(container_reports) < len(reports) or any(
        container_report.phase is Phase.WAITING and container_report.attempt == 0
        for container_report in container_reports
    ):
        return "Pending"
    if any(container_report.phase is not Phase.EXITED for container_report in container_reports):
        return "Running"
    if any(restarts(policy, container_report.exit_code) for container_report in container_reports):
        return "Running"
    return (
        "Succeeded"
        if all(container_report.exit_code == 0 for container_report in container_reports)
        else "Failed"
    )


def pod_status(seen: StatusInputs) -> dict[str, Any]:
    """What the node has to say; `merged` puts it into what stands."""
    spec, reports = seen.pod["spec"], _by_name(seen.report)
    phase = pod_phase(seen)
    status: dict[str, Any] = {
        "phase": phase,
        "hostIP": seen.address,
        "hostIPs": [{"ip": seen.address}],
        "startTime": timestamp(seen.started),
        "conditions": _conditions(seen, phase),
    }
    if seen.verdict is not None:
        status |= {"reason": seen.verdict.reason, "message": seen.verdict.message}
    if seen.report is not None and seen.report.address:
        status |= {"podIP": seen.report.address, "podIPs": [{"ip": seen.report.address}]}
    if seen.report is None and seen.verdict is not None:  # never begun, and never will be
        return status
    before = seen.pod.get("status") or {}
    for field, containers in (
        ("initContainerStatuses", "initContainers"),
        ("containerStatuses", "containers"),
    ):
        if spec.get(containers):
            known = {one["name"]: one for one in before.get(field) or ()}
            status[field] = [
                _container_status(
                    seen, container, reports.get(container["name"]), known.get(container["name"])
                )
                for container in spec[containers]
            ]
    return status


def merged(standing: Mapping[str, Any], told: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """The standing status with what the node tells; None where nothing changes.

    Conditions of others stay. What has ended does not come back, and does not end otherwise either: a
    container's exit may be found after the pod was told as failed, and a Job has replaced it by then.
    """
    if standing.get("phase") in TERMINAL and told["phase"] != standing["phase"]:
        return None
    conditions = with_conditions(standing.get("conditions") or (), told["conditions"], now)
    status = {**standing, **told, "conditions": conditions}
    return None if status == standing else status


def _conditions(seen: StatusInputs, phase: str) -> list[Condition]:
    spec, reports = seen.pod["spec"], _by_name(seen.report)
    stands = seen.report is not None and bool(seen.report.address)
    unready = [
        container["name"] for container in spec["containers"] if not _ready(reports.get(container["name"]))
    ]
    waiting = [
        init_container["name"]
        for init_container in spec.get("initContainers") or ()
        if not _passed(init_container, reports)
    ]
    done = "PodCompleted" if phase == "Succeeded" else "PodFailed" if phase == "Failed" else ""
    message = f"containers with unready status: [{' '.join(unready)}]" if unready and not done else ""
    why = done or ("ContainersNotReady" if unready else "")
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    held = [gate for gate in gates if not holds(seen.pod, gate)]
    ready = not unready and not held
    return [
        Condition("PodReadyToStartContainers", _truth(stands and not done)),
        Condition("Initialized", "True", "PodCompleted" if phase == "Succeeded" else "")
        if not waiting or phase == "Succeeded"
        else Condition(
            "Initialized",
            "False",
            "ContainersNotInitialized",
            f"containers with incomplete status: [{' '.join(waiting)}]",
        ),
        Condition("ContainersReady", _truth(not unready), why, message),
        Condition("Ready", _truth(ready), why or ("ReadinessGatesNotReady" if held else ""), message),
    ]


def _container_status(
    seen: StatusInputs,
    container: Mapping[str, Any],
    report: ContainerReport | None,
    before: Mapping[str, Any] | None,
) -> dict[str, Any]:
    due = seen.waits.get(container["name"])
    count = int((before or {}).get("restartCount") or 0)
    last = dict((before or {}).get("lastState") or {})
    if report is None:
        later = bool(seen.pod["spec"].get("initContainers")) and not _is_init(seen.pod, container)
        state: dict[str, Any] = {"waiting": {"reason": "PodInitializing" if later else "ContainerCreating"}}
    else:
        state = _state(report)
        last = _last_state(seen, report, before or {})
        if due is not None and due.pause and report.phase is Phase.EXITED:
            last, state = state, {"waiting": _backing_off(seen.pod, due)}
    return {
        "name": container["name"],
        "image": container.get("image") or "",
        "imageID": report.image if report is not None else "",
        **({"containerID": report.id} if report is not None and report.id else {}),
        # What a new agent finds may be an attempt behind what was told before.
        "restartCount": max(count, report.attempt if report is not None else 0),
        "ready": _passed(container, {container["name"]: report} if report else {})
        if _is_init(seen.pod, container)
        else _ready(report),
        "started": report is not None and report.phase is Phase.RUNNING,
        "state": state,
        "lastState": last,
    }


def _last_state(seen: StatusInputs, report: ContainerReport, before: Mapping[str, Any]) -> dict[str, Any]:
    """How the attempt before this one ended."""
    ended = seen.ends.get(report.name)
    if ended is not None and ended.attempt < report.attempt:
        return _state(ended)
    if int(before.get("restartCount") or 0) < report.attempt:
        state = before.get("state") or {}
        if state.get("terminated") is not None:
            return {"terminated": state["terminated"]}
        if state.get("running") is not None:  # nobody saw its end
            return _state(lost_container(before, report.started or seen.taken_up))
    return dict(before.get("lastState") or {})


def _state(report: ContainerReport) -> dict[str, Any]:
    match report.phase:
        case Phase.WAITING:
            told = {"reason": report.reason or "ContainerCreating"}
            return {"waiting": told | ({"message": report.message} if report.message else {})}
        case Phase.RUNNING:
            return {"running": {"startedAt": timestamp(report.started)}}
        case Phase.EXITED:
            ended = {
                "exitCode": report.exit_code,
                "reason": report.reason,
                "startedAt": timestamp(report.started),
                "finishedAt": timestamp(report.finished),
                "containerID": report.id,
            }
            return {"terminated": ended | ({"message": report.message} if report.message else {})}
        case _:
            assert_never(report.phase)


def _backing_off(pod: Mapping[str, Any], due: Due) -> dict[str, str]:
    namespace, name = key_of(pod)
    pause = f"{int(due.pause // 60)}m{int(due.pause % 60)}s" if due.pause >= 60 else f"{int(due.pause)}s"
    message = f"back-off {pause} restarting failed container={due.container} pod={name}_{namespace}"
    return {"reason": CRASHED, "message": message}


def _by_name(report: PodReport | None) -> dict[str, ContainerReport]:
    return {} if report is None else {container.name: container for container in report.containers}


def _ready(report: ContainerReport | None) -> bool:
    return report is not None and report.phase is Phase.RUNNING and report.ready


def _passed(init: Mapping[str, Any], reports: Mapping[str, ContainerReport]) -> bool:
    """Whether what comes after an init container may begin."""
    report = reports.get(init["name"])
    if report is None:
        return False
    if init.get("restartPolicy") == "Always":
        return bool(report.started)
    return report.phase is Phase.EXITED and report.exit_code == 0


def _is_init(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    return any(init_container is container for init_container in pod["spec"].get("initContainers") or ())


def _truth(value: bool) -> str:
    return "True" if value else "False"
