"""Virtual machines: what each asks for, when it comes and how long it stays, and the servers they go to.

A trace is a handful of arrays, not a list of objects: the public ones have a hundred thousand machines, and
every episode of the world `vms` starts somewhere inside one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proreus.data.vm_lifetimes import MOST
from proreus.kernels.arrays import F64, I32
from proreus.model.errors import UsageError

NUMA_NODES = 2
"""Every server has two."""
Full = Literal["end", "reject", "wait"]
"""A machine that fits nowhere: ends the run, is rejected, or waits and all behind it with it."""
ENDS, TURNS_AWAY, WAITS = range(3)
FULL_CODES: dict[Full, int] = {"end": ENDS, "reject": TURNS_AWAY, "wait": WAITS}
"""The same as kernels know it."""


@dataclass(frozen=True)
class Treatment:
    """How a cluster treats its machines: whoever runs it knows, so a policy may."""

    full: Full = "end"
    release: bool = True
    """Deleted machines give back what they took."""
    grows: bool = False
    """Servers are added when it gets full."""


@dataclass(frozen=True, eq=False)
class VmTrace:
    """Machines in order of arrival."""

    name: str
    cpu: F64
    """[V] cores."""
    mem: F64
    """[V] GB."""
    arrival: F64
    """[V] seconds, never falling."""
    lifetime: F64
    """[V] seconds; infinite where the machine is never deleted."""
    events: I32
    """[E] in order: v is the creation of machine v, -1 - v its deletion."""

    def __post_init__(self) -> None:
        count = len(self.cpu)
        if any(len(column) != count for column in (self.mem, self.arrival, self.lifetime)):
            raise ValueError("the columns of a trace have different lengths")
        if not count:
            raise ValueError("a trace needs at least one machine")
        created = self.events[self.events >= 0]
        if not np.array_equal(created, np.arange(count)):
            raise ValueError("the events do not create every machine once, in order of arrival")
        if (np.diff(self.arrival) < 0).any():
            raise ValueError("the arrivals are not in order")

    def __len__(self) -> int:
        return len(self.cpu)


def events_of(arrival: F64, lifetime: F64) -> I32:
    """The events of machines in order of time; at one moment deletions come first, as room must be free."""
    count = len(arrival)
    ending = np.flatnonzero(np.isfinite(lifetime))
    moments = np.concatenate([arrival, (arrival + lifetime)[ending]])
    creates = np.concatenate([np.ones(count, dtype=np.int8), np.zeros(ending.size, dtype=np.int8)])
    machines = np.concatenate([np.arange(count), -1 - ending])
    # A machine of no length must not be deleted before it is there: it goes as the next one comes.
    creates[count:][lifetime[ending] == 0] = 2
    order = np.lexsort((np.abs(machines), creates, moments))
    return machines[order].astype(np.int32)


def superposed(traces: Sequence[VmTrace], name: str) -> VmTrace:
    """All traces at once, each from its own beginning: the load of several regions on one cluster."""
    arrival = np.concatenate([trace.arrival - trace.arrival[0] for trace in traces])
    order = np.argsort(arrival, kind="stable")
    lifetime = np.concatenate([trace.lifetime for trace in traces])[order]
    return VmTrace(
        name,
        np.concatenate([trace.cpu for trace in traces])[order],
        np.concatenate([trace.mem for trace in traces])[order],
        arrival[order],
        lifetime,
        events_of(arrival[order], lifetime),
    )


def part_of(trace: VmTrace, first: int, last: int) -> VmTrace:
    """The machines `first` to `last` - 1 of a trace, as a trace of their own."""
    chosen = slice(first, last)
    arrival, lifetime = trace.arrival[chosen], trace.lifetime[chosen]
    return VmTrace(
        trace.name, trace.cpu[chosen], trace.mem[chosen], arrival, lifetime, events_of(arrival, lifetime)
    )


@dataclass(frozen=True)
class DoubleRule:
    """Which machines are split over both NUMA nodes of a server; sources disagree, so it is a choice."""

    resource: Literal["mem", "cpu"] = "mem"
    relation: Literal[">", ">="] = ">"
    threshold: float = 10.0

    @staticmethod
    def parse(text: str) -> DoubleRule:
        """From `mem>10`, `cpu>10` or `cpu>=10`."""
        match = re.fullmatch(r"\s*(mem|cpu)\s*(>=?)\s*([0-9]+(?:\.[0-9]+)?)\s*", text)
        if match is None:
            raise UsageError(f"double rule {text!r}: write mem>10, cpu>10 or cpu>=10")
        resource: Literal["mem", "cpu"] = "mem" if match[1] == "mem" else "cpu"
        relation: Literal[">", ">="] = ">" if match[2] == ">" else ">="
        return DoubleRule(resource, relation, float(match[3]))

    def __str__(self) -> str:
        return f"{self.resource}{self.relation}{self.threshold:g}"

    def splits(self, cpu: F64, mem: F64) -> NDArray[np.bool_]:
        """[V] whether a machine is split."""
        amount = mem if self.resource == "mem" else cpu
        return amount > self.threshold if self.relation == ">" else amount >= self.threshold


@dataclass(frozen=True)
class ServerShape:
    """Servers of one kind; amounts are those of one NUMA node."""

    count: int = 5
    cpu: float = 40.0
    """Cores."""
    mem: float = 90.0
    """GB."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UsageError(f"servers: {self.count} is not at least 1")
        if not (0 < self.cpu <= MOST and 0 < self.mem <= MOST):
            raise UsageError(f"a server needs cores and GB between 0 and {MOST:,.0f}")

    @staticmethod
    def parse(text: str) -> tuple[ServerShape, ...]:
        """From `5x40/90` or, for a mixed cluster, `3x40/90+2x64/256`: count x cores/GB per NUMA node."""
        shapes = []
        for part in text.split("+"):
            match = re.fullmatch(r"\s*(\d+)x(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)\s*", part)
            if match is None:
                raise UsageError(
                    f"servers {text!r}: write 5x40/90 (count x cores/GB per NUMA node), joined by +"
                )
            shapes.append(ServerShape(int(match[1]), float(match[2]), float(match[3])))
        return tuple(shapes)
