"""How policies play runs of functions: rules and networks inside one kernel, strangers call by call."""

from __future__ import annotations

import time
from collections.abc import Callable

from proreus.contract.play import RATE, AnyPolicy, for_two_runs, recorded, walk, with_measure
from proreus.contract.world import Hear, Played
from proreus.kernels.jit import compiled
from proreus.kernels.structs import lent
from proreus.policies.protocol import remark_of
from proreus.worlds.functions.policies.columns import FunctionsRule
from proreus.worlds.functions.policies.policy import FunctionsRulePolicy
from proreus.worlds.functions.policies.rules import choose
from proreus.worlds.functions.scenarios import FunctionsLoad, FunctionsScenario
from proreus.worlds.functions.simulation.kernel import keep_for, put
from proreus.worlds.functions.simulation.run import FunctionsRun
from proreus.worlds.functions.state.columns import KIND, OVER, FunctionsWork, Runs

ALL = 2**62


def play(
    scenario: FunctionsScenario,
    work: FunctionsLoad,
    policy: AnyPolicy,
    seed: int,
    *,
    hear: Hear | None = None,
    picture: bool = False,
) -> Played:
    """A run, as `contract.world.Play` says."""
    simulation, (first, again) = scenario.start(work, seed), for_two_runs(policy, seed, FunctionsRulePolicy)
    if isinstance(first, FunctionsRulePolicy):
        rule = first.rule_for(work.work.price.size)
        run_rule(work.work, simulation.runs, 0, rule, 0)  # loads the machine code before the clock runs
        began = time.perf_counter()
        decided = int(run_rule(work.work, simulation.runs, 0, rule, ALL))
        seconds = time.perf_counter() - began
    else:
        decided, seconds = walk(simulation, first, hear)
    outcome = with_measure(simulation.outcome(), RATE, decided / max(seconds, 1e-9))
    drawn = None
    if picture:
        shown, player = scenario.start(work, seed), again()
        drawn = recorded(shown, player, _advance(shown, player))
    return Played(outcome, drawn, remark_of(first))


def _advance(run: FunctionsRun, policy: AnyPolicy) -> Callable[[int], object] | None:
    """Decisions of a rule inside the kernel; None for a policy that must be asked."""
    if not isinstance(policy, FunctionsRulePolicy):
        return None
    rule = policy.rule_for(run.work.price.size)
    return lambda most: run_rule(run.work, run.runs, 0, rule, most)


@compiled
def run_rule(work: FunctionsWork, runs: Runs, lane: int, rule: FunctionsRule, most: int) -> int:
    """Up to `most` decisions of a rule; how many were made."""
    work, runs, rule = lent(work), lent(runs), lent(rule)
    for decided in range(most):
        if runs.tally[lane, KIND] == OVER:
            return decided
        node, seconds = choose(work, runs, lane, rule)
        if node < 0:
            keep_for(work, runs, lane, seconds)
        else:
            put(work, runs, lane, node)
    return most
