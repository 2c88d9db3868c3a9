"""ConfigMaps, Secrets, Services and Events: what is filled in and what is wrong."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from proreus.engine.objects.names import config_key_problem, dns_label_problem
from proreus.engine.objects.validation.error_list import Problems

_Map = dict[str, Any]
_MOST_BYTES = 1024 * 1024
_LARGEST_PORT = 65535
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def check_config_map(obj: _Map, problems: Problems) -> None:
    """Keys, and no more than a MiB."""
    total = 0
    for place in ("data", "binaryData"):
        for key, value in obj.get(place, {}).items():
            problems.unless(f"{place}[{key}]", key, config_key_problem(key))
            if place == "binaryData":
                _check_bytes(value, f"{place}[{key}]", problems)
                if key in obj.get("data", {}):
                    problems.invalid(f"{place}[{key}]", key, "duplicate of key present in data")
            total += len(value)
    if total > _MOST_BYTES:
        problems.too_long("", f"must have at most {_MOST_BYTES} bytes")


def check_fixed(old: _Map, new: _Map, problems: Problems) -> None:
    """A ConfigMap or Secret that says that it is immutable is."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        problems.forbidden("immutable", "field is immutable when `immutable` is set")
    for key in ("data", "binaryData"):
        if old.get(key, {}) != new.get(key, {}):
            problems.forbidden(key, "field is immutable when `immutable` is set")


def defaulted_secret(obj: _Map) -> _Map:
    """Plain text becomes data; the type is Opaque where none is stated."""
    full = {"type": "Opaque", **obj}
    plain = full.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        full["data"] = {**full.get("data", {}), **encoded}
    return full


def check_secret(obj: _Map, problems: Problems) -> None:
    """Keys, base64, and no more than a MiB."""
    total = 0
    for key, value in obj.get("data", {}).items():
        problems.unless(f"data[{key}]", key, config_key_problem(key))
        _check_bytes(value, f"data[{key}]", problems)
        total += len(value)
    if total > _MOST_BYTES * 4 // 3:
        problems.too_long("data", f"must have at most {_MOST_BYTES} bytes")


def check_secret_update(old: _Map, new: _Map, problems: Problems) -> None:
    """Its type stays; all of it where it says so."""
    if old.get("type") != new.get("type"):
        problems.invalid("type", new.get("type"), "field is immutable")
    check_fixed(old, new, problems)


def _check_bytes(value: str, field: str, problems: Problems) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        problems.invalid(field, "", "illegal base64 data")


def defaulted_service(obj: _Map) -> _Map:
    """Inside the cluster, by TCP, to the port of the same number."""
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **obj.get("spec", {})}
    if "ports" in spec:
        spec["ports"] = [
            {"protocol": "TCP", "targetPort": port.get("port", 0), **port} for port in spec["ports"]
        ]
    return {**obj, "spec": spec}


def check_service(obj: _Map, problems: Problems) -> None:
    """Its type and its ports; nothing here routes by it."""
    spec = obj["spec"]
    problems.one_of("spec.type", spec["type"], _SERVICE_TYPES)
    ports = spec.get("ports", ())
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        problems.required("spec.ports")
    for place, port in enumerate(ports):
        here = f"spec.ports[{place}]"
        if not 0 < port.get("port", 0) <= _LARGEST_PORT:
            problems.invalid(f"{here}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
        problems.one_of(f"{here}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
        if port.get("name"):
            problems.unless(f"{here}.name", port["name"], dns_label_problem(port["name"]))
        elif len(ports) > 1:
            problems.required(f"{here}.name")


def check_event(obj: _Map, problems: Problems) -> None:
    """It is about something, in its own namespace."""
    about = obj.get("involvedObject", {}).get("namespace", "")
    if about and about != obj["metadata"].get("namespace"):
        problems.invalid("involvedObject.namespace", about, "does not match event.namespace")
    if obj.get("type"):
        problems.one_of("type", obj["type"], ("Normal", "Warning"))
