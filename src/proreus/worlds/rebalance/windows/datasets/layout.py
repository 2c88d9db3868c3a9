"""Reads nodes and pods in the JSON layout of VMAgent's DeployEnv; `simulation.layout` writes it.

What is assigned and what remains follows from totals and requests, so it is not read. A pod's `request_*` is
what it asks for before any request comes; where a run wrote the layout, `standing_*` says that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from proreus.data.cursor import Entry, Mapping
from proreus.data.json_tree import read_json
from proreus.model.errors import InputError
from proreus.worlds.rebalance.windows.model import Deployment

RESOURCES = ("cpu", "mem")


def read_layout(path: Path) -> Deployment:
    """The deployment in a file of that layout, or in a folder with nodes.json and pods.json."""
    if path.is_dir():
        return read_lists(path / "nodes.json", path / "pods.json")
    return deployment_from(read_json(path))


def deployment_from(layout: Entry) -> Deployment:
    """The deployment that the layout describes: nodes by name, each with a list of its pods."""
    hint = "(of two lists, name the folder of nodes.json and pods.json)"
    if not isinstance(layout.tree, Mapping) or not layout.entries():
        raise layout.fail(f"needs nodes by name {hint}")
    columns = _Columns()
    for name, node in layout.entries():
        columns.add(name, node, node.children("pods"))
    return columns.deployment(layout.file)


def read_lists(nodes: Path, pods: Path) -> Deployment:
    """The deployment of two lists, nodes.json and pods.json: as many pods on each node, in order."""
    places, work = (read_json(path) for path in (nodes, pods))
    for table in (places, work):
        if not table.children():
            raise table.fail("needs a list of objects")
    each = -(-len(work.children()) // len(places.children()))
    columns = _Columns()
    for n, node in enumerate(places.children()):
        columns.add(f"node{n + 1}", node, work.children()[n * each : (n + 1) * each])
    return columns.deployment(nodes)


@dataclass
class _Columns:
    """What has been read so far."""

    nodes: list[str] = field(default_factory=list)
    capacity: list[list[float]] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    standing: list[list[float]] = field(default_factory=list)
    where: list[int] = field(default_factory=list)

    def add(self, name: str, node: Entry, pods: tuple[Entry, ...]) -> None:
        """A node and the pods on it."""
        for pod in pods:
            self.pods.append(pod.text_at("pod_name", f"pod{len(self.pods) + 1}"))
            kept = "standing" if any(pod.get(f"standing_{kind}") for kind in RESOURCES) else "request"
            self.standing.append(_amounts(pod, kept))
            self.where.append(len(self.nodes))
        self.nodes.append(name)
        self.capacity.append(_amounts(node, "total"))

    def deployment(self, file: Path) -> Deployment:
        """All of it; an InputError where every value is sound and together they are no deployment."""
        try:
            return Deployment(
                tuple(self.nodes),
                tuple(self.pods),
                np.array(self.capacity, dtype=np.float64).reshape(-1, 2),
                np.array(self.standing, dtype=np.float64).reshape(-1, 2),
                np.array(self.where, dtype=np.int64),
            )
        except InputError as error:
            raise InputError(str(error), file=file) from error


def _amounts(entry: Entry, what: str) -> list[float]:
    return [entry.require(f"{what}_{kind}").number() for kind in RESOURCES]
