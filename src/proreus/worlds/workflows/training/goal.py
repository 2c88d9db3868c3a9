"""What the evolution strategy of `workflows` asks: how much less networks pay than the best rule."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.es import check_search
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.policies.networks.bidder import bidder_of
from proreus.policies.networks.tensor_layout import size_of, tensors_of
from proreus.worlds.workflows.encoding.rows import SIZES
from proreus.worlds.workflows.play import ALL, run_rule
from proreus.worlds.workflows.policies.catalogue import rule_policy
from proreus.worlds.workflows.policies.columns import BIDDING
from proreus.worlds.workflows.policies.policy import WorkflowsRulePolicy
from proreus.worlds.workflows.scenarios import WorkflowsLoad, WorkflowsScenario
from proreus.worlds.workflows.simulation.kernel import begin
from proreus.worlds.workflows.simulation.outcome import measures_of
from proreus.worlds.workflows.state.compile import new_state
from proreus.worlds.workflows.training.weight_vector import parts_of

_SEEDS = 100_000
"""Of training runs: as many as anyone will draw."""


@dataclass(frozen=True)
class WorkflowsESConfig:
    """Settings of the evolution strategy."""

    generations: int = 60
    """How many populations to try."""
    population: int = 20
    """Networks per generation."""
    sigma: float = 0.5
    """Width of the first population, in steps of each weight."""
    hidden: int = 2
    """Hidden units; the first one hands a rule through."""
    runs: int = 3
    """Runs per member, generation and scenario."""
    validation_runs: int = 20
    """Runs per scenario by which the mean is judged."""
    confirm_runs: int = 30
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 10
    """Generations between judgements."""
    seed: int = 1
    """Of the search."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "hidden", "runs", "validation_runs", "confirm_runs")


class WorkflowsGoal:
    """Plays networks on workers, every member on the same runs."""

    def __init__(
        self, scenarios: Sequence[WorkflowsScenario], config: WorkflowsESConfig, pool: Executor
    ) -> None:
        self._scenarios, self._config, self._pool = scenarios, config, pool
        self._parts = parts_of(config.hidden)
        self._held_out: dict[tuple[str, range], F64] = {}

    @property
    def start(self) -> F64:
        """The rules that the network begins as."""
        return np.zeros(size_of(self._parts))

    def draw(self, random: np.random.Generator) -> list[list[int]]:
        """Seeds for each scenario."""
        shape = (len(self._scenarios), self._config.runs)
        seeds: list[list[int]] = random.integers(_SEEDS, size=shape).tolist()
        return seeds

    def fitness(self, members: Sequence[F64], drawn: list[list[int]]) -> tuple[list[float], dict[str, int]]:
        """Minus the mean logarithm of what is paid, each run in what the best rule pays there; and the runs.

        The logarithm, because a member that lets one run wait for days is no worse in the others.
        """
        runs = [
            (scenario.of_part("train"), seed)
            for scenario, seeds in zip(self._scenarios, drawn, strict=True)
            for seed in seeds
        ]
        best = [
            [self._pool.submit(paid_on, *run, rule_policy(name)) for name in run[0].yardstick()[1]]
            for run in runs
        ]
        jobs = [
            [self._pool.submit(paid_on, *run, self._policy(member)) for run in runs] for member in members
        ]
        rules = np.array([min(job.result() for job in row) for row in best])
        fitness = [-float(np.mean(np.log(np.array([job.result() for job in row]) / rules))) for row in jobs]
        return fitness, {"runs": len(members) * len(runs)}

    def validate(self, mean: F64) -> dict[str, float]:
        """% less than the best rule by scenario, on other workflows than those trained on."""
        gains = self._gains(self._policy(mean), range(self._config.validation_runs))
        return {name: float(np.mean(gain)) for name, gain in gains.items()}

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """The same of a checkpoint, for each of the runs on which nothing is chosen."""
        config = self._config
        return self._gains(network_policy(tensors), confirming(config.validation_runs, config.confirm_runs))

    def tensors(self, mean: F64) -> Arrays:
        return tensors_of(self._parts, mean)

    def _policy(self, vector: F64) -> WorkflowsRulePolicy:
        return network_policy(tensors_of(self._parts, vector))

    def _gains(self, policy: WorkflowsRulePolicy, seeds: range) -> dict[str, F64]:
        """By scenario and seed: how much less is paid than by the rule that pays least over all seeds, in %
        of what that rule pays on average."""
        gains = {}
        for scenario in self._scenarios:
            held_out = scenario.of_part("valid")
            rule = self._rule(held_out, seeds)
            gains[scenario.name] = 100.0 * (rule - self._paid(held_out, seeds, policy)) / float(np.mean(rule))
        return gains

    def _rule(self, scenario: WorkflowsScenario, seeds: range) -> F64:
        key = (scenario.name, seeds)
        if key not in self._held_out:
            rules = [self._paid(scenario, seeds, rule_policy(name)) for name in scenario.yardstick()[1]]
            self._held_out[key] = min(rules, key=lambda rule: float(np.mean(rule)))
        return self._held_out[key]

    def _paid(self, scenario: WorkflowsScenario, seeds: range, policy: WorkflowsRulePolicy) -> F64:
        jobs = [self._pool.submit(paid_on, scenario, seed, policy) for seed in seeds]
        return np.array([job.result() for job in jobs])


def network_policy(tensors: Arrays) -> WorkflowsRulePolicy:
    """The policy of an actor's tensors."""
    return WorkflowsRulePolicy("candidate", BIDDING, bidder=bidder_of("actor", tensors, SIZES))


@lru_cache(maxsize=256)
def _loaded(scenario: WorkflowsScenario, seed: int) -> WorkflowsLoad:
    return scenario.load(seed)


def paid_on(scenario: WorkflowsScenario, seed: int, policy: WorkflowsRulePolicy) -> float:
    """`paid` where the run is loaded, too: in a process of its own."""
    return paid(_loaded(scenario, seed), policy)


def paid(load: WorkflowsLoad, policy: WorkflowsRulePolicy) -> float:
    """Dollars of rent and penalties of a run, or its makespan in lower bounds."""
    work, state = load.work, new_state(load.work)
    begin(work, state)
    run_rule(work, state, policy.fresh(0).rule_for(work), ALL)
    measures = measures_of(work, state)
    return measures.get("cost", measures.get("slr", np.nan))
