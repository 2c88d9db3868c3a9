"""Runs of one policy of the world `vms`: rules inside one kernel, other policies call by call.

`vms` plays comparisons with it, `learning` its candidates, the command line single simulations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from proreus.contract.heat import HeatMap, heat_map
from proreus.contract.replay import ABSENT, OUTSIDE, Levels, Move, Replay, Stage, levels_of, replay_of, spaced
from proreus.contract.world import Recording
from proreus.kernels.arrays import F64, I64
from proreus.kernels.compiled import compiled
from proreus.worlds.vms.model import NUMA_NODES
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.policies.policy import VmPolicy, VmRulePolicy
from proreus.worlds.vms.policies.rules import choose_place
from proreus.worlds.vms.simulation.columns import (
    CPU_OPEN,
    CPU_USED,
    DECIDING,
    MACHINE,
    MEM_OPEN,
    MEM_USED,
    NOW,
    PLACED,
    RUNNING,
    STATUS,
    WAIT,
    VmLanes,
    Work,
)
from proreus.worlds.vms.simulation.kernel import at_hand, begin, first_fit_length, put
from proreus.worlds.vms.simulation.outcome import RunFigures
from proreus.worlds.vms.simulation.world import SPANE_EXTRA, VmsOptions, VmsWorld

_MOMENTS = 256
_FRAMES = 120
_ALL = 2**62


@dataclass(frozen=True, eq=False)
class VmRuns:
    """The work of one seed: where runs start on one trace, and how long they are."""

    work: Work
    options: VmsOptions
    starts: I64
    """[S] machines of the trace."""
    limits: I64
    """[S] machines of each run."""


def planned_runs(
    work: Work, options: VmsOptions, starts: I64, limit: int = 0, ends: I64 | None = None
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
    spane_lengths(work, VmsWorld(work, options).lanes, starts, limits)
    return VmRuns(work, options, starts, limits)


def play_runs(
    runs: VmRuns, policy: VmPolicy, watch: Callable[[int], None] | None = None
) -> tuple[tuple[RunFigures, ...], float]:
    """(every run with that policy, in order; the seconds it took); `watch` hears how many are done."""
    world = VmsWorld(runs.work, runs.options, int(runs.limits.max()))
    rule = policy.new_rule() if isinstance(policy, VmRulePolicy) else None
    if rule is not None:
        # Loads the kernel's machine code, so that the time is that of decisions alone.
        run_rule(world.work, world.lanes, rule, 0)
    began = time.perf_counter()
    found = []
    for start, limit in zip(runs.starts.tolist(), runs.limits.tolist(), strict=True):
        world.begin(start, limit)
        _play(world, policy, rule)
        found.append(world.figures())
        if watch is not None:
            watch(len(found))
    return tuple(found), time.perf_counter() - began


def _play(world: VmsWorld, policy: VmPolicy, rule: VmRule | None, most: int = _ALL) -> None:
    """Up to `most` decisions, fewer where the run ends before."""
    if rule is not None:
        run_rule(world.work, world.lanes, rule, most)
        return
    for _ in range(most):
        if _step(world, policy, None) is None:
            return


def _step(world: VmsWorld, policy: VmPolicy, rule: VmRule | None) -> tuple[int, int] | None:
    """One decision: the machine and its place; None where the run is over."""
    observation = world.next_decision()
    if observation is None:
        return None
    machine = int(world.lanes.tally[0, MACHINE])
    if rule is None:
        place = policy.decide(observation)
    else:
        place = int(choose_place(world.lanes.servers, world.work.flavours, 0, observation.flavour, rule))
    world.apply(place)
    return machine, place


def record_run(runs: VmRuns, policy: VmPolicy) -> tuple[Recording, HeatMap, Replay]:
    """The first of the runs, sampled as it goes."""
    limit = int(runs.limits[0])
    world = VmsWorld(runs.work, runs.options, limit)
    rule = policy.new_rule() if isinstance(policy, VmRulePolicy) else None
    world.begin(int(runs.starts[0]), limit)
    samples = [_sample(world, None)]
    stride, over = 1, False
    while not over:
        _play(world, policy, rule, stride - 1)
        samples.append(_sample(world, _step(world, policy, rule)))
        over = world.next_decision() is None
        if len(samples) > 2 * _MOMENTS:
            # Every other moment is dropped and the stride doubled: any run ends with enough and not too many.
            samples, stride = samples[::2], 2 * stride
    figures = np.array([sample.figures for sample in samples])
    series = {
        "waiting": figures[:, 1],
        "cpu-allocation": figures[:, 2],
        "memory-allocation": figures[:, 3],
        "running": figures[:, 4],
        "servers": figures[:, 5],
    }
    times = figures[:, 0]
    shares = np.array([sample.shares for sample in samples], dtype=np.float32)
    heat = heat_map(shares[::4], times[::4].copy())
    shown = [samples[at] for at in spaced(len(samples), _FRAMES)]
    return Recording(times, series), heat, _replayed(shown, runs.options)


@dataclass(frozen=True, eq=False)
class _Sample:
    """A run at one moment."""

    figures: list[float]
    """Time, machines in line, % of cores and memory, machines that run, servers."""
    shares: F64
    """[servers] in use of the scarcer resource."""
    levels: Levels
    """[servers, NUMA nodes, resources] in use."""
    placed: int
    last: Move | None
    """The placement that led here, where it is known."""


def _sample(world: VmsWorld, last: tuple[int, int] | None) -> _Sample:
    """The run as it stands; last = (machine, place) of its last placement."""
    tally, figure = world.lanes.tally[0], world.lanes.figure[0]
    servers = world.lanes.servers
    arrived = int(np.searchsorted(world.work.arrival, figure[NOW], side="right"))
    capacity = servers.capacity.sum(axis=1, dtype=np.float64)
    open_servers = world.figures().servers
    used = 1.0 - servers.free[0].sum(axis=1, dtype=np.float64) / capacity
    used[open_servers:] = 0.0
    levels = levels_of(1.0 - servers.free[0] / np.maximum(servers.capacity, 1))
    levels[open_servers:] = ABSENT
    in_line = max(arrived - int(tally[MACHINE]), 0) if world.options.full == "wait" else 0
    figures = [
        float(figure[NOW]),
        float(in_line),
        100.0 * float(figure[CPU_USED] / figure[CPU_OPEN]),
        100.0 * float(figure[MEM_USED] / figure[MEM_OPEN]),
        float(tally[RUNNING]),
        float(open_servers),
    ]
    move = None if last is None else Move(f"machine {last[0]:,}", OUTSIDE, last[1] // NUMA_NODES)
    return _Sample(figures, used.max(axis=1), levels, int(tally[PLACED]), move)


def _replayed(samples: Sequence[_Sample], options: VmsOptions) -> Replay:
    """The run as frames, each with its last placement."""

    def tell(before: int, at: int) -> str:
        sample = samples[at]
        servers = f", {sample.figures[5]:,.0f} servers" if options.growth else ""
        return f"{sample.placed:,} placed{servers}"

    names = tuple(f"server {place}" for place in range(options.server_count))
    stage = Stage("server", names, ("CPU", "memory"), "NUMA node", all_moves=False)
    moves = [() if sample.last is None else (sample.last,) for sample in samples]
    times = np.array([sample.figures[0] for sample in samples])
    return replay_of(stage, [sample.levels for sample in samples], moves, tell, times - times[0])


@compiled
def run_rule(work: Work, lanes: VmLanes, rule: VmRule, most: int) -> bool:
    """Up to `most` decisions of a rule in the first lane; whether the run is over."""
    for _ in range(most):
        if lanes.tally[0, STATUS] != DECIDING:
            return True
        flavour = at_hand(work, lanes, 0)
        put(work, lanes, 0, choose_place(lanes.servers, work.flavours, 0, flavour, rule))
    return lanes.tally[0, STATUS] != DECIDING


@compiled
def total_waits(work: Work, lanes: VmLanes, rule: VmRule, plan: tuple[I64, I64], waits: F64) -> int:
    """Fill `waits` with the total wait of each run; plan = (starts, limits). How many were placed."""
    starts, limits = plan
    decided = 0
    for run in range(starts.size):
        begin(work, lanes, 0, starts[run], limits[run])
        run_rule(work, lanes, rule, _ALL)
        waits[run] = lanes.figure[0, WAIT]
        decided += lanes.tally[0, PLACED]
    return decided


@compiled
def spane_lengths(work: Work, lanes: VmLanes, starts: I64, lengths: I64) -> None:
    """Fill `lengths` with the machines of SPANE's run from each start: first fit's, and forty."""
    for run in range(starts.size):
        lengths[run] = first_fit_length(work, lanes, 0, starts[run]) + SPANE_EXTRA


def wait_times(runs: VmRuns, policies: Sequence[VmRulePolicy]) -> list[F64]:
    """For each policy the total waiting time of every run."""
    lanes = VmsWorld(runs.work, runs.options, int(runs.limits.max())).lanes
    found = []
    for policy in policies:
        waits = np.zeros(runs.starts.size)
        total_waits(runs.work, lanes, policy.new_rule(), (runs.starts, runs.limits), waits)
        found.append(waits)
    return found
