"""The cells of a table's row, for the kinds whose rows take some finding out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from proreus.engine.objects.human_duration import age, duration
from proreus.engine.objects.timestamps import parse_timestamp

_Map = dict[str, Any]
_NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


def pod_cells(pod: _Map, now: float) -> list[Any]:
    """Name, ready, status, restarts, age; wide: address, node, nominated node, readiness gates."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = _sidecars(pod)
    lasting = [
        *(
            init_container_status
            for init_container_status in status.get("initContainerStatuses", ())
            if init_container_status.get("name") in sidecars
        ),
        *status.get("containerStatuses", ()),
    ]
    ready = sum(bool(status.get("ready")) for status in lasting)
    counted = status.get("initContainerStatuses", ()) if _init_reason(pod) else lasting
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(spec.get('containers', ())) + len(sidecars)}",
        pod_reason(pod),
        _restarts(counted, now),
        _aged(pod, now),
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _NONE if not spec.get("readinessGates") else _gates(spec, status),
    ]


def pod_reason(pod: _Map) -> str:
    """The one word for how a pod does: its phase, or what a container waits for or ended with."""
    metadata, status = pod["metadata"], pod.get("status", {})
    reason = str(status.get("reason") or status.get("phase") or "Unknown")
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    starting = _init_reason(pod)
    if starting:
        reason = starting
    else:
        reason = _container_reason(status, reason)
    if "deletionTimestamp" in metadata:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _sidecars(pod: _Map) -> set[str]:
    """Init containers that run beside the others."""
    init_containers = pod.get("spec", {}).get("initContainers", ())
    return {container["name"] for container in init_containers if container.get("restartPolicy") == "Always"}


def _init_reason(pod: _Map) -> str:
    """How far its init containers are; empty once they are done, whatever sidecars come to later."""
    if _met(pod.get("status", {}), "Initialized"):
        return ""
    sidecars, states = _sidecars(pod), pod.get("status", {}).get("initContainerStatuses", ())
    for place, container in enumerate(states):
        state = container.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting", {})
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if ended is not None:
            return "Init:" + str(ended.get("reason") or f"ExitCode:{ended.get('exitCode')}")
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{place}/{len(pod.get('spec', {}).get('initContainers', ()))}"
    return ""


def _container_reason(status: _Map, reason: str) -> str:
    running = False
    for container_status in reversed(status.get("containerStatuses", ())):
        state = container_status.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting", {})
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            signal = ended.get("signal")
            why = f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"
            reason = ended.get("reason") or why
        elif container_status.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if _met(status, "Ready") else "NotReady"
    return reason


def _met(status: _Map, condition: str) -> bool:
    return any(
        stated.get("type") == condition and stated.get("status") == "True"
        for stated in status.get("conditions", ())
    )


def _restarts(states: Iterable[_Map], now: float) -> str:
    """How often containers were run again, and when last; of init containers as long as they are not done."""
    states = list(states)
    count = sum(state.get("restartCount", 0) for state in states)
    ends = [
        state["lastState"]["terminated"]["finishedAt"]
        for state in states
        if state.get("lastState", {}).get("terminated", {}).get("finishedAt")
    ]
    return f"{count} ({age(max(ends), now)} ago)" if count and ends else str(count)


def _gates(spec: _Map, status: _Map) -> str:
    named = [gate.get("conditionType", "") for gate in spec["readinessGates"]]
    met = {
        condition.get("type")
        for condition in status.get("conditions", ())
        if condition.get("status") == "True"
    }
    return f"{sum(name in met for name in named)}/{len(named)}"


def node_cells(node: _Map, now: float) -> list[Any]:
    """Name, status, roles, age, version; wide: addresses and what it runs on."""
    metadata, spec, status = node["metadata"], node.get("spec", {}), node.get("status", {})
    ready = next(
        (condition for condition in status.get("conditions", ()) if condition.get("type") == "Ready"), None
    )
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    labels = metadata.get("labels", {})
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    info = status.get("nodeInfo", {})
    return [
        metadata["name"],
        f"{word},SchedulingDisabled" if spec.get("unschedulable") else word,
        ",".join(sorted(roles)) or _NONE,
        _aged(node, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _address(status: _Map, kind: str) -> str:
    addresses = (
        address.get("address", "") for address in status.get("addresses", ()) if address.get("type") == kind
    )
    return next(addresses, _NONE)


def event_cells(event: _Map, now: float) -> list[Any]:
    """Last seen, type, reason, object, message, and the rest when wide."""
    about, series = event.get("involvedObject", {}), event.get("series", {})
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    source = event.get("source", {})
    return [
        age(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(part for part in (source.get("component"), source.get("host")) if part)
        or event.get("reportingComponent", ""),
        event.get("message", "").strip(),
        age(first, now),
        series.get("count") or event.get("count") or 1,
        event["metadata"]["name"],
    ]


def service_cells(service: _Map, now: float) -> list[Any]:
    """Name, type, addresses, ports, age; wide: the selector."""
    spec = service.get("spec", {})
    ports = [
        f"{port.get('port')}:{port['nodePort']}/{port.get('protocol', 'TCP')}"
        if port.get("nodePort")
        else f"{port.get('port')}/{port.get('protocol', 'TCP')}"
        for port in spec.get("ports", ())
    ]
    return [
        service["metadata"]["name"],
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or _NONE,
        spec.get("externalName") or ",".join(spec.get("externalIPs", ())) or _NONE,
        ",".join(ports) or _NONE,
        _aged(service, now),
        _labels(spec.get("selector", {})),
    ]


def deployment_cells(obj: _Map, now: float) -> list[Any]:
    """Name, ready, up to date, available, age; wide: containers, images, selector."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _aged(obj, now),
        *_template_cells(spec),
    ]


def replica_set_cells(obj: _Map, now: float) -> list[Any]:
    """Name, desired, current, ready, age; wide: containers, images, selector."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _aged(obj, now),
        *_template_cells(spec),
    ]


def job_cells(job: _Map, now: float) -> list[Any]:
    """Name, status, completions, duration, age; wide: containers, images, selector."""
    spec, status = job.get("spec", {}), job.get("status", {})
    done, started = status.get("succeeded", 0), status.get("startTime")
    if "completions" in spec:
        completions = f"{done}/{spec['completions']}"
    else:
        parallel = spec.get("parallelism", 1)
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    lasted = ""
    if started:
        ended = status.get("completionTime")
        lasted = duration((parse_timestamp(ended) if ended else now) - parse_timestamp(started))
    return [
        job["metadata"]["name"],
        _job_status(job),
        completions,
        lasted,
        _aged(job, now),
        *_template_cells(spec),
    ]


def _job_status(job: _Map) -> str:
    met = {
        condition.get("type")
        for condition in job.get("status", {}).get("conditions", ())
        if condition.get("status") == "True"
    }
    for condition, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in met:
            return word
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in met:
            return condition
    return "Running"


def budget_cells(budget: _Map, now: float) -> list[Any]:
    """Name, the two bounds, how many disruptions are allowed, age."""
    spec = budget.get("spec", {})
    return [
        budget["metadata"]["name"],
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        budget.get("status", {}).get("disruptionsAllowed", 0),
        _aged(budget, now),
    ]


def _template_cells(spec: _Map) -> list[str]:
    containers = spec.get("template", {}).get("spec", {}).get("containers", ())
    selector = spec.get("selector", {})
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
        selector_text(selector),
    ]


def selector_text(selector: Mapping[str, Any]) -> str:
    """A LabelSelector as a query writes it: `app=web,tier in (a,b),!old`."""
    parts = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for match_expression in selector.get("matchExpressions", ()):
        key, values = match_expression.get("key", ""), ",".join(sorted(match_expression.get("values", ())))
        match match_expression.get("operator"):
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case _:
                parts.append(f"!{key}")
    return ",".join(parts) or _NONE


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _aged(obj: _Map, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)
