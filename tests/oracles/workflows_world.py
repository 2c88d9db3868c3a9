"""The world of workflows in plain Python: what kernels must agree with, written without looking at them.

Times are asked for over every parent and every slot; nothing is cached, nothing is skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from proreus.worlds.workflows.model import HOUR, Arrivals
from proreus.worlds.workflows.state.compile import seconds_on


@dataclass
class PlainMachine:
    """One machine."""

    speed: float
    price: float
    slots: list[tuple[float, float]] = field(default_factory=list)
    rentals: list[list[float]] = field(default_factory=list)
    """[from, to] of each."""


@dataclass
class PlainTask:
    """One task."""

    workflow: int
    seconds: list[float]
    parents: dict[int, float] = field(default_factory=dict)
    """Parent -> seconds of the transfer."""
    node: int = -1
    start: float = math.nan
    finish: float = math.inf


class PlainWorld:
    """A run."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals, terms = arrivals, arrivals.terms
        self.machines = [
            PlainMachine(kind.speed, kind.price) for kind in terms.machines for _ in range(kind.count)
        ]
        self.tasks: list[PlainTask] = []
        for number, workflow in enumerate(arrivals.workflows):
            first = len(self.tasks)
            table = seconds_on(workflow, terms)
            self.tasks += [PlainTask(number, table[at].tolist()) for at in range(len(workflow))]
            for parent, child, size in zip(workflow.parent, workflow.child, workflow.size, strict=True):
                self.tasks[first + child].parents[first + int(parent)] = float(size) / terms.bandwidth
        self.now = float(arrivals.arrival[0])
        self.penalty = 0.0

    def arrived(self, task: int) -> bool:
        """Whether the task's workflow is there."""
        return bool(self.arrivals.arrival[self.tasks[task].workflow] <= self.now)

    def ready(self) -> set[int]:
        """Tasks that may be placed."""
        return {
            number
            for number, task in enumerate(self.tasks)
            if task.node < 0 and self.arrived(number) and all(map(self._is_input, task.parents))
        }

    def _is_input(self, parent: int) -> bool:
        if self.arrivals.ahead:
            return self.tasks[parent].node >= 0
        return self.tasks[parent].finish <= self.now

    def events(self) -> list[float]:
        """When something will happen."""
        ends = [task.finish for task in self.tasks if task.node >= 0 and task.finish > self.now]
        return sorted([*ends, *(at for at in self.arrivals.arrival.tolist() if at > self.now)])

    def wait(self) -> None:
        """Until the next event."""
        self.now = self.events()[0]

    def start_on(self, task: int, node: int) -> float:
        """When it would start there."""
        asked, machine = self.tasks[task], self.machines[node]
        begin = self.now
        if not (machine.rentals and machine.rentals[-1][1] > self.now):
            begin += self.arrivals.terms.boot
        for parent, delay in asked.parents.items():
            there = self.tasks[parent]
            begin = max(begin, there.finish + (0.0 if there.node == node else delay))
        candidates = [begin, *(end for _, end in machine.slots if end > begin)]
        seconds = asked.seconds[node]
        return min(
            at for at in candidates if all(end <= at or at + seconds <= start for start, end in machine.slots)
        )

    def place(self, task: int, node: int) -> None:
        """Carry it out."""
        asked, machine = self.tasks[task], self.machines[node]
        asked.start = self.start_on(task, node)
        asked.finish, asked.node = asked.start + asked.seconds[node], node
        machine.slots.append((asked.start, asked.finish))
        if not (machine.rentals and machine.rentals[-1][1] > self.now):
            machine.rentals.append([self.now, self.now])
        rental, period = machine.rentals[-1], self.arrivals.terms.billing
        while rental[1] < asked.finish or rental[1] == rental[0]:
            rental[1] = rental[0] + (round((rental[1] - rental[0]) / period) + 1) * period

    def rent(self) -> float:
        """The integral of rented time times price."""
        return sum(
            (until - since) * machine.price / HOUR
            for machine in self.machines
            for since, until in machine.rentals
        )

    def penalties(self) -> float:
        """Of all workflows whose tasks are placed."""
        terms, total = self.arrivals.terms, 0.0
        for number, deadline in enumerate(self.arrivals.deadline.tolist()):
            ends = [task.finish for task in self.tasks if task.workflow == number]
            late = max(ends) - deadline
            if math.isfinite(late) and late > 0.0:
                total += terms.late_fee + terms.late_rate * late / HOUR
        return total
