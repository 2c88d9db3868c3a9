"""What an evolution strategy learns of pods: the weights of a linear scorer, started from the best rule.

Members run over every training scenario with a seed that is new in every generation, and are ranked by how
much better they are than that rule: FGD where there are GPUs, else best fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.device import Device
from proreus.learning.es import check_search
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.model.errors import UsageError
from proreus.worlds.pods.encoding.pair import (
    DEMAND_FIGURES,
    PAIR_FEATURES,
    POD_KINDS,
    demand_context,
)
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.adaptive import rule_weights
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.checkpoint_tensors import linear_tensors
from proreus.worlds.pods.policies.rules.columns import LINEAR, ORDERED
from proreus.worlds.pods.policies.rules.policy import LinearScorer, RuleOptions, RulePolicy
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.simulation.outcome import MEASURES
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.evaluation import compiled_workload

START_RULE, WITHOUT_GPUS = "fgd", "best_fit"
Cell = tuple[PodScenario, int]
"""A scenario of a part, and a seed."""
Rater = Callable[[Sequence[LinearScorer], Sequence[Cell]], list[list[float]]]
"""What each scorer comes to on each cell."""
_KINDS, _FEATURES = len(POD_KINDS), len(PAIR_FEATURES)


@dataclass(frozen=True)
class ESConfig:
    """Settings of the evolution strategy."""

    generations: int = 40
    """How many populations to try."""
    population: int = 16
    """Weight vectors per generation."""
    sigma: float = 0.3
    """Width of the first population around the start."""
    start: str = "rule"
    """Where the search starts: from the strongest rule, or from `learned`, a run or a checkpoint."""
    by_demand: bool = False
    """Also learn how the weights shift with what the workload asks of the cluster."""
    train_seeds: int = 10
    """How many seeds training draws from (1000, 1001, ...)."""
    episodes: int = 1
    """How many drawn seeds of each scenario a member is tried on: more where luck outweighs skill."""
    validation_seeds: int = 10
    """How many seeds the mean is judged on while training (2000, 2001, ...)."""
    confirm_seeds: int = 30
    """How many seeds after those say, at the end, how much better the best is than the start."""
    evaluate_every: int = 5
    """Generations between judgements."""
    measure: str = "gpu_allocation_peak"
    """What to improve: more of it, or less where less is better."""
    seed: int = 0
    """Of the search; the same seed gives the same result."""
    device: Device = "cpu"
    """Where members are rated: on the host's cores, or all at once on a GPU. auto: there, where there is one
    that knows the measure (an allocation) and all rules of the workloads."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "train_seeds", "episodes", "validation_seeds", "confirm_seeds")


def starting_weights(start: str, work: Compiled) -> tuple[F64, F64]:
    """The starting policy for the first workload as (weights, worth of gaps): a rule's score and node order
    among equals, or what was learned before."""
    if start == "rule":
        return rule_weights(gpus=_rule_for(work) == START_RULE), np.zeros(0)
    policy = make_policy(start)
    linear = policy.options.linear if isinstance(policy, RulePolicy) else None
    if linear is None:
        raise UsageError(f"--start {start}: it has no weights to start from")
    return linear.weights_for(work), linear.gaps_for(work)


def starting_point(config: ESConfig, work: Compiled) -> F64:
    weights, _ = starting_weights(config.start, work)
    extra = len(DEMAND_FIGURES) * _KINDS * _FEATURES if config.by_demand else 0
    return np.concatenate([weights.ravel(), np.zeros(extra)])


def as_scorer(vector: F64, usual: F64, gaps: F64 | None = None) -> LinearScorer:
    """A search vector as a scorer; `usual` is the demand at which nothing is shifted, `gaps` what gaps are
    worth, which is not searched."""
    size = _KINDS * _FEATURES
    shape = (len(DEMAND_FIGURES), _KINDS, _FEATURES)
    by_demand = vector[size:].reshape(shape) if vector.size > size else np.zeros(shape)
    weights = vector[:size].reshape(_KINDS, _FEATURES)
    return LinearScorer(weights, by_demand, usual, np.zeros(0) if gaps is None else gaps)


class PodsGoal:
    """Runs weight vectors on workers and compares them with the starting rule."""

    def __init__(
        self,
        config: ESConfig,
        scenarios: Sequence[PodScenario],
        pool: Executor,
        rater: Rater | None = None,
    ) -> None:
        """rater: plays whole populations elsewhere; None: members on the workers of the pool."""
        self._pool, self._config, self._rater = pool, config, rater
        self._train = [scenario.of_part("train") for scenario in scenarios]
        self._trials = [scenario for scenario in self._train for _ in range(config.episodes)]
        self._valid = [scenario.of_part("valid") for scenario in scenarios]
        self._usual = usual_demand(self._train)
        self._rule: dict[Cell, float] = {}
        first = compiled_workload(self._train[0], 0)
        self.start = starting_point(config, first)
        self._gaps = starting_weights(config.start, first)[1]  # as they are: the search is over the weights

    def draw(self, random: np.random.Generator) -> list[int]:
        """Training seeds for each scenario, as many as a member has episodes."""
        return [int(random.integers(self._config.train_seeds)) for _ in self._trials]

    def fitness(self, members: Sequence[F64], drawn: list[int]) -> tuple[list[float], dict[str, int]]:
        """Mean gain over the starting rule, per member."""
        scorers = [as_scorer(member, self._usual, self._gaps) for member in members]
        gains = self._gains(scorers, list(zip(self._trials, drawn, strict=True)))
        return [float(np.mean(row)) for row in gains], {}

    def validate(self, mean: F64) -> dict[str, float]:
        """Gain of one vector by scenario, on the validation seeds."""
        scorer = as_scorer(mean, self._usual, self._gaps)
        by_scenario = self._held_out(scorer, range(self._config.validation_seeds))
        return {name: float(np.mean(gains)) for name, gains in by_scenario.items()}

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """Gain of a checkpoint by scenario and seed, on the seeds after those."""
        config, scorer = self._config, LinearScorer(**tensors)
        return self._held_out(scorer, confirming(config.validation_seeds, config.confirm_seeds))

    def tensors(self, mean: F64) -> Arrays:
        return dict(linear_tensors(as_scorer(mean, self._usual, self._gaps)))

    def _held_out(self, scorer: LinearScorer, seeds: range) -> dict[str, F64]:
        cells = [(scenario, seed) for scenario in self._valid for seed in seeds]
        gains = np.array(self._gains([scorer], cells)[0]).reshape(len(self._valid), len(seeds))
        return {scenario.name: row for scenario, row in zip(self._valid, gains, strict=True)}

    def _gains(self, members: Sequence[LinearScorer], cells: Sequence[Cell]) -> list[list[float]]:
        missing = [cell for cell in cells if cell not in self._rule]
        for cell, value in zip(missing, self._run([(*cell, None) for cell in missing]), strict=True):
            self._rule[cell] = value
        if self._rater is not None:
            rated = self._rater(members, cells)
            return [
                [value - self._rule[cell] for value, cell in zip(row, cells, strict=True)] for row in rated
            ]
        values = iter(self._run([(*cell, member) for member in members for cell in cells]))
        return [[next(values) - self._rule[cell] for cell in cells] for _ in members]

    def _run(self, jobs: Sequence[tuple[PodScenario, int, LinearScorer | None]]) -> list[float]:
        futures = [
            self._pool.submit(run_candidate, scenario, seed, scorer, self._config.measure)
            for scenario, seed, scorer in jobs
        ]
        return [future.result() for future in futures]


def usual_demand(scenarios: Sequence[PodScenario]) -> F64:
    """The mean demand of the training scenarios: where the learned shifts are zero."""
    demands = [demand_context(compiled_workload(scenario, 0)) for scenario in scenarios]
    return np.asarray(np.mean(demands, axis=0), dtype=np.float64)


def run_candidate(scenario: PodScenario, seed: int, scorer: LinearScorer | None, measure: str) -> float:
    """One run in a worker process, of a scorer, or of the strongest rule where it is None; more is better."""
    work = compiled_workload(scenario, seed)
    policy: Any = make_policy(_rule_for(work))
    if scorer is not None:
        policy = RulePolicy(RuleOptions("candidate", LINEAR, ORDERED, linear=scorer))
    outcome = simulate(work, policy, scenario.options)
    if measure not in outcome.measures:
        raise UsageError(f"scenario {scenario.name} has no measure {measure!r}")
    value = outcome.measures[measure]
    return value if MEASURES[measure].better == "higher" else -value


def _rule_for(work: Compiled) -> str:
    return START_RULE if work.cluster.nodes.gpu_count.any() else WITHOUT_GPUS
