"""The work of one seed: runs from several starts of a trace, planned, and played one after the other."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from proreus.contract.replay import ABSENT, OUTSIDE, Move, Stage, levels_of
from proreus.contract.simulation import Look, Outcome
from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.model.errors import IllegalDecision
from proreus.worlds.vms.model import NUMA_NODES
from proreus.worlds.vms.simulation import columns as c
from proreus.worlds.vms.simulation.columns import VmLanes, VmWork
from proreus.worlds.vms.simulation.kernel import first_fit_length
from proreus.worlds.vms.simulation.outcome import RunFigures, measures_of
from proreus.worlds.vms.simulation.screen import server_lines
from proreus.worlds.vms.simulation.world import SPANE_EXTRA, VmsOptions, VmsWorld, new_lanes
from proreus.worlds.vms.state.observation import VmObservation


@dataclass(frozen=True, eq=False)
class VmRuns:
    """Where runs start on one trace, and how long they are."""

    work: VmWork
    options: VmsOptions
    starts: I64
    """[S] machines of the trace."""
    limits: I64
    """[S] machines of each run."""

    def first(self) -> VmRuns:
        """The first run alone: what --watch and pictures show."""
        return replace(self, starts=self.starts[:1], limits=self.limits[:1])

    def outcome(self, figures: list[RunFigures]) -> Outcome:
        """What runs came to: measures over all of them, a row each."""
        return Outcome(
            measures=measures_of(figures, self.options.full, grows=self.options.growth > 0),
            columns=tuple(RunFigures.__dataclass_fields__),
            rows=[tuple(asdict(run).values()) for run in figures],
        )


def planned_runs(
    work: VmWork, options: VmsOptions, starts: I64, limit: int = 0, ends: I64 | None = None
) -> VmRuns:
    """Runs of `limit` machines; without one to the trace's end, or of SPANE's length where machines wait.

    `ends` [S]: the machine before which each run ends, so that runs stay in their part of the trace. SPANE's
    length is kept whatever they say: its published figures come from runs that go some hundred machines past
    the border.
    """
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    if limit or options.full != "wait":
        limits = np.full(starts.size, limit or work.flavour.size)
        if ends is not None:
            # A run to the trace's end has no limit: it sees the deletions after the last creation too.
            inside = ends < work.flavour.size
            limits[inside] = np.minimum(limits, ends - starts)[inside]
        return VmRuns(work, options, starts, limits)
    limits = np.zeros(starts.size, dtype=np.int64)
    spane_lengths(work, new_lanes(work, options, 1, work.flavour.size), starts, limits)
    return VmRuns(work, options, starts, limits)


@compiled
def spane_lengths(work: VmWork, lanes: VmLanes, starts: I64, lengths: I64) -> None:
    """Fill `lengths` with the machines of SPANE's run from each start: first fit's, and forty."""
    for run in range(starts.size):
        lengths[run] = first_fit_length(work, lanes, 0, starts[run]) + SPANE_EXTRA


class VmSimulation:
    """Run after run, decision by decision."""

    def __init__(self, runs: VmRuns) -> None:
        self.runs = runs
        self.world = VmsWorld(runs.work, runs.options, int(runs.limits.max()))
        self.ended: list[RunFigures] = []
        """The runs that are over."""
        self._last: tuple[int, int] | None = None
        self._begin()

    def _begin(self) -> None:
        at = len(self.ended)
        self.world.begin(int(self.runs.starts[at]), int(self.runs.limits[at]))

    def next_decision(self) -> VmObservation | None:
        """The machine that needs a place; None when the last run is over."""
        while (observation := self.world.next_decision()) is None:
            if len(self.ended) == self.runs.starts.size:
                return None
            self.ended.append(self.world.figures())
            if len(self.ended) == self.runs.starts.size:
                return None
            self._begin()
        return observation

    def apply(self, place: int, /) -> float:
        """Place the machine at hand; what it was worth. An illegal place changes nothing."""
        if not isinstance(place, int | np.integer):
            raise IllegalDecision(f"{place!r} is no place: a place is a number, server * 2 + NUMA node")
        machine = int(self.world.lanes.tally[0, c.MACHINE])
        reward = self.world.apply(int(place))
        self._last = (machine, int(place))
        return reward

    def subject(self) -> str:
        """The machine's number in the trace."""
        return str(int(self.world.lanes.tally[0, c.MACHINE]))

    def outcome(self) -> Outcome:
        """What the runs so far have come to."""
        going = len(self.ended) < self.runs.starts.size
        return self.runs.outcome([*self.ended, *([self.world.figures()] if going else [])])

    def screen(self) -> list[str]:
        """The servers as they stand."""
        figures, servers = self.world.figures(), self.world.lanes.servers
        head = f"{figures.placed:,} placed, {figures.rejected:,} rejected, {figures.wait:,.0f} s waited"
        chosen = -1 if self._last is None else self._last[1]
        return [head, *server_lines(servers.capacity, servers.free[0], figures.servers, chosen)]

    def stage(self) -> Stage:
        """Servers with two NUMA nodes, each with gauges."""
        names = tuple(f"server {place}" for place in range(self.runs.options.server_count))
        return Stage("server", names, ("CPU", "memory"), "NUMA node", all_moves=False, clock=True)

    def look(self) -> Look:
        """The servers now, with the last placement."""
        lanes, options = self.world.lanes, self.runs.options
        tally, figure, servers = lanes.tally[0], lanes.figure[0], lanes.servers
        now, open_servers = float(figure[c.NOW]), self.world.figures().servers
        capacity = servers.capacity.sum(axis=1, dtype=np.float64)
        used = 1.0 - servers.free[0].sum(axis=1, dtype=np.float64) / capacity
        used[open_servers:] = 0.0
        levels = levels_of(1.0 - servers.free[0] / np.maximum(servers.capacity, 1))
        levels[open_servers:] = ABSENT
        arrived = int(np.searchsorted(self.runs.work.arrival, now, side="right"))
        in_line = max(arrived - int(tally[c.MACHINE]), 0) if options.full == "wait" else 0
        series = {
            "waiting": float(in_line),
            "cpu-allocation": 100.0 * float(figure[c.CPU_USED] / figure[c.CPU_OPEN]),
            "memory-allocation": 100.0 * float(figure[c.MEM_USED] / figure[c.MEM_OPEN]),
            "running": float(tally[c.RUNNING]),
            "servers": float(open_servers),
        }
        last, self._last = self._last, None
        moves = () if last is None else (Move(f"machine {last[0]:,}", OUTSIDE, last[1] // NUMA_NODES),)
        return Look(now, int(tally[c.PLACED]), series, used.max(axis=1), levels, moves)

    def told(self, before: Look | None, now: Look) -> str:
        """So many placements, on so many servers where they grow."""
        servers = f", {now.series['servers']:,.0f} servers" if self.runs.options.growth else ""
        return f"{now.count:,} placed{servers}"

    def facts(self) -> tuple[str, ...]:
        """Servers, and machines that may come."""
        machines = f"{self.runs.work.flavour.size:,} machines in the trace"
        return f"{self.runs.options.first_servers:,} servers", machines
