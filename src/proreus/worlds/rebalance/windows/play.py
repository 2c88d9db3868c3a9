"""How policies play windows of requests: rules and scorers inside one kernel, others decision by decision."""

from __future__ import annotations

import time

import numpy as np

from proreus.contract.play import for_two_runs, recorded, walk
from proreus.contract.simulation import Outcome
from proreus.contract.world import Hear, Played
from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.policies.protocol import remark_of
from proreus.worlds.rebalance.windows.policies.columns import MoveRule
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, WindowPolicy
from proreus.worlds.rebalance.windows.policies.rules import choose_move
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.simulation.columns import (
    END,
    NOW,
    OUTCOMES,
    RequestStream,
    WindowsColumns,
)
from proreus.worlds.rebalance.windows.simulation.kernel import close_window, migrate
from proreus.worlds.rebalance.windows.simulation.outcome import outcome_of
from proreus.worlds.rebalance.windows.simulation.run import WindowSimulation
from proreus.worlds.rebalance.windows.simulation.world import WindowsWorld


@compiled
def play_windows(stream: RequestStream, run: WindowsColumns, rule: MoveRule, outcomes: F64) -> None:
    """Every window from now to the end; outcomes [windows, OUTCOMES]."""
    hosting = run.hosting
    nodes, stop = hosting.pods.size, hosting.where.size * hosting.pods.size
    place = 0
    while run.clock[NOW] < run.clock[END]:
        action = choose_move(hosting, rule)
        while action != stop:
            migrate(run, action // nodes, action % nodes)
            action = choose_move(hosting, rule)
        close_window(stream, run)
        outcomes[place] = run.outcome
        place += 1


def play_part(world: WindowsWorld, policy: MovePolicy, part: tuple[int, int]) -> tuple[F64, float]:
    """([windows, OUTCOMES], seconds) of a run, which the world is at the end of."""
    first, last = part
    outcomes = np.zeros((last - first, OUTCOMES))
    # A window ahead loads the kernel's machine code, so that the time is that of the run alone.
    world.begin(first, first + 1)
    play_windows(world.stream, world.run, policy.new_rule(), outcomes)
    world.begin(first, last)
    began = time.perf_counter()
    play_windows(world.stream, world.run, policy.new_rule(), outcomes)
    return outcomes, time.perf_counter() - began


def play(
    scenario: WindowScenario,
    work: WindowsWorld,
    policy: WindowPolicy,
    seed: int,
    *,
    hear: Hear | None = None,
    picture: bool = False,
) -> Played:
    """The seed's part of the windows, as `contract.world.Play` says."""
    part, (first, again) = scenario.played_part(work, seed), for_two_runs(policy, seed, MovePolicy)
    if isinstance(first, MovePolicy):
        world = work.sibling()
        outcomes, seconds = play_part(world, first, part)
        outcome = outcome_of(outcomes, world, part[0])
    else:
        simulation = WindowSimulation(work, part)
        _, seconds = walk(simulation, first, hear)
        outcome = simulation.outcome()
    drawn = recorded(WindowSimulation(work, part), again()) if picture else None
    return Played(_with_rate(outcome, part, seconds), drawn, remark_of(first))


def _with_rate(outcome: Outcome, part: tuple[int, int], seconds: float) -> Outcome:
    """`decisions_per_s` is the old name of the rate of windows: it goes with the next release."""
    rate = (part[1] - part[0]) / max(seconds, 1e-9)
    measures = {**outcome.measures, "decisions_per_s": rate, "windows_per_s": rate}
    return Outcome(measures, outcome.columns, outcome.rows, outcome.export)
