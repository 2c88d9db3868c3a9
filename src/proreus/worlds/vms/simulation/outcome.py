"""What runs of the world `vms` came to: one row of figures per run, and measures over many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.measure import Measure, by_name
from proreus.worlds.vms.simulation import columns as c
from proreus.worlds.vms.simulation.columns import VmLanes

TRIM = 0.1
"""The share of runs left out at either end of a trimmed mean: a few wait a hundred times longer than most."""

MEASURES = by_name(
    Measure("total_wait", "s", "lower", "Total waiting time of a run, trimmed mean", "total wait"),
    Measure("total_wait_mean", "s", "lower", "Total waiting time of a run, plain mean", "plain mean"),
    Measure("wait_mean", "s", "lower", "Waiting time of a machine, mean", "wait"),
    Measure("waited", "%", "lower", "Machines that had to wait", "waited"),
    Measure("placements", "machines", "higher", "Machines placed in a run, mean", "placed"),
    Measure("rejected", "%", "lower", "Machines turned away", "rejected"),
    Measure("cpu_allocation", "%", "higher", "CPU allocation, mean over time", "CPU"),
    Measure("memory_allocation", "%", "higher", "Memory allocation, mean over time", "memory"),
    Measure("cpu_end", "%", "higher", "CPU allocation, at the end", "CPU end"),
    Measure("memory_end", "%", "higher", "Memory allocation, at the end", "memory end"),
    Measure("servers", "", "lower", "Servers in use at the end, mean", "servers"),
    Measure("full", "%", "lower", "Runs that ended for want of room", "ended full"),
    Measure("decisions", "", "lower", "Decisions", "decisions"),
    Measure("decisions_per_s", "1/s", "higher", "Decision rate", "rate"),
)


@dataclass(frozen=True)
class RunFigures:
    start: int
    """The machine of the trace at which it began."""
    placed: int
    rejected: int
    waited: int
    wait: float
    """Seconds, all machines together."""
    duration: float
    """Seconds of simulated time."""
    cpu_mean: float
    """Share of the cores in use, over time."""
    mem_mean: float
    cpu_end: float
    mem_end: float
    servers: int
    full: bool
    """It ended because a machine fitted nowhere."""


def figures_of(lanes: VmLanes, lane: int, start: int) -> RunFigures:
    """The run in a lane, as it stands."""
    tally, figure = lanes.tally[lane], lanes.figure[lane]
    duration = float(figure[c.NOW] - figure[c.BEGAN])
    cpu_end, mem_end = (
        float(figure[c.CPU_USED] / figure[c.CPU_OPEN]),
        float(figure[c.MEM_USED] / figure[c.MEM_OPEN]),
    )
    return RunFigures(
        start=start,
        placed=int(tally[c.PLACED]),
        rejected=int(tally[c.REJECTED]),
        waited=int(tally[c.WAITED]),
        wait=float(figure[c.WAIT]),
        duration=duration,
        cpu_mean=float(figure[c.CPU_SECONDS] / figure[c.CPU_OPEN_SECONDS]) if duration else cpu_end,
        mem_mean=float(figure[c.MEM_SECONDS] / figure[c.MEM_OPEN_SECONDS]) if duration else mem_end,
        cpu_end=cpu_end,
        mem_end=mem_end,
        servers=int(tally[c.SERVERS]),
        full=bool(tally[c.STATUS] == c.NO_ROOM),
    )


def trimmed_mean(values: Sequence[float] | F64) -> float:
    """The mean without the lowest and the highest tenth."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    cut = int(ordered.size * TRIM)
    return float(ordered[cut : ordered.size - cut].mean())


def measures_of(runs: Sequence[RunFigures], full: str, *, grows: bool) -> dict[str, float]:
    """The measures of runs on one cluster; those that mean nothing for machines so treated are absent."""
    placed = sum(run.placed for run in runs)
    asked = placed + sum(run.rejected for run in runs)
    measures: dict[str, float] = {}
    if full == "wait":
        waits = [run.wait for run in runs]
        measures["total_wait"] = trimmed_mean(waits)
        measures["total_wait_mean"] = float(np.mean(waits))
        measures["wait_mean"] = sum(waits) / max(placed, 1)
        measures["waited"] = 100.0 * sum(run.waited for run in runs) / max(placed, 1)
    if full == "end":
        measures["placements"] = placed / len(runs)
        measures["cpu_end"] = 100.0 * float(np.mean([run.cpu_end for run in runs]))
        measures["memory_end"] = 100.0 * float(np.mean([run.mem_end for run in runs]))
        measures["full"] = 100.0 * float(np.mean([run.full for run in runs]))
    if full == "reject":
        measures["rejected"] = 100.0 * (asked - placed) / max(asked, 1)
    if grows:
        measures["servers"] = float(np.mean([run.servers for run in runs]))
    # A run counts by its length: the mean over time of all runs, one after the other.
    lengths = np.array([max(run.duration, 1.0) for run in runs])
    measures["cpu_allocation"] = 100.0 * float(np.average([run.cpu_mean for run in runs], weights=lengths))
    measures["memory_allocation"] = 100.0 * float(np.average([run.mem_mean for run in runs], weights=lengths))
    measures["decisions"] = float(placed)
    return measures
