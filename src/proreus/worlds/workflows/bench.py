"""Speed claims of the world `workflows`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from proreus.contract.benchmark import BenchRow, claim
from proreus.worlds.workflows.play import ALL, run_rule
from proreus.worlds.workflows.policies.catalogue import POLICIES, rule_policy
from proreus.worlds.workflows.policies.policy import WorkflowsRulePolicy
from proreus.worlds.workflows.scenarios import SCENARIOS, WorkflowsLoad, parse_scenario
from proreus.worlds.workflows.simulation.kernel import begin
from proreus.worlds.workflows.state.compile import new_state

_GOAL = 1e6
_SECONDS = 2.0
_WORKS = 20


def bench_workflows(data: Path | None, say: Callable[[str], None]) -> Iterator[BenchRow]:
    """Placements a second in one thread: HEFT with insertion, and a network where there is one."""
    static = [SCENARIOS["static"].load(seed) for seed in range(_WORKS)]
    say("HEFT on generated workflows")
    yield claim("HEFT, generated workflows", "placements/s", _rate(static, rule_policy("heft")), goal=_GOAL)
    if data is not None:
        scenario = parse_scenario("traces/static", data)
        recorded = [scenario.load(seed) for seed in range(_WORKS)]
        say("HEFT on recorded workflows")
        yield claim(
            "HEFT, recorded workflows", "placements/s", _rate(recorded, rule_policy("heft")), goal=_GOAL
        )
    online = [SCENARIOS["busy"].load(seed) for seed in range(4)]
    say("rules on arrivals")
    yield claim("deadline, arrivals", "decisions/s", _rate(online, rule_policy("deadline")))
    say("the network on arrivals")
    learned = POLICIES.make("learned")
    assert isinstance(learned, WorkflowsRulePolicy), "a checkpoint is played in kernels"
    yield claim("learned, arrivals", "decisions/s", _rate(online, learned))


def _rate(loads: list[WorkflowsLoad], policy: WorkflowsRulePolicy) -> float:
    """Decisions a second over whole runs, their beginnings included; the best of many short passes.

    Short, so that some of them are not interrupted by other work on the machine.
    """
    ready = [(load.work, new_state(load.work), policy.fresh(0).rule_for(load.work)) for load in loads]
    for work, state, rule in ready[:1]:  # loads the machine code before the clock runs
        begin(work, state)
        run_rule(work, state, rule, ALL)
    best, ends = 0.0, time.perf_counter() + _SECONDS
    while time.perf_counter() < ends or best == 0.0:
        decided, began = 0, time.perf_counter()
        for work, state, rule in ready:
            begin(work, state)
            decided += int(run_rule(work, state, rule, ALL))
        best = max(best, decided / (time.perf_counter() - began))
    return best
