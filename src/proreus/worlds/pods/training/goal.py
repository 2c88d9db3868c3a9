"""Evolution strategy: CMA-ES over the weights of a linear scorer, started from the best rule.

One generation: draw a population of weight vectors, run each over every training scenario with a seed
that is the same for all of them and new in every generation (common random numbers), rank them by how
much more they allocate than the rule they started from, and update the search distribution. Every few
generations its mean is judged on validation seeds that training never sees; the best mean is kept.

Resuming replays the journal's fitness values through the same generator, which leads to the same
distribution bit for bit, and goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError, WorkError
from proreus.worlds.pods.encoding.pair import (
    DEMAND_FIGURES,
    FGD_SCORE,
    ORDER,
    PAIR_FEATURES,
    POD_KINDS,
    demand_context,
)
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.rules.columns import LINEAR, ORDERED
from proreus.worlds.pods.policies.rules.policy import LinearScorer, RuleOptions, RulePolicy
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.training.judge import compiled_workload

START_RULE = "fgd"
_KINDS, _FEATURES = len(POD_KINDS), len(PAIR_FEATURES)


@dataclass(frozen=True)
class ESConfig:
    """Settings of the evolution strategy."""

    generations: int = 40
    """How many populations to try."""
    population: int = 16
    """Weight vectors per generation."""
    sigma: float = 0.3
    """Width of the first population around the starting rule."""
    by_demand: bool = False
    """Also learn how the weights shift with what the workload asks of the cluster."""
    train_seeds: int = 10
    """How many seeds training draws from (1000, 1001, ...)."""
    validation_seeds: int = 4
    """How many seeds the mean is judged on while training (2000, 2001, ...)."""
    evaluate_every: int = 5
    """Generations between judgements."""
    measure: str = "gpu_allocation_peak"
    """What to maximise."""
    seed: int = 0
    """Of the search; the same seed gives the same result."""

    def __post_init__(self) -> None:
        for name in ("generations", "population", "train_seeds", "validation_seeds", "evaluate_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is not at least 1")
        if not 0 < self.sigma < np.inf:
            raise UsageError(f"sigma: {self.sigma} is not above 0")


@dataclass(frozen=True)
class Generation:
    """What one generation came to."""

    number: int
    fitness: tuple[float, ...]
    """Gain over the starting rule, per member, mean over the scenarios."""
    sigma: float
    validation: dict[str, float] | None
    """Gain of the mean over the starting rule on the validation seeds, by scenario, where it was judged."""
    scorer: LinearScorer
    """The mean of the search distribution."""
    seconds: float


def starting_point(config: ESConfig) -> F64:
    """The starting rule as weights: its score, and node order among equals."""
    weights = np.zeros((_KINDS, _FEATURES))
    weights[:, FGD_SCORE] = 10.0
    weights[:, ORDER] = 0.01
    extra = len(DEMAND_FIGURES) * _KINDS * _FEATURES if config.by_demand else 0
    return np.concatenate([weights.ravel(), np.zeros(extra)])


def as_scorer(vector: F64, usual: F64) -> LinearScorer:
    """A search vector as a scorer; `usual` is the demand at which nothing is shifted."""
    size = _KINDS * _FEATURES
    shape = (len(DEMAND_FIGURES), _KINDS, _FEATURES)
    by_demand = vector[size:].reshape(shape) if vector.size > size else np.zeros(shape)
    return LinearScorer(vector[:size].reshape(_KINDS, _FEATURES), by_demand, usual)


def evolve(
    config: ESConfig,
    scenarios: Sequence[Scenario],
    pool: Executor,
    past: Sequence[Sequence[float]] = (),
) -> Iterator[Generation]:
    """Generation after generation; `past` holds the fitness values of those that are not to be run again."""
    from cmaes import CMA  # with the extra `learn`; the settings above are for everybody

    search = CMA(
        mean=starting_point(config), sigma=config.sigma, population_size=config.population, seed=config.seed
    )
    draw = np.random.default_rng(config.seed)
    usual = _usual_demand(scenarios)
    evaluator = _Evaluator(pool, scenarios, config, usual)
    for number in range(config.generations):
        begin = time.perf_counter()
        members = [search.ask() for _ in range(config.population)]
        seeds = [int(1000 + draw.integers(config.train_seeds)) for _ in scenarios]
        known = number < len(past)
        fitness = list(past[number]) if known else evaluator.fitness(members, seeds)
        if not np.isfinite(fitness).all():
            raise WorkError(
                f"generation {number}: a fitness is not a number; the run can be resumed before it"
            )
        search.tell([(member, -value) for member, value in zip(members, fitness, strict=True)])
        if known:
            continue
        mean = np.asarray(search.mean, dtype=np.float64)
        judged = (number + 1) % config.evaluate_every == 0 or number + 1 == config.generations
        yield Generation(
            number=number,
            fitness=tuple(fitness),
            sigma=float(search._sigma),
            validation=evaluator.validate(mean) if judged else None,
            scorer=as_scorer(mean, usual),
            seconds=time.perf_counter() - begin,
        )


class _Evaluator:
    """Runs weight vectors on workers and compares them with the starting rule."""

    def __init__(self, pool: Executor, scenarios: Sequence[Scenario], config: ESConfig, usual: F64) -> None:
        self._pool, self._scenarios, self._config, self._usual = pool, scenarios, config, usual
        self._rule: dict[tuple[int, int], float] = {}

    def fitness(self, members: Sequence[F64], seeds: Sequence[int]) -> list[float]:
        """Mean gain over the starting rule, per member."""
        cells = list(enumerate(seeds))
        gains = self._gains(members, cells)
        return [float(np.mean(row)) for row in gains]

    def validate(self, mean: F64) -> dict[str, float]:
        """Gain of one vector by scenario, on the validation seeds."""
        count = self._config.validation_seeds
        cells = [(s, 2000 + k) for s in range(len(self._scenarios)) for k in range(count)]
        gains = self._gains([mean], cells)[0]
        return {
            scenario.name: float(np.mean(gains[s * count : (s + 1) * count]))
            for s, scenario in enumerate(self._scenarios)
        }

    def _gains(self, members: Sequence[F64], cells: Sequence[tuple[int, int]]) -> list[list[float]]:
        missing = [cell for cell in cells if cell not in self._rule]
        for cell, value in zip(missing, self._run([(*cell, None) for cell in missing]), strict=True):
            self._rule[cell] = value
        values = iter(self._run([(*cell, member) for member in members for cell in cells]))
        return [[next(values) - self._rule[cell] for cell in cells] for _ in members]

    def _run(self, jobs: Sequence[tuple[int, int, F64 | None]]) -> list[float]:
        measure = self._config.measure
        futures = [
            self._pool.submit(
                run_candidate,
                self._scenarios[s],
                seed,
                None if vector is None else as_scorer(vector, self._usual),
                measure,
            )
            for s, seed, vector in jobs
        ]
        return [future.result() for future in futures]


def _usual_demand(scenarios: Sequence[Scenario]) -> F64:
    """The mean demand of the training scenarios: where the learned shifts are zero."""
    demands = [demand_context(compiled_workload(scenario, 1000)) for scenario in scenarios]
    return np.asarray(np.mean(demands, axis=0), dtype=np.float64)


def run_candidate(scenario: Scenario, seed: int, scorer: LinearScorer | None, measure: str) -> float:
    """One run in a worker process: a scorer, or the starting rule where it is None."""
    policy: Any = make_policy(START_RULE)
    if scorer is not None:
        policy = RulePolicy(RuleOptions("candidate", LINEAR, ORDERED, linear=scorer))
    outcome = simulate(compiled_workload(scenario, seed), policy, scenario.options)
    if measure not in outcome.measures:
        raise UsageError(f"scenario {scenario.name} has no measure {measure!r}")
    return outcome.measures[measure]
