"""Workflows, the machines that run their tasks, what rent and lateness cost, and what may be decided."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.model.errors import UsageError

HOUR = 3600.0
MOST_TASKS = 100_000
"""Of one workflow."""


@dataclass(frozen=True)
class Assign:
    """A ready task goes to a machine, in the first gap that it fits into."""

    task: int
    node: int


@dataclass(frozen=True)
class Wait:
    """Nothing more is placed until a task ends or a workflow comes."""


@dataclass(frozen=True)
class Pass:
    """The task on offer waits, with those of its workflow that take as long; another one is offered.

    When none is left to be offered, time goes on.
    """


Decision = Assign | Wait | Pass


@dataclass(frozen=True, eq=False)
class Workflow:
    """A graph of tasks; parents come before their children."""

    name: str
    family: str
    tasks: tuple[str, ...]
    """Their names."""
    runtime: F64
    """[T] seconds on a machine of speed 1."""
    parent: I32
    """[E] of each edge, the task whose output is needed."""
    child: I32
    """[E]"""
    size: F64
    """[E] bytes that go from parent to child."""
    seconds_on: F64 | None = None
    """[T, N] where machines are not merely faster or slower: what each task takes on each of them."""

    def __post_init__(self) -> None:
        count = len(self.tasks)
        if not 0 < count <= MOST_TASKS:
            raise ValueError(f"{count:,} tasks: a workflow has 1 to {MOST_TASKS:,}")
        if self.runtime.shape != (count,) or not (np.isfinite(self.runtime) & (self.runtime >= 0)).all():
            raise ValueError("every task needs a runtime of zero or more seconds")
        if not (self.parent.shape == self.child.shape == self.size.shape):
            raise ValueError("the columns of the edges have different lengths")
        if self.parent.size and (self.parent.min() < 0 or self.child.max() >= count):
            raise ValueError("an edge leads to no task")
        if not (self.parent < self.child).all():
            raise ValueError("parents do not come before their children")
        if not (np.isfinite(self.size) & (self.size >= 0)).all():
            raise ValueError("every edge needs a size of zero or more bytes")

    def __len__(self) -> int:
        return len(self.tasks)


def workflow_of(
    names: tuple[str, str], tasks: list[str], runtime: list[float], edges: dict[tuple[int, int], float]
) -> Workflow:
    """A workflow from tasks in any order; names = (its own, its family). ValueError: a circle.

    edges: (parent, child) -> bytes. Of tasks that may come next the first one listed does.
    """
    children: list[list[int]] = [[] for _ in tasks]
    missing = [0] * len(tasks)
    for parent, child in edges:
        children[parent].append(child)
        missing[child] += 1
    possible = [task for task, count in enumerate(missing) if count == 0]  # sorted, so it is a heap
    order = []
    while possible:
        task = heapq.heappop(possible)
        order.append(task)
        for child in children[task]:
            missing[child] -= 1
            if missing[child] == 0:
                heapq.heappush(possible, child)
    if len(order) < len(tasks):
        inside = next(task for task, count in enumerate(missing) if count)
        raise ValueError(f"the task {tasks[inside]!r} waits for itself in a circle")
    place = {task: at for at, task in enumerate(order)}
    sorted_edges = sorted((place[parent], place[child], size) for (parent, child), size in edges.items())
    columns = list(zip(*sorted_edges, strict=True)) or [(), (), ()]
    return Workflow(
        *names,
        tuple(tasks[task] for task in order),
        np.array([runtime[task] for task in order], dtype=np.float64),
        np.array(columns[0], dtype=np.int32),
        np.array(columns[1], dtype=np.int32),
        np.array(columns[2], dtype=np.float64),
    )


@dataclass(frozen=True)
class MachineKind:
    """Machines of one size; each runs one task at a time."""

    count: int
    speed: float
    """Seconds of a task's runtime done in one second."""
    price: float
    """Dollars an hour."""

    def __post_init__(self) -> None:
        if not 0 < self.count <= 1_000:
            raise UsageError(f"machines: a kind has 1 to 1,000, not {self.count}")
        if not (0 < self.speed <= 1e6 and 0 <= self.price <= 1e6):
            raise UsageError("machines: speed is above 0 and price not below it, both at most 1,000,000")

    @staticmethod
    def parse(text: str) -> tuple[MachineKind, ...]:
        """From `4x1/0.096+2x8/0.768`: count x speed/price an hour, slowest or cheapest in any order."""
        kinds = []
        for part in text.split("+"):
            match = re.fullmatch(r"\s*(\d+)x(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)\s*", part)
            if match is None:
                raise UsageError(f"machines {text!r}: write 4x1/0.096 (count x speed/price), joined by +")
            kinds.append(MachineKind(int(match[1]), float(match[2]), float(match[3])))
        return tuple(kinds)


_PER_SPEED = 0.096
"""Dollars an hour of an m5 with two cores, which has speed 1."""
CLOUD = tuple(MachineKind(2, size / 2, _PER_SPEED * size / 2) for size in (2, 4, 8, 16, 32, 48))
"""The m5 family as GATES and SPN-CWS rent it, two of each size: twice the cores, half the time, twice the
price."""
CLUSTER = (MachineKind(4, 1.0, 0.1), MachineKind(4, 2.0, 0.2), MachineKind(2, 4.0, 0.4))
"""Ten machines that are simply there."""


@dataclass(frozen=True)
class WorkflowsTerms:
    """Of the machines and of the contract with those who send workflows."""

    machines: tuple[MachineKind, ...] = CLOUD
    bandwidth: float = 125e6
    """Bytes a second between two machines; on one machine data stays where it is."""
    billing: float = HOUR
    """Seconds that a machine is rented for at a time: begun is paid."""
    boot: float = 0.0
    """Seconds until a machine that was not rented can start its first task."""
    late_fee: float = 1.0
    """Dollars for a workflow that ends after its deadline ..."""
    late_rate: float = 2.0
    """... and for each hour that it is late."""
    deadline: float = 5.0
    """A workflow's time from arrival to deadline: so many critical paths on the fastest machine."""

    def __post_init__(self) -> None:
        if not self.machines:
            raise UsageError("machines: at least one kind is needed")
        for name in ("bandwidth", "billing", "deadline"):
            if not 0 < getattr(self, name) < np.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is not above 0")
        for name in ("boot", "late_fee", "late_rate"):
            if not 0 <= getattr(self, name) < np.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is negative or has no end")

    @property
    def nodes(self) -> int:
        """How many machines there are."""
        return sum(kind.count for kind in self.machines)

    @property
    def speeds(self) -> F64:
        """[N]"""
        return np.repeat([kind.speed for kind in self.machines], [kind.count for kind in self.machines])

    @property
    def prices(self) -> F64:
        """[N] dollars an hour."""
        return np.repeat([kind.price for kind in self.machines], [kind.count for kind in self.machines])


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Workflows in order of arrival, and what they run on."""

    name: str
    workflows: tuple[Workflow, ...]
    arrival: F64
    """[W] seconds, never falling."""
    deadline: F64
    """[W] seconds; infinite where there is none."""
    terms: WorkflowsTerms
    ahead: bool
    """Whether a task may be placed as soon as its parents are (a plan), or only once they have ended."""
