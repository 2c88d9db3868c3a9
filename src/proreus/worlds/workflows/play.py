"""How policies play runs of workflows: rules and networks inside one kernel, strangers call by call."""

from __future__ import annotations

import time
from collections.abc import Callable

from proreus.contract.play import RATE, AnyPolicy, for_two_runs, recorded, walk, with_measure
from proreus.contract.world import Hear, Played
from proreus.kernels.jit import compiled
from proreus.policies.protocol import remark_of
from proreus.worlds.workflows.policies.columns import WorkflowsRule
from proreus.worlds.workflows.policies.policy import WorkflowsRulePolicy
from proreus.worlds.workflows.policies.rules import choose
from proreus.worlds.workflows.scenarios import WorkflowsLoad, WorkflowsScenario
from proreus.worlds.workflows.simulation.kernel import is_over, put
from proreus.worlds.workflows.simulation.run import WorkflowsRun
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork

ALL = 2**62


def play(
    scenario: WorkflowsScenario,
    work: WorkflowsLoad,
    policy: AnyPolicy,
    seed: int,
    *,
    hear: Hear | None = None,
    picture: bool = False,
) -> Played:
    """A run, as `contract.world.Play` says."""
    simulation, (first, again) = scenario.start(work, seed), for_two_runs(policy, seed, WorkflowsRulePolicy)
    if isinstance(first, WorkflowsRulePolicy):
        rule = first.rule_for(work.work)
        run_rule(work.work, simulation.state, rule, 0)  # loads the machine code before the clock runs
        began = time.perf_counter()
        decided = int(run_rule(work.work, simulation.state, rule, ALL))
        seconds = time.perf_counter() - began
    else:
        decided, seconds = walk(simulation, first, hear)
    outcome = with_measure(simulation.outcome(), RATE, decided / max(seconds, 1e-9))
    drawn = None
    if picture:
        shown, player = scenario.start(work, seed), again()
        drawn = recorded(shown, player, _advance(shown, player))
    return Played(outcome, drawn, remark_of(first))


def _advance(run: WorkflowsRun, policy: AnyPolicy) -> Callable[[int], object] | None:
    """Decisions of a rule inside the kernel; None for a policy that must be asked."""
    if not isinstance(policy, WorkflowsRulePolicy):
        return None
    rule = policy.rule_for(run.work)
    return lambda most: run_rule(run.work, run.state, rule, most)


@compiled
def run_rule(work: WorkflowsWork, state: WorkflowsState, rule: WorkflowsRule, most: int) -> int:
    """Up to `most` decisions of a rule; how many were made."""
    for decided in range(most):
        if is_over(state):
            return decided
        task, node = choose(work, state, rule)
        put(work, state, task, node)
    return most
