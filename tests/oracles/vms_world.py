"""The world of virtual machines again in plain Python: lists, exact fractions and no caches.

Written from the rules, not from the kernels: whatever the two do differently is a mistake in one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from proreus.worlds.vms.model import VmTrace
from proreus.worlds.vms.simulation.world import VmsOptions


def exact(amount: float) -> Fraction:
    """An amount in thousandths, as the world counts them."""
    return Fraction(round(amount * 1000), 1000)


@dataclass
class PlainServer:
    """Two NUMA nodes of (cores, GB)."""

    capacity: list[list[Fraction]]
    free: list[list[Fraction]] = field(init=False)

    def __post_init__(self) -> None:
        self.free = [list(node) for node in self.capacity]


@dataclass
class PlainRun:
    """One run; `place` the machine `at_hand` until `over`."""

    trace: VmTrace
    options: VmsOptions
    start: int
    limit: int

    def __post_init__(self) -> None:
        shapes = [shape for shape in self.options.shapes for _ in range(shape.count)]
        self.all = [PlainServer([[exact(shape.cpu), exact(shape.mem)] for _ in range(2)]) for shape in shapes]
        self.servers = self.all[: self.options.first_servers]
        self.where: dict[int, int] = {}
        self.now = float(self.trace.arrival[self.start])
        self.at_hand = self.start
        self.row = int((self.trace.events == self.start).argmax()) + 1
        self.placed, self.rejected, self.total_wait = 0, 0, 0.0
        self.ends: list[tuple[float, int]] = []
        self.over, self.full = False, False
        if not any(self.avail()):
            if self.options.full == "reject":
                self.rejected += 1
                self._next_in_trace()
            else:
                self.over = self.full = True

    def demand(self, machine: int) -> tuple[bool, Fraction, Fraction]:
        """(on both nodes, cores and GB on each node that is used)."""
        rule = self.options.double
        cpu, mem = float(self.trace.cpu[machine]), float(self.trace.mem[machine])
        amount = mem if rule.resource == "mem" else cpu
        both = amount > rule.threshold or (rule.relation == ">=" and amount == rule.threshold)
        parts = 2 if both else 1
        return both, exact(cpu) / parts, exact(mem) / parts

    def avail(self) -> list[bool]:
        """Where the machine at hand may go, server by server; closed servers take nobody."""
        both, cpu, mem = self.demand(self.at_hand)
        allowed = []
        for server in self.servers:
            fits = [node[0] >= cpu and node[1] >= mem for node in server.free]
            allowed += [all(fits)] * 2 if both else fits
        return allowed + [False] * (2 * (len(self.all) - len(self.servers)))

    def place(self, place: int) -> float:
        """Put the machine at hand there and go on; what SPANE's reward would be."""
        machine = self.at_hand
        self._shift(machine, place, -1)
        self.where[machine] = place
        self.placed += 1
        wait = self.now - float(self.trace.arrival[machine])
        self.total_wait += wait
        self._grow()
        if self.options.full == "wait":
            self.ends.append((self.now + float(self.trace.lifetime[machine]), machine))
            self._next_in_queue()
        else:
            self._next_in_trace()
        return -math.log1p(wait)

    def used(self) -> tuple[Fraction, Fraction]:
        """Cores and GB in use, counted from the machines that run."""
        cpu = mem = Fraction(0)
        for machine in self.where:
            both, cores, gb = self.demand(machine)
            cpu, mem = cpu + cores * (1 + both), mem + gb * (1 + both)
        return cpu, mem

    def _shift(self, machine: int, place: int, sign: int) -> None:
        both, cpu, mem = self.demand(machine)
        for numa, node in enumerate(self.all[place // 2].free):
            if both or numa == place % 2:
                node[0] += sign * cpu
                node[1] += sign * mem

    def _leave(self, machine: int) -> None:
        if machine in self.where:
            self._shift(machine, self.where.pop(machine), 1)

    def _grow(self) -> None:
        if not self.options.growth:
            return
        cpu, mem = self.used()
        total_cpu = sum(node[0] for server in self.servers for node in server.capacity)
        total_mem = sum(node[1] for server in self.servers for node in server.capacity)
        # In floating point, as the threshold is no exact fraction.
        threshold = self.options.threshold
        if float(2000 * cpu) > threshold * float(2000 * total_cpu) or float(2000 * mem) > threshold * float(
            2000 * total_mem
        ):
            self.servers = self.all[: len(self.servers) + self.options.growth]

    def _next_in_trace(self) -> None:
        events = self.trace.events.tolist()
        while self.placed + self.rejected < self.limit and self.row < len(events):
            event = events[self.row]
            self.row += 1
            if event < 0:
                machine = -1 - event
                if self.options.release and machine >= self.start:
                    self.now = max(
                        self.now, float(self.trace.arrival[machine] + self.trace.lifetime[machine])
                    )
                    self._leave(machine)
                continue
            self.at_hand = event
            self.now = max(self.now, float(self.trace.arrival[event]))
            if any(self.avail()):
                return
            if self.options.full == "end":
                self.full = True
                break
            self.rejected += 1
        self.over = True

    def _next_in_queue(self) -> None:
        if self.placed >= self.limit or self.at_hand + 1 >= len(self.trace):
            self.over = True
            return
        self.at_hand += 1
        arrival = float(self.trace.arrival[self.at_hand])
        self._depart_until(arrival)
        if any(self.avail()):
            self.now = max(self.now, arrival)
            return
        while not any(self.avail()):
            if not self.ends or math.isinf(min(self.ends)[0]):
                self.over = self.full = True
                return
            self._depart_until(min(self.ends)[0])

    def _depart_until(self, moment: float) -> None:
        for end, machine in sorted(self.ends):
            if end <= moment:
                self.now = max(self.now, end)
                self._leave(machine)
        self.ends = [entry for entry in self.ends if entry[0] > moment]
