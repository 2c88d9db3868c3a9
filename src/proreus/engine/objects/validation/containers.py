"""Containers: what is filled in, and what is wrong with one."""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.names import (
    dns_label_problem,
    environment_name_problem,
    port_name_problem,
)
from proreus.engine.objects.validation.error_list import Problems
from proreus.engine.objects.validation.lifecycle_hooks import defaulted_lifecycle
from proreus.engine.objects.validation.quantities import check_requirements

_Map = dict[str, Any]
_CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_LARGEST_PORT = 65535


def defaulted_container(container: _Map) -> _Map:
    """The container with what Kubernetes fills in."""
    full = {**_CONTAINER, **container}
    if "imagePullPolicy" not in full:
        full["imagePullPolicy"] = "Always" if _is_latest(full.get("image", "")) else "IfNotPresent"
    if "ports" in full:
        full["ports"] = [
            port if "protocol" in port else {**port, "protocol": "TCP"} for port in full["ports"]
        ]
    limits = full["resources"].get("limits")
    if limits:
        requests = full["resources"].get("requests", {})
        full["resources"] = {**full["resources"], "requests": {**limits, **requests}}
    for name in _PROBES:
        if name in full:
            full[name] = _defaulted_probe(full[name])
    if full.get("lifecycle"):
        full["lifecycle"] = defaulted_lifecycle(full["lifecycle"])
    if "env" in full:
        full["env"] = [_defaulted_variable(variable) for variable in full["env"]]
    return full


def _is_latest(image: str) -> bool:
    """Whether the image is named without a version."""
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _defaulted_probe(probe: _Map) -> _Map:
    full = {**_PROBE, **probe}
    if "httpGet" in full:
        full["httpGet"] = {"path": "/", "scheme": "HTTP", **full["httpGet"]}
    return full


def _defaulted_variable(variable: _Map) -> _Map:
    """What Kubernetes writes into references that leave it out: clients send whole objects back with it."""
    source = variable.get("valueFrom", {})
    for kind, usual in (("fieldRef", {"apiVersion": "v1"}), ("resourceFieldRef", {"divisor": "0"})):
        if kind in source and not source[kind].keys() >= usual.keys():
            return {**variable, "valueFrom": {**source, kind: {**usual, **source[kind]}}}
    return variable


def check_containers(containers: list[_Map], field: str, names: set[str], problems: Problems) -> None:
    """All containers of a list; their names are theirs alone in the pod."""
    for place, container in enumerate(containers):
        here = f"{field}[{place}]"
        name = container.get("name", "")
        if not name:
            problems.required(f"{here}.name")
        else:
            problems.unless(f"{here}.name", name, dns_label_problem(name))
        if name in names:
            problems.duplicate(f"{here}.name", name)
        names.add(name)
        _check_container(container, here, problems)


def _check_container(container: _Map, here: str, problems: Problems) -> None:
    image = container.get("image", "")
    if not image:
        problems.required(f"{here}.image")
    elif image != image.strip():
        problems.invalid(f"{here}.image", image, "must not have leading or trailing whitespace")
    if container["resources"]:
        check_requirements(container["resources"], f"{here}.resources", problems)
    problems.one_of(
        f"{here}.imagePullPolicy", container["imagePullPolicy"], ("Always", "IfNotPresent", "Never")
    )
    problems.one_of(
        f"{here}.terminationMessagePolicy",
        container["terminationMessagePolicy"],
        ("FallbackToLogsOnError", "File"),
    )
    if "ports" in container:
        _check_ports(container["ports"], f"{here}.ports", problems)
    for place, variable in enumerate(container.get("env", ())):
        name = variable.get("name", "")
        if not name:
            problems.required(f"{here}.env[{place}].name")
        else:
            problems.unless(f"{here}.env[{place}].name", name, environment_name_problem(name))
        if "valueFrom" in variable and variable.get("value"):
            problems.invalid(
                f"{here}.env[{place}].valueFrom", "", "may not be specified when `value` is not empty"
            )
    for name in _PROBES:
        if name in container:
            _check_probe(container[name], f"{here}.{name}", problems)


def _check_probe(probe: _Map, here: str, problems: Problems) -> None:
    handlers = [handler for handler in ("exec", "httpGet", "tcpSocket", "grpc") if handler in probe]
    if not handlers:
        problems.required(here, "must specify a handler type")
    elif len(handlers) > 1:
        problems.forbidden(f"{here}.{handlers[1]}", "may not specify more than 1 handler type")
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold"):
        problems.at_least(f"{here}.{key}", probe.get(key, 0))


def _check_ports(ports: list[_Map], field: str, problems: Problems) -> None:
    names: set[str] = set()
    for place, port in enumerate(ports):
        here = f"{field}[{place}]"
        if "containerPort" not in port:
            problems.required(f"{here}.containerPort")
        for key in ("containerPort", "hostPort"):
            number = port.get(key, 1)
            if not 0 < number <= _LARGEST_PORT:
                problems.invalid(f"{here}.{key}", number, "must be between 1 and 65535, inclusive")
        problems.one_of(f"{here}.protocol", port["protocol"], _PROTOCOLS)
        name = port.get("name", "")
        if name:
            problems.unless(f"{here}.name", name, port_name_problem(name))
            if name in names:
                problems.duplicate(f"{here}.name", name)
            names.add(name)
