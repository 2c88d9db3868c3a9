"""The world of virtual machines: its options and scenarios, the trace as columns, one run at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from proreus.kernels.arrays import I32
from proreus.kernels.structs import pack
from proreus.model.errors import IllegalDecision, UsageError, unknown_name
from proreus.worlds.vms.model import FULL_CODES, DoubleRule, Full, ServerShape, Treatment, VmTrace
from proreus.worlds.vms.simulation import columns as c
from proreus.worlds.vms.simulation.columns import VmLanes, VmWork
from proreus.worlds.vms.simulation.kernel import begin, first_fit_length, put
from proreus.worlds.vms.simulation.outcome import RunFigures, figures_of
from proreus.worlds.vms.state.observation import Past, VmObservation
from proreus.worlds.vms.state.servers import NOWHERE, Flavours, capacity_of, flavours_of, new_servers

Reward = Literal["placement", "cpu", "wait"]
SPANE_EXTRA = 40
"""Machines of a run of SPANE's experiment after the first that first fit cannot place at once."""
FIRST_FIT_ACTION, BEST_FIT_ACTION = -1, -2
"""In place of a place: leave the choice to that rule."""
_REWARD = {"placement": c.PER_PLACEMENT, "cpu": c.BY_CPU, "wait": c.BY_WAIT}


@dataclass(frozen=True)
class VmsOptions:
    """The cluster, and how the world treats its machines."""

    servers: tuple[ServerShape, ...] = (ServerShape(5),)
    """Kind after kind; all alike, or mixed."""
    double: DoubleRule = field(default_factory=DoubleRule)
    """Which machines take both NUMA nodes of a server."""
    full: Full = "end"
    """A machine that fits nowhere: ends the run, is rejected, or waits and all behind it with it."""
    release: bool = True
    """Deleted machines give back what they took."""
    reward: Reward = "placement"
    """What a placement is worth: 1, its cores as a share of a NUMA node, or -log(1 + waiting time)."""
    growth: int = 0
    """Servers to add each time that more than `threshold` of them is in use; 0: the cluster does not grow."""
    threshold: float = 0.7
    """Share of cores or memory in use above which the cluster grows."""
    most_servers: int = 0
    """Where the cluster stops growing; 0: at twice its size."""

    def __post_init__(self) -> None:
        for name, known in (("full", FULL_CODES), ("reward", _REWARD)):
            if getattr(self, name) not in known:
                raise unknown_name(name, str(getattr(self, name)), known)
        if not self.servers:
            raise UsageError("a cluster needs servers")
        if self.full == "wait" and not self.release:
            raise UsageError("where machines wait, those that end must give back what they took")
        if self.growth < 0 or not 0 < self.threshold < 1:
            raise UsageError("growth is a number of servers, its threshold a share between 0 and 1")
        if self.most_servers and self.most_servers < self.first_servers:
            raise UsageError(f"the cluster cannot grow to {self.most_servers} servers: it has more already")

    @property
    def first_servers(self) -> int:
        """How many servers a run starts with."""
        return sum(shape.count for shape in self.servers)

    @property
    def server_count(self) -> int:
        """How many servers there may be in the end: the size of observations and actions."""
        if not self.growth:
            return self.first_servers
        return self.most_servers or 2 * self.first_servers

    @property
    def shapes(self) -> tuple[ServerShape, ...]:
        """The servers that a run starts with, then those that may be added, which are of the last kind."""
        more = self.server_count - self.first_servers
        return (*self.servers, replace(self.servers[-1], count=more)) if more else self.servers

    @property
    def treatment(self) -> Treatment:
        """What policies may know of this."""
        return Treatment(self.full, self.release, self.growth > 0)


SCENARIOS: dict[str, VmsOptions] = {
    "fading": VmsOptions(release=False, double=DoubleRule("mem", ">", 32.0)),
    "recovering": VmsOptions(),
    "recovering-large": VmsOptions(servers=(ServerShape(100),)),
    "expansion": VmsOptions(
        servers=(ServerShape(100),), double=DoubleRule("mem", ">", 32.0), growth=2, threshold=0.7
    ),
    "waiting": VmsOptions(full="wait", reward="wait"),
    "rejecting": VmsOptions(servers=(ServerShape(20),), full="reject"),
}


def with_servers(options: VmsOptions, count: int) -> VmsOptions:
    """The same with another number of servers, all of the first kind."""
    return replace(options, servers=(replace(options.servers[0], count=count),))


def compile_trace(trace: VmTrace, double: DoubleRule) -> VmWork:
    """The trace as columns for kernels."""
    flavours, flavour = flavours_of(trace.cpu, trace.mem, double)
    return pack(
        VmWork(
            flavour=flavour,
            arrival=trace.arrival.astype(np.float64),
            lifetime=trace.lifetime.astype(np.float64),
            events=trace.events,
            created=np.flatnonzero(trace.events >= 0).astype(np.int32),
            flavours=flavours,
        )
    )


def new_lanes(work: VmWork, options: VmsOptions, lanes: int, most_machines: int) -> VmLanes:
    """Lanes for runs of at most so many machines; `begin` starts each."""
    capacity = capacity_of(options.shapes)
    window = min(most_machines, work.flavour.size)
    alive = min(window, _most_alive(capacity, work.flavours)) + 1 if options.full == "wait" else 1
    option = np.zeros(c.OPTIONS, dtype=np.int64)
    option[c.FULL] = FULL_CODES[options.full]
    option[c.RELEASE] = options.release
    option[c.REWARD] = _REWARD[options.reward]
    option[c.GROWTH] = options.growth
    option[c.FIRST_SERVERS] = options.first_servers
    return pack(
        VmLanes(
            servers=new_servers(capacity, work.flavours, lanes),
            where=np.full((lanes, window), NOWHERE, dtype=np.int32),
            leaving=np.zeros((lanes, alive)),
            leaver=np.zeros((lanes, alive), dtype=np.int32),
            tally=np.zeros((lanes, c.TALLIES), dtype=np.int64),
            figure=np.zeros((lanes, c.FIGURES)),
            option=option,
            threshold=np.array([options.threshold]),
        )
    )


def _most_alive(capacity: I32, flavours: Flavours) -> int:
    """More machines than this cannot run at one time."""
    asked = flavours.need.astype(np.int64) * (1 + flavours.double)
    total = capacity.sum(axis=(0, 1), dtype=np.int64)
    return int(min(total[kind] // max(int(asked[kind].min()), 1) for kind in range(2)))


class VmsWorld:
    """One run at a time: `begin` it, ask `next_decision` until it returns None, answer each with `apply`."""

    def __init__(self, work: VmWork, options: VmsOptions, most_machines: int = 0) -> None:
        """`most_machines`: the longest run; 0: as long as the trace."""
        self.work, self.options = work, options
        self.lanes = new_lanes(work, options, 1, most_machines or work.flavour.size)
        self.start = 0

    def begin(self, machine: int = 0, limit: int = 0) -> None:
        """Start a run with that machine and an empty cluster; at most `limit` machines, 0: no limit."""
        if not 0 <= machine < self.work.flavour.size:
            raise UsageError(f"start {machine}: the trace has the machines 0 to {self.work.flavour.size - 1}")
        self.start = machine
        begin(self.work, self.lanes, 0, machine, limit or self.work.flavour.size)

    def next_decision(self) -> VmObservation | None:
        """The machine that needs a place; None when the run is over."""
        tally, figure = self.lanes.tally[0], self.lanes.figure[0]
        if tally[c.STATUS] != c.DECIDING:
            return None
        machine = int(tally[c.MACHINE])
        return VmObservation(
            servers=self.lanes.servers,
            flavours=self.work.flavours,
            lane=0,
            flavour=int(self.work.flavour[machine]),
            now=float(figure[c.NOW]),
            waited=float(figure[c.NOW] - self.work.arrival[machine]),
            treatment=self.options.treatment,
            past=self._past(machine, float(figure[c.NOW])),
        )

    def _past(self, machine: int, now: float) -> Past:
        """Where machines wait, others may have come since the one that needs a place."""
        work, last = self.work, machine + 1
        if self.options.full == "wait":
            last = max(last, int(np.searchsorted(work.arrival, now, side="right")))
        first, where = self.start, self.lanes.where[0]
        last = min(last, first + where.size)
        return Past(
            run=first,
            machine=machine - first,
            flavour=work.flavour[first:last],
            arrival=work.arrival[first:last],
            place=where[: last - first],
        )

    def apply(self, place: int) -> float:
        """Place the machine at hand and run on; what it was worth. An illegal place changes nothing."""
        observation = self.next_decision()
        if observation is None:
            raise IllegalDecision("no machine is waiting for a place")
        if not 0 <= place < observation.avail.size:
            raise IllegalDecision(
                f"place {place}: the machine does not fit there, places are 0..{observation.avail.size - 1}"
            )
        if not observation.avail[place]:
            raise IllegalDecision(f"place {place}: the machine does not fit there")
        return float(put(self.work, self.lanes, 0, place))

    def figures(self) -> RunFigures:
        """What the run has come to so far."""
        return figures_of(self.lanes, 0, self.start)


def spane_length(world: VmsWorld, machine: int) -> int:
    """The machines of a run of SPANE's experiment: as many as first fit places without a wait, and forty."""
    return int(first_fit_length(world.work, world.lanes, 0, machine)) + SPANE_EXTRA
