"""Pods that serve requests on nodes, and the requests of their five-minute windows, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.model.errors import InputError

WINDOW = 300.0
"""Seconds of a window."""


@dataclass(frozen=True, eq=False)
class Deployment:
    """Which pods stand on which nodes before anything moves."""

    node_names: tuple[str, ...]
    pod_names: tuple[str, ...]
    capacity: F64
    """[nodes, 2] CPU and memory that pods may use."""
    standing: F64
    """[pods, 2] what a pod asks for even without a request."""
    where: I64
    """[pods] the node of each."""

    def __post_init__(self) -> None:
        nodes, pods = len(self.node_names), len(self.pod_names)
        if not nodes or not pods:
            raise InputError("a deployment needs at least one node and one pod")
        for names, what in ((self.node_names, "node"), (self.pod_names, "pod")):
            if len(set(names)) != len(names):
                raise InputError(f"two of the {what}s have the same name")
        if self.capacity.shape != (nodes, 2) or self.standing.shape != (pods, 2):
            raise InputError("every node and every pod has an amount of CPU and one of memory")
        if not np.isfinite(self.capacity).all() or (self.capacity <= 0).any():
            raise InputError("the CPU and memory of a node are above 0")
        if not np.isfinite(self.standing).all() or (self.standing < 0).any():
            raise InputError("what a pod asks for is not negative")
        if self.where.shape != (pods,) or (self.where < 0).any() or (self.where >= nodes).any():
            raise InputError("every pod stands on one of the nodes")


@dataclass(frozen=True, eq=False)
class RequestWindows:
    """The requests that pods serve, window after window; a request ends with its window."""

    name: str
    deployment: Deployment
    first: I64
    """[windows * pods + 1] where the requests of a window and pod begin; the next entry is where they end."""
    amount: F64
    """[requests, 2] CPU and memory of each, in the order in which its pod serves them."""
    windows: int = field(init=False)
    """How many there are."""

    def __post_init__(self) -> None:
        pods = len(self.deployment.pod_names)
        if (self.first.size - 1) % pods or self.first[0] != 0 or self.first[-1] != len(self.amount):
            raise InputError("the requests do not divide into windows of every pod")
        if (np.diff(self.first) < 0).any():
            raise InputError("requests of a window come before those of the next")
        if not np.isfinite(self.amount).all() or (self.amount < 0).any():
            raise InputError("what a request asks for is not negative")
        object.__setattr__(self, "windows", (self.first.size - 1) // pods)


def windows_of(name: str, deployment: Deployment, window: I64, pod: I64, amount: F64) -> RequestWindows:
    """Requests with their window and pod, in order of time, as windows from the first to the last."""
    pods = len(deployment.pod_names)
    if not window.size:
        raise InputError(f"{name}: there is no request")
    place = (window - window.min()) * pods + pod
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place, minlength=int(window.max() - window.min() + 1) * pods)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return RequestWindows(name, deployment, first, np.ascontiguousarray(amount[order], dtype=np.float64))


def round_robin(count: int, pods: int) -> I64:
    """[count] the pod of each request, in turn."""
    return np.arange(count, dtype=np.int64) % pods


PARTS = {"train": (0.0, 0.6), "valid": (0.6, 0.75), "test": (0.75, 1.0)}
"""Parts of the windows in order of time: they never overlap, and the test comes last."""


def part_of_windows(part: str, windows: int) -> tuple[int, int]:
    """[first, last) window of a part."""
    begin, end = PARTS[part]
    return round(begin * windows), round(end * windows)
