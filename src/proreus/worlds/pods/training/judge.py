"""How good a policy is on held-out seeds, as a gain over the strongest rule of the scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.explaining import PodPolicy
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.state.compile import Compiled, compile_workload

FIRST_VALIDATION_SEED = 2000
_REMEMBERED = 96


@lru_cache(maxsize=_REMEMBERED)
def compiled_workload(scenario: Scenario, seed: int) -> Compiled:
    """The scenario's workload for a seed, compiled; kept for the next time it is asked for."""
    return compile_workload(scenario.source.load(seed))


def yardstick(scenario: Scenario) -> tuple[str, str, float]:
    """(measure, strongest rule, 1 where more is better and -1 where less is)."""
    nodes = compiled_workload(scenario, FIRST_VALIDATION_SEED).cluster.nodes
    if scenario.options.drop_failures and nodes.gpu_count.any():
        return "gpu_allocation_peak", "fgd", 1.0
    return "jct_mean", "best_fit", -1.0


@lru_cache(maxsize=1024)
def _rule_result(scenario: Scenario, seed: int) -> float:
    measure, rule, _ = yardstick(scenario)
    return simulate(compiled_workload(scenario, seed), make_policy(rule), scenario.options).measures[measure]


def held_out_gains(
    make: Callable[[], PodPolicy], scenarios: Sequence[Scenario], seeds: int
) -> dict[str, float]:
    """Scenario -> mean gain over its strongest rule on validation seeds, in the measure's unit."""
    gains = {}
    for scenario in scenarios:
        measure, _, sign = yardstick(scenario)
        found = []
        for seed in range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + seeds):
            outcome = simulate(compiled_workload(scenario, seed), make(), scenario.options)
            found.append(sign * (outcome.measures[measure] - _rule_result(scenario, seed)))
        gains[scenario.name] = float(np.mean(found))
    return gains
