"""`meta.k8s.io/v1 Table`: the columns and cells that `kubectl get` prints, as the API server makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from proreus.engine.objects import kinds
from proreus.engine.objects.cells import (
    budget_cells,
    deployment_cells,
    event_cells,
    job_cells,
    node_cells,
    pod_cells,
    replica_set_cells,
    service_cells,
)
from proreus.engine.objects.human_duration import age
from proreus.engine.objects.kinds import Kind

_Map = dict[str, Any]
_Cells = Callable[[_Map, float], list[Any]]
IncludeObject = Literal["None", "Metadata", "Object"]


@dataclass(frozen=True)
class _Layout:
    """The columns of a kind, those of `-o wide` marked, and how a row's cells are made."""

    columns: tuple[Mapping[str, Any], ...]
    cells: _Cells


def table(
    kind: Kind, objects: Iterable[_Map], now: float, include: IncludeObject = "Metadata"
) -> dict[str, Any]:
    """The objects as a table; the list's own metadata is the caller's to add."""
    layout = _LAYOUTS.get(kind, _PLAIN)
    rows = [{"cells": layout.cells(obj, now), "object": _included(obj, include)} for obj in objects]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [dict(column) for column in layout.columns],
        "rows": rows,
    }


def _included(obj: _Map, include: IncludeObject) -> _Map | None:
    match include:
        case "None":
            return None
        case "Object":
            return obj
        case "Metadata":
            return {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }


def _columns(text: str) -> tuple[Mapping[str, Any], ...]:
    """From "Name Ready* Restarts#": a star is for wide tables only, a hash makes it a whole number."""
    found: list[Mapping[str, Any]] = []
    for word in text.split():
        name = word.rstrip("*#").replace("_", " ")
        found.append(
            {
                "name": name,
                "type": "integer" if "#" in word else "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": 1 if "*" in word else 0,
            }
        )
    return tuple(found)


def _aged(obj: _Map, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _plain_cells(obj: _Map, now: float) -> list[Any]:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")]


def _namespace_cells(obj: _Map, now: float) -> list[Any]:
    return [obj["metadata"]["name"], obj.get("status", {}).get("phase", ""), _aged(obj, now)]


def _config_map_cells(obj: _Map, now: float) -> list[Any]:
    size = len(obj.get("data", {})) + len(obj.get("binaryData", {}))
    return [obj["metadata"]["name"], size, _aged(obj, now)]


def _secret_cells(obj: _Map, now: float) -> list[Any]:
    return [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data", {})), _aged(obj, now)]


def _lease_cells(obj: _Map, now: float) -> list[Any]:
    return [obj["metadata"]["name"], obj.get("spec", {}).get("holderIdentity", ""), _aged(obj, now)]


def _priority_cells(obj: _Map, now: float) -> list[Any]:
    return [
        obj["metadata"]["name"],
        obj.get("value", 0),
        obj.get("globalDefault", False),
        _aged(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def _account_cells(obj: _Map, now: float) -> list[Any]:
    return [obj["metadata"]["name"], len(obj.get("secrets") or ()), _aged(obj, now)]


_PLAIN = _Layout(_columns("Name Created_At"), _plain_cells)
_LAYOUTS: Mapping[Kind, _Layout] = MappingProxyType(
    {
        kinds.POD: _Layout(
            _columns("Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*"), pod_cells
        ),
        kinds.NODE: _Layout(
            _columns(
                "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* "
                "Container-Runtime*"
            ),
            node_cells,
        ),
        kinds.NAMESPACE: _Layout(_columns("Name Status Age"), _namespace_cells),
        kinds.EVENT: _Layout(
            _columns("Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count#* Name*"),
            event_cells,
        ),
        kinds.CONFIG_MAP: _Layout(_columns("Name Data# Age"), _config_map_cells),
        kinds.SECRET: _Layout(_columns("Name Type Data# Age"), _secret_cells),
        kinds.SERVICE_ACCOUNT: _Layout(_columns("Name Secrets# Age"), _account_cells),
        kinds.SERVICE: _Layout(
            _columns("Name Type Cluster-IP External-IP Port(s) Age Selector*"), service_cells
        ),
        kinds.DEPLOYMENT: _Layout(
            _columns("Name Ready Up-to-date# Available# Age Containers* Images* Selector*"), deployment_cells
        ),
        kinds.REPLICA_SET: _Layout(
            _columns("Name Desired# Current# Ready# Age Containers* Images* Selector*"), replica_set_cells
        ),
        kinds.JOB: _Layout(
            _columns("Name Status Completions Duration Age Containers* Images* Selector*"), job_cells
        ),
        kinds.LEASE: _Layout(_columns("Name Holder Age"), _lease_cells),
        kinds.BUDGET: _Layout(
            _columns("Name Min_Available Max_Unavailable Allowed_Disruptions# Age"), budget_cells
        ),
        kinds.PRIORITY_CLASS: _Layout(
            _columns("Name Value# Global-Default Age PreemptionPolicy"), _priority_cells
        ),
    }
)
