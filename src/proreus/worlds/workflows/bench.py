"""Speed claims of the world `workflows`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from proreus.contract.claim import BenchRow, claim
from proreus.worlds.workflows.play import ALL, run_rule
from proreus.worlds.workflows.policies.catalogue import POLICIES, rule_policy
from proreus.worlds.workflows.policies.policy import RulePolicy
from proreus.worlds.workflows.scenarios import SCENARIOS, Load, parse_scenario
from proreus.worlds.workflows.simulation.kernel import begin
from proreus.worlds.workflows.state.compile import new_state

_GOAL = 1e6
_SECONDS = 1.0
_BEST_OF = 3
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
    if POLICIES.shipped is not None:
        say("the network on arrivals")
        learned = POLICIES.make("learned")
        assert isinstance(learned, RulePolicy)
        yield claim("learned, arrivals", "decisions/s", _rate(online, learned))


def _rate(loads: list[Load], policy: RulePolicy) -> float:
    """Decisions a second over whole runs, their beginnings included; the best of a few tries."""
    ready = [(load.work, new_state(load.work), policy.fresh(0).rule_for(load.work)) for load in loads]
    for work, state, rule in ready:
        begin(work, state)
        run_rule(work, state, rule, ALL)
    rates = []
    for _ in range(_BEST_OF):
        decided, began = 0, time.perf_counter()
        while time.perf_counter() - began < _SECONDS:
            for work, state, rule in ready:
                begin(work, state)
                decided += int(run_rule(work, state, rule, ALL))
        rates.append(decided / (time.perf_counter() - began))
    return max(rates)
