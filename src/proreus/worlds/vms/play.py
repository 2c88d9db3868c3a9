"""How policies play runs of virtual machines: rules inside one kernel, other policies call by call.

`learning` plays its candidates with the same kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from proreus.contract.play import RATE, for_two_runs, recorded, walk, with_measure
from proreus.contract.world import Hear, Played
from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.policies.protocol import remark_of
from proreus.worlds.vms.policies.adaptive import AdaptiveVmPolicy
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.policies.policy import VmPolicy, VmRulePolicy
from proreus.worlds.vms.policies.rules import choose_place
from proreus.worlds.vms.scenarios import VmScenario
from proreus.worlds.vms.simulation.columns import DECIDING, PLACED, REJECTED, STATUS, WAIT, VmLanes, VmWork
from proreus.worlds.vms.simulation.kernel import at_hand, begin, put
from proreus.worlds.vms.simulation.outcome import RunFigures
from proreus.worlds.vms.simulation.runs import VmRuns, VmSimulation
from proreus.worlds.vms.simulation.world import VmsWorld
from proreus.worlds.vms.state.servers import capacity_of

_ALL = 2**62
RUN_PLACED, RUN_TURNED_AWAY, RUN_WAIT = range(3)
"""Of a run as searches see it: machines placed, machines turned away, seconds waited."""


def play(
    scenario: VmScenario,
    work: VmRuns,
    policy: VmPolicy,
    seed: int,
    *,
    hear: Hear | None = None,
    picture: bool = False,
) -> Played:
    """All runs of the seed, as `contract.world.Play` says."""
    (first, again), runs = for_two_runs(_settled(policy, work), seed, VmRulePolicy), work.starts.size
    watch = None if hear is None else lambda done: hear(done, runs)
    run_figures, seconds = play_runs(work, first, watch)
    outcome = work.outcome(list(run_figures))
    outcome = with_measure(outcome, RATE, outcome.measures["decisions"] / max(seconds, 1e-9))
    drawn = None
    if picture:
        simulation, player = VmSimulation(work.first()), again()
        drawn = recorded(simulation, player, _advance(simulation.world, player))
    return Played(outcome, drawn, remark_of(first))


def _settled(policy: VmPolicy, runs: VmRuns) -> VmPolicy:
    """A policy that adapts to its cluster is one rule in it, which kernels can run."""
    if not isinstance(policy, AdaptiveVmPolicy):
        return policy
    return policy.under(runs.options.treatment, capacity_of(runs.options.shapes))


def _advance(world: VmsWorld, policy: VmPolicy) -> Callable[[int], object] | None:
    """Decisions of a rule inside the kernel; None for a policy that must be asked."""
    if not isinstance(policy, VmRulePolicy):
        return None
    rule = policy.rule
    return lambda most: run_rule(world.work, world.lanes, rule, most)


def play_runs(
    runs: VmRuns, policy: VmPolicy, watch: Callable[[int], None] | None = None
) -> tuple[tuple[RunFigures, ...], float]:
    """(every run with that policy, in order; the seconds it took); `watch` hears how many are done."""
    policy = _settled(policy, runs)
    if not isinstance(policy, VmRulePolicy):
        simulation = VmSimulation(runs)
        hear = None if watch is None else lambda decided, of: watch(len(simulation.ended))
        _, seconds = walk(simulation, policy, hear)
        return tuple(simulation.ended), seconds
    world, rule = VmsWorld(runs.work, runs.options, int(runs.limits.max())), policy.new_rule()
    # Loads the kernel's machine code, so that the time is that of decisions alone.
    run_rule(world.work, world.lanes, rule, 0)
    began, figures = time.perf_counter(), []
    for start, limit in zip(runs.starts.tolist(), runs.limits.tolist(), strict=True):
        world.begin(start, limit)
        run_rule(world.work, world.lanes, rule, _ALL)
        figures.append(world.figures())
        if watch is not None:
            watch(len(figures))
    return tuple(figures), time.perf_counter() - began


@compiled
def run_rule(work: VmWork, lanes: VmLanes, rule: VmRule, most: int) -> bool:
    """Up to `most` decisions of a rule in the first lane; whether the run is over."""
    for _ in range(most):
        if lanes.tally[0, STATUS] != DECIDING:
            return True
        flavour = at_hand(work, lanes, 0)
        put(work, lanes, 0, choose_place(lanes.servers, work.flavours, 0, flavour, rule))
    return lanes.tally[0, STATUS] != DECIDING


@compiled
def brief_runs(work: VmWork, lanes: VmLanes, rule: VmRule, plan: tuple[I64, I64], outcomes: F64) -> int:
    """Fill `outcomes` [S, 3] with what each run came to; plan = (starts, limits). How many were placed."""
    starts, limits = plan
    decided = 0
    for run in range(starts.size):
        begin(work, lanes, 0, starts[run], limits[run])
        run_rule(work, lanes, rule, _ALL)
        outcomes[run, RUN_PLACED] = lanes.tally[0, PLACED]
        outcomes[run, RUN_TURNED_AWAY] = lanes.tally[0, REJECTED]
        outcomes[run, RUN_WAIT] = lanes.figure[0, WAIT]
        decided += lanes.tally[0, PLACED]
    return decided


def briefly(runs: VmRuns, policies: Sequence[VmRulePolicy]) -> list[F64]:
    """For each policy what every run came to: [S, 3]."""
    lanes = VmsWorld(runs.work, runs.options, int(runs.limits.max())).lanes
    outcomes = []
    for policy in policies:
        rows = np.zeros((runs.starts.size, 3))
        brief_runs(runs.work, lanes, policy.new_rule(), (runs.starts, runs.limits), rows)
        outcomes.append(rows)
    return outcomes
