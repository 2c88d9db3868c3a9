"""Evolution strategy for moves between windows: CMA-ES over the weights of the scorer of moves.

One generation plays every member over the training part of the windows of some deployments, or of some
stretches of a recorded one: the same for all members, others in every generation. A member's cost is the
share of requests above the threshold or hit by contention, in percent, and a price for every migration;
migrations beyond nine tenths of those of the hotspot rule on the same windows cost far more, so that what is
learned is to move better and not to move more. Now and then the mean of the population is judged on
deployments and windows of its own; the best by that is kept. The windows of the test, which come last, are
never touched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError, WorkError
from proreus.workers.threads import Threads
from proreus.worlds.rebalance.windows.encoding import FEATURES
from proreus.worlds.rebalance.windows.model import part_of_windows
from proreus.worlds.rebalance.windows.play import play_windows
from proreus.worlds.rebalance.windows.policies.columns import HOTSPOT, LEARNED
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.simulation.columns import HIT, MOVES, OUTCOMES, OVER_REQUESTS, REQUESTS
from proreus.worlds.rebalance.windows.simulation.world import DeployWorld


@dataclass(frozen=True)
class MovesESConfig:
    """Settings of the evolution strategy."""

    generations: int = 100
    """How many populations to try."""
    population: int = 16
    """Weight vectors per generation."""
    sigma: float = 0.3
    """Width of the first population."""
    deployments: int = 3
    """Deployments per scenario and generation, of those to train on."""
    train_seeds: int = 24
    """How many deployments there are to train on, per scenario."""
    validation_seeds: int = 8
    """Deployments on which the mean is judged, per scenario."""
    stretch: int = 288
    """Windows of a training run, from a random place of the training part on."""
    migration_price: float = 0.5
    """Percent of requests that one migration a window is worth."""
    excess_price: float = 40.0
    """The same for migrations beyond the allowance."""
    allowance: float = 0.9
    """What a candidate may migrate before that price, as a share of what the hotspot rule migrates on the
    same windows: less than all, since later windows are not quite like those to train on."""
    evaluate_every: int = 5
    """Generations between judgements."""
    seed: int = 0
    """Of the search; the same seed gives the same result."""

    def __post_init__(self) -> None:
        counts = ("generations", "population", "deployments", "train_seeds", "validation_seeds", "stretch")
        for name in (*counts, "evaluate_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is not at least 1")
        if not 0 < self.sigma < np.inf:
            raise UsageError(f"sigma: {self.sigma} is not above 0")
        if min(self.migration_price, self.excess_price, self.allowance) < 0:
            raise UsageError("neither a price nor the allowance is negative")


@dataclass(frozen=True)
class MovesGeneration:
    """What one generation came to."""

    number: int
    fitness: tuple[float, ...]
    """Gain over the hotspot rule in cost, per member, mean over the scenarios."""
    sigma: float
    validation: dict[str, float] | None
    """The same for the mean of the search distribution, by scenario, where it was judged."""
    weights: F64
    """The mean of the search distribution."""
    seconds: float


def starting_point() -> F64:
    """Moves that relieve nodes by the mean of the last hour, and are worth it by some margin."""
    weights = np.zeros(len(FEATURES))
    weights[FEATURES.index("mean_relief")] = 1.0
    weights[FEATURES.index("mean_early_relief")] = 0.5
    weights[FEATURES.index("constant")] = -0.5
    return weights


def evolve_moves(
    config: MovesESConfig,
    scenarios: Sequence[WindowScenario],
    threads: Threads,
    past: Sequence[Sequence[float]] = (),
) -> Iterator[MovesGeneration]:
    """Generation after generation; `past` holds the fitness of those that are not to be run again."""
    from cmaes import CMA  # with the extra `learn`; the settings above are for everybody

    search = CMA(
        mean=starting_point(), sigma=config.sigma, population_size=config.population, seed=config.seed
    )
    draw = np.random.default_rng(config.seed)
    arena = _Arena(config, scenarios, threads)
    for number in range(config.generations):
        begin = time.perf_counter()
        members = [search.ask() for _ in range(config.population)]
        seeds = draw.choice(config.train_seeds, min(config.deployments, config.train_seeds), replace=False)
        offset = float(draw.random())
        known = number < len(past)
        fitness = list(past[number]) if known else arena.fitness(members, seeds.tolist(), offset)
        if not np.isfinite(fitness).all():
            raise WorkError(f"generation {number}: a fitness is not a number")
        search.tell([(member, -value) for member, value in zip(members, fitness, strict=True)])
        if known:
            continue
        mean = np.asarray(search.mean, dtype=np.float64)
        judged = (number + 1) % config.evaluate_every == 0 or number + 1 == config.generations
        yield MovesGeneration(
            number=number,
            fitness=tuple(fitness),
            sigma=float(search._sigma),
            validation=arena.validate(mean) if judged else None,
            weights=mean,
            seconds=time.perf_counter() - begin,
        )


class _Arena:
    """Plays weight vectors on threads, every job in a world of its own."""

    def __init__(self, config: MovesESConfig, scenarios: Sequence[WindowScenario], threads: Threads) -> None:
        self._config, self._threads = config, threads
        self._train = [replace(scenario, part="train") for scenario in scenarios]
        self._valid = [replace(scenario, part="valid") for scenario in scenarios]
        self._worlds: dict[tuple[str, str, int], list[DeployWorld]] = {}

    def fitness(self, members: Sequence[F64], seeds: Sequence[int], offset: float) -> list[float]:
        """Gain over the hotspot rule, per member."""
        return [float(row.mean()) for row in self._gains(members, self._train, seeds, offset)]

    def validate(self, weights: F64) -> dict[str, float]:
        """Gain by scenario on the validation windows."""
        seeds = range(self._config.validation_seeds)
        gains = self._gains([weights], self._valid, list(seeds), None)[0]
        return {scenario.name: float(gain) for scenario, gain in zip(self._valid, gains, strict=True)}

    def _gains(
        self,
        members: Sequence[F64],
        scenarios: Sequence[WindowScenario],
        seeds: Sequence[int],
        offset: float | None,
    ) -> F64:
        """[members, scenarios] what the hotspot rule costs, less what the member costs."""
        rule = MovePolicy("hotspot", HOTSPOT)
        policies = [rule, *(MovePolicy("candidate", LEARNED, weights=member) for member in members)]
        jobs = [(s, seed) for s in range(len(scenarios)) for seed in seeds]
        for s, seed in jobs:
            self._prepare(scenarios[s], seed)
        # [policies, scenarios, 3] bad requests and migrations a window, summed over the seeds
        shares = np.zeros((len(policies), len(jobs), 2))

        def play(thread: int, number: int) -> None:
            job, which = divmod(number, len(policies))
            s, seed = jobs[job]
            world = self._worlds[_world_key(scenarios[s], seed)][thread]
            first, last = self._windows_of(scenarios[s], world, seed, offset)
            world.begin(first, last)
            outcomes = np.zeros((last - first, OUTCOMES))
            play_windows(world.stream, world.run, policies[which].new_rule(), outcomes)
            total = outcomes.sum(axis=0)
            bad = (total[OVER_REQUESTS] + total[HIT]) / max(total[REQUESTS], 1.0)
            shares[which, job] = 100.0 * bad, total[MOVES] / (last - first)

        self._threads.each(play, len(jobs) * len(policies))
        means = shares.reshape(len(policies), len(scenarios), len(seeds), 2).mean(axis=2)
        excess = np.maximum(means[:, :, 1] - self._config.allowance * means[:1, :, 1], 0.0)
        excess[0] = 0.0  # of the rule itself
        cost = means[:, :, 0] + self._config.migration_price * means[:, :, 1]
        cost += self._config.excess_price * excess
        gains: F64 = cost[:1] - cost[1:]
        return gains

    def _windows_of(
        self, scenario: WindowScenario, world: DeployWorld, seed: int, offset: float | None
    ) -> tuple[int, int]:
        """[first, last) window of a run; offset: how far into the training part, None to judge."""
        first, last = part_of_windows(scenario.part, world.windows.windows)
        if offset is None:
            if not scenario.file:
                return first, last
            pieces = self._config.validation_seeds  # of the part, which the seeds cover together
            return first + (last - first) * seed // pieces, first + (last - first) * (seed + 1) // pieces
        room = last - first - self._config.stretch
        if room <= 0:
            return first, last
        # Recorded windows are the same for every seed: there, seeds are places.
        shift = seed / self._config.train_seeds if scenario.file else 0.0
        first += int((offset + shift) % 1.0 * room)
        return first, first + self._config.stretch

    def _prepare(self, scenario: WindowScenario, seed: int) -> None:
        key = _world_key(scenario, seed)
        if key not in self._worlds:
            windows = scenario.windows(seed)
            self._worlds[key] = [DeployWorld(windows, scenario.options) for _ in range(self._threads.count)]


def _world_key(scenario: WindowScenario, seed: int) -> tuple[str, str, int]:
    """Recorded windows are loaded once, whatever the seed."""
    return scenario.name, scenario.part, 0 if scenario.file else seed
