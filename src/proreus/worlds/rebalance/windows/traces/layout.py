"""Reads nodes and pods in the notes' JSON layout; `worlds.deploy.layout` writes it.

What is assigned and what remains follows from totals and requests, so it is not read. A pod's `request_*` is
what it asks for before any request comes; where a run wrote the layout, `standing_*` says that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proreus.model.errors import InputError
from proreus.reading.textfile import read_text
from proreus.worlds.rebalance.windows.model import Deployment

RESOURCES = ("cpu", "mem")


def deployment_from(layout: Mapping[str, Any], file: Path | None = None) -> Deployment:
    """The deployment that the notes' layout describes."""
    if not isinstance(layout, Mapping) or not layout:
        hint = "(of two lists, name the folder of nodes.json and pods.json)"
        raise InputError(f"needs nodes by name {hint}", file=file)
    names: list[str] = []
    pods: list[str] = []
    capacity: list[list[float]] = []
    standing: list[list[float]] = []
    where: list[int] = []
    for n, (name, node) in enumerate(layout.items()):
        if not isinstance(node, Mapping) or not isinstance(node.get("pods", []), list):
            raise InputError("needs total_cpu, total_mem and a list of pods", file=file, field=str(name))
        names.append(str(name))
        capacity.append([_amount(node, f"total_{kind}", str(name), file) for kind in RESOURCES])
        for place, pod in enumerate(node.get("pods", [])):
            field = f"{name}.pods[{place}]"
            if not isinstance(pod, Mapping):
                raise InputError("needs request_cpu and request_mem", file=file, field=field)
            pods.append(str(pod.get("pod_name", f"pod{len(pods) + 1}")))
            kept = "standing" if any(f"standing_{kind}" in pod for kind in RESOURCES) else "request"
            standing.append([_amount(pod, f"{kept}_{kind}", field, file) for kind in RESOURCES])
            where.append(n)
    try:
        return Deployment(
            tuple(names),
            tuple(pods),
            np.array(capacity, dtype=np.float64).reshape(-1, 2),
            np.array(standing, dtype=np.float64).reshape(-1, 2),
            np.array(where, dtype=np.int64),
        )
    except InputError as error:
        raise InputError(str(error), file=file) from error


def read_layout(path: Path) -> Deployment:
    """The deployment in a file of the notes' layout, or in a folder with nodes.json and pods.json."""
    if path.is_dir():
        return read_lists(path / "nodes.json", path / "pods.json")
    return deployment_from(_json(path), path)


def read_lists(nodes: Path, pods: Path) -> Deployment:
    """The deployment of two lists, nodes.json and pods.json: as many pods on each node, in order."""
    tables = (_json(nodes), _json(pods))
    for path, table in zip((nodes, pods), tables, strict=True):
        if not isinstance(table, list) or not table or not all(isinstance(row, Mapping) for row in table):
            raise InputError("needs a list of objects", file=path)
    each = -(-len(tables[1]) // len(tables[0]))
    layout = {
        f"node{n + 1}": {
            **row,
            "pods": [
                {"pod_name": f"pod{p + 1}", **tables[1][p]}
                for p in range(n * each, min((n + 1) * each, len(tables[1])))
            ],
        }
        for n, row in enumerate(tables[0])
    }
    return deployment_from(layout, nodes)


def _json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", file=path) from error


def _amount(entry: Mapping[str, Any], name: str, where: str, file: Path | None) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputError("needs a number that is not negative", file=file, field=f"{where}.{name}")
    return float(value)
