"""What the evolution strategy of `functions` asks: how much less the objective is than under the best rule.

A network may not buy cost with response time, or the other way round: what its mean RFRT or its mean cost is
above that of the rule is taken off its gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.kernels.structs import private
from proreus.learning.es import check_search
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.policies.networks.tensor_layout import size_of, tensors_of
from proreus.worlds.functions.play import ALL, run_rule
from proreus.worlds.functions.policies.catalogue import network_policy, rule_policy
from proreus.worlds.functions.policies.policy import FunctionsRulePolicy
from proreus.worlds.functions.policies.weights import parts_of
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.kernel import begin
from proreus.worlds.functions.simulation.outcome import objective_of
from proreus.worlds.functions.state.columns import DROPPED, PAID, RFRT, SERVED, FunctionsWork
from proreus.worlds.functions.state.compile import new_runs

_SEEDS = 100_000
"""Of training runs: as many as anyone will draw."""
_RULES = ("ensure@10", "least_utilised@10")
"""That are tried beside those of the yardstick: with a shorter keep-alive."""
_KNOWN = 10
"""Runs by which the rule is chosen that is to be beaten in training."""


@dataclass(frozen=True)
class FunctionsESConfig:
    """Settings of the evolution strategy."""

    generations: int = 60
    """How many populations to try."""
    population: int = 16
    """Networks per generation."""
    sigma: float = 0.5
    """Width of the first population, in steps of each weight."""
    hidden: int = 4
    """Hidden units; the first one hands a rule through."""
    runs: int = 3
    """Runs per member, generation and scenario."""
    validation_runs: int = 20
    """Runs per scenario by which the mean is judged."""
    confirm_runs: int = 30
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 5
    """Generations between judgements."""
    strictness: float = 1.0
    """What a percent of RFRT or cost above the rule's takes off the gain, in percent."""
    seed: int = 1
    """Of the search."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "hidden", "runs", "validation_runs", "confirm_runs")


class FunctionsGoal:
    """Plays networks on workers, every member on the same runs."""

    def __init__(
        self, scenarios: Sequence[FunctionsScenario], config: FunctionsESConfig, pool: Executor
    ) -> None:
        self._scenarios, self._config, self._pool = scenarios, config, pool
        self._parts = parts_of(config.hidden)
        self._held_out: dict[tuple[str, range], tuple[list[FunctionsWork], F64]] = {}
        self._best_rules: dict[str, FunctionsRulePolicy] = {}

    @property
    def start(self) -> F64:
        """The rule `warm_cost`."""
        return np.zeros(size_of(self._parts))

    def draw(self, random: np.random.Generator) -> list[list[int]]:
        """Seeds for each scenario."""
        shape = (len(self._scenarios), self._config.runs)
        seeds: list[list[int]] = random.integers(_SEEDS, size=shape).tolist()
        return seeds

    def fitness(self, members: Sequence[F64], drawn: list[list[int]]) -> tuple[list[float], dict[str, int]]:
        """The mean gain over the scenarios, in %; and the runs."""
        gains = np.zeros(len(members))
        for scenario, seeds in zip(self._scenarios, drawn, strict=True):
            works = [scenario.of_part("train").load(seed).work for seed in seeds]
            rule = self._played(works, self._best_rule(scenario))
            policies = [self._policy(member) for member in members]
            jobs = [[self._pool.submit(played, work, policy) for work in works] for policy in policies]
            for place, job in enumerate(jobs):
                found = np.array([future.result() for future in job])
                gains[place] += float(np.mean(gains_over(rule, found, self._config.strictness)))
        return (gains / len(self._scenarios)).tolist(), {
            "runs": len(members) * sum(len(seeds) for seeds in drawn)
        }

    def validate(self, mean: F64) -> dict[str, float]:
        """% less than the best rule by scenario, on other requests than those trained on."""
        gains = self._gains(self._policy(mean), range(self._config.validation_runs))
        return {name: float(np.mean(gain)) for name, gain in gains.items()}

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """The same of a checkpoint, for each of the runs on which nothing is chosen."""
        config = self._config
        seeds = confirming(config.validation_runs, config.confirm_runs)
        return self._gains(network_policy("candidate", tensors), seeds)

    def tensors(self, mean: F64) -> Arrays:
        """The network's."""
        return tensors_of(self._parts, mean)

    def _policy(self, vector: F64) -> FunctionsRulePolicy:
        return network_policy("candidate", tensors_of(self._parts, vector))

    def _gains(self, policy: FunctionsRulePolicy, seeds: range) -> dict[str, F64]:
        gains = {}
        for scenario in self._scenarios:
            works, rule = self._rule(scenario, seeds)
            gains[scenario.name] = gains_over(rule, self._played(works, policy), self._config.strictness)
        return gains

    def _rule(self, scenario: FunctionsScenario, seeds: range) -> tuple[list[FunctionsWork], F64]:
        """The held-out runs, and those of the rule whose objective is least over all of them."""
        key = (scenario.name, seeds)
        if key not in self._held_out:
            held_out = scenario.of_part("valid")
            works = [held_out.load(seed).work for seed in seeds]
            self._held_out[key] = works, min(self._of_rules(scenario, works).values(), key=_objective)
        return self._held_out[key]

    def _best_rule(self, scenario: FunctionsScenario) -> FunctionsRulePolicy:
        """The rule that is to be beaten in training."""
        if scenario.name not in self._best_rules:
            works = [scenario.of_part("train").load(seed).work for seed in range(_KNOWN)]
            found = self._of_rules(scenario, works)
            self._best_rules[scenario.name] = rule_policy(
                min(found, key=lambda name: _objective(found[name]))
            )
        return self._best_rules[scenario.name]

    def _of_rules(self, scenario: FunctionsScenario, works: Sequence[FunctionsWork]) -> dict[str, F64]:
        names = (*scenario.yardstick()[1], *_RULES)
        return {name: self._played(works, rule_policy(name)) for name in names}

    def _played(self, works: Sequence[FunctionsWork], policy: FunctionsRulePolicy) -> F64:
        """[runs, 3] objective, RFRT and cost."""
        jobs = [self._pool.submit(played, work, policy) for work in works]
        return np.array([job.result() for job in jobs])


def _objective(found: F64) -> float:
    return float(found[:, 0].mean())


def gains_over(rule: F64, found: F64, strictness: float) -> F64:
    """[runs] % less of the objective than the rule has on average, less what RFRT or cost are above its."""
    means, ours = rule.mean(axis=0), found.mean(axis=0)
    above = np.maximum(ours[1:] / np.maximum(means[1:], 1e-12) - 1.0, 0.0).sum()
    gains: F64 = 100.0 * ((rule[:, 0] - found[:, 0]) / means[0] - strictness * above)
    return gains


def played(work: FunctionsWork, policy: FunctionsRulePolicy) -> tuple[float, float, float]:
    """(objective, mean RFRT, price x seconds) of a run."""
    work = private(work)  # threads that share a handle wait for each other at every count of it
    runs = new_runs(work, logged=False)
    begin(work, runs, 0, 0)
    run_rule(work, runs, 0, policy.fresh(0).rule_for(work.price.size), ALL)
    over = max(int(runs.tally[0, SERVED] + runs.tally[0, DROPPED]), 1)
    return objective_of(work, runs), float(runs.figure[0, RFRT]) / over, float(runs.figure[0, PAID])
