"""What an evolution strategy learns of windows: the weights of the scorer of moves.

One generation plays every member over the training part of the windows of some deployments, or of some
stretches of a recorded one: the same for all members, others in every generation. A member's cost is the
share of requests above the threshold or hit by contention, in percent, and a price for every migration;
migrations beyond nine tenths of those of the hotspot rule on the same windows cost far more, so that what is
learned is to move better and not to move more. Now and then the mean of the population is judged on
deployments and windows of its own; the best by that is kept. The windows of the test, which come last, are
never touched.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.es import check_search
from proreus.learning.judge import confirming
from proreus.learning.settings import at_least_one
from proreus.model.errors import UsageError
from proreus.worlds.rebalance.windows.encoding.moves import BASIC, FEATURES, FIRST_SIZE
from proreus.worlds.rebalance.windows.model import RequestWindows, part_of_windows
from proreus.worlds.rebalance.windows.play import play_windows
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.policies.columns import HOTSPOT, LEARNED
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, all_weights, balance_weights
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.simulation.columns import HIT, MOVES, OUTCOMES, OVER_REQUESTS, REQUESTS
from proreus.worlds.rebalance.windows.simulation.world import WindowsWorld


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
    confirm_seeds: int = 24
    """Deployments after those that say, at the end, how much better the best is than the start."""
    stretch: int = 288
    """Windows of a training run, from a random place of the training part on."""
    price: float = 0.1
    """What a migration costs: 1 is as much as all requests of one node in one window above the threshold."""
    migration_price: float = 0.0
    """Percent of all requests that one migration a window costs besides, whatever the number of nodes."""
    excess_price: float = 0.0
    """The same for migrations beyond the allowance."""
    allowance: float = 0.9
    """What a candidate may migrate before that price, as a share of what the hotspot rule migrates on the
    same windows: less than all, since later windows are not quite like those to train on."""
    evaluate_every: int = 5
    """Generations between judgements."""
    views: bool = True
    """Weigh also how likely nodes are to be too full; without them the weights are those of older runs."""
    start: str = "rule"
    """Where the search starts: from the balance rule, or from a run or a checkpoint."""
    seed: int = 0
    """Of the search; the same seed gives the same result."""

    BEFORE: ClassVar[Mapping[str, Any]] = {"views": False, "price": 0.0}

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "deployments", "train_seeds", "validation_seeds", "confirm_seeds", "stretch")
        if min(self.price, self.migration_price, self.excess_price, self.allowance) < 0:
            raise UsageError("neither a price nor the allowance is negative")


def starting_weights(config: MovesESConfig) -> F64:
    """float64[features] from which the search starts."""
    if config.start != "rule":
        policy = make_move_policy(config.start)
        if not isinstance(policy, MovePolicy) or policy.kind != LEARNED:
            raise UsageError(f"--start {config.start}: it has no weights to start from")
        return policy.weights
    return balance_weights() if config.views else all_weights(_relieving_weights())


def _relieving_weights() -> F64:
    """Moves that relieve nodes by the mean of the last hour, and are worth it by some margin."""
    weights = np.zeros(BASIC)
    weights[FEATURES.index("mean_relief")] = 1.0
    weights[FEATURES.index("mean_early_relief")] = 0.5
    weights[FEATURES.index("constant")] = -0.5
    return weights


Drawn = tuple[list[int], float]
"""Deployments by their seeds, and how far into the training part they are played."""


class WindowsGoal:
    """Plays weight vectors on workers, beside the hotspot rule on the same windows."""

    def __init__(self, config: MovesESConfig, scenarios: Sequence[WindowScenario], pool: Executor) -> None:
        self._config, self._pool = config, pool
        self._train = [scenario.of_part("train") for scenario in scenarios]
        self._valid = [scenario.of_part("valid") for scenario in scenarios]
        self._whole = starting_weights(config)
        # Views say what forecasts do, and are quicker to find: what the start makes of forecasts stays.
        self._searched = slice(FIRST_SIZE, None) if config.views else slice(0, BASIC)
        self.start = self._whole[self._searched].copy()

    def draw(self, random: np.random.Generator) -> Drawn:
        """Some of the deployments to train on, and a place of their windows."""
        count = min(self._config.deployments, self._config.train_seeds)
        seeds: list[int] = random.choice(self._config.train_seeds, count, replace=False).tolist()
        return seeds, float(random.random())

    def fitness(self, members: Sequence[F64], drawn: Drawn) -> tuple[list[float], dict[str, int]]:
        """Gain over the hotspot rule in cost, per member, mean over the scenarios."""
        shares = self._shares([self._with(one) for one in members], self._train, *drawn).mean(axis=2)
        return [float(row.mean()) for row in self._gains(shares)], {}

    def validate(self, mean: F64) -> dict[str, float]:
        """Gain by scenario on the validation windows."""
        shares = self._shares([self._with(mean)], self._valid, range(self._config.validation_seeds), None).mean(axis=2)
        return {
            scenario.name: float(gain)
            for scenario, gain in zip(self._valid, self._gains(shares)[0], strict=True)
        }

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """Gain by scenario and deployment, or stretch of a recorded one, after those."""
        seeds = confirming(self._config.validation_seeds, self._config.confirm_seeds)
        gains = self._gains(self._shares([all_weights(tensors["weights"])], self._valid, seeds, None))[0]
        return {scenario.name: row for scenario, row in zip(self._valid, gains, strict=True)}

    def tensors(self, mean: F64) -> Arrays:
        """The weights."""
        return {"weights": self._with(mean) if self._config.views else mean}

    def _with(self, searched: F64) -> F64:
        """[features]"""
        weights = self._whole.copy()
        weights[self._searched] = searched
        return weights

    def _shares(
        self,
        members: Sequence[F64],
        scenarios: Sequence[WindowScenario],
        seeds: Sequence[int],
        offset: float | None,
    ) -> F64:
        """[1 + members, scenarios, seeds, 3]: bad requests in %, migrations a window, and in % of the nodes,
        of the hotspot rule and of each member."""
        policies = [None, *members]
        for scenario in scenarios:  # here, before threads ask for the same at one time
            for seed in seeds:
                _windows(scenario, _key(scenario, seed))
        jobs = [
            self._pool.submit(play_stretch, self._config, scenario, seed, offset, policy)
            for policy in policies
            for scenario in scenarios
            for seed in seeds
        ]
        shares = np.array([job.result() for job in jobs])
        return shares.reshape(len(policies), len(scenarios), len(seeds), 3)

    def _gains(self, shares: F64) -> F64:
        """[members, ...] cost of the hotspot rule minus that of each member; shares: [1 + members, .., 3]."""
        bad, moves = shares[..., 0], shares[..., 1]
        excess = np.maximum(moves - self._config.allowance * moves[:1], 0.0)
        excess[0] = 0.0  # of the rule itself
        cost = bad + self._config.migration_price * moves + self._config.price * shares[..., 2]
        cost += self._config.excess_price * excess
        gains: F64 = cost[:1] - cost[1:]
        return gains


def play_stretch(
    config: MovesESConfig, scenario: WindowScenario, seed: int, offset: float | None, weights: F64 | None
) -> tuple[float, float, float]:
    """(% of requests above the threshold or hit, migrations a window, and in % of the nodes) of one member, wherever it is played;
    of the hotspot rule where there are no weights."""
    policy = MovePolicy("hotspot", HOTSPOT)
    if weights is not None:  # what comes through Ray is read-only, which kernels are not compiled for
        policy = MovePolicy("candidate", LEARNED, weights=weights.copy())
    world = _own_world(scenario, _key(scenario, seed))
    first, last = _stretch(config, scenario, world.windows.windows, seed, offset)
    world.begin(first, last)
    outcomes = np.zeros((last - first, OUTCOMES))
    play_windows(world.stream, world.run, policy.new_rule(), outcomes)
    total = outcomes.sum(axis=0)
    bad = (total[OVER_REQUESTS] + total[HIT]) / max(total[REQUESTS], 1.0)
    moves = total[MOVES] / (last - first)
    return float(100.0 * bad), float(moves), float(100.0 * moves / world.hosting.pods.size)


def _stretch(
    config: MovesESConfig, scenario: WindowScenario, windows: int, seed: int, offset: float | None
) -> tuple[int, int]:
    """[first, last) window of a run; offset: how far into the training part, None to judge."""
    first, last = part_of_windows(scenario.part, windows)
    if offset is None:
        if not scenario.file:
            return first, last
        # Of a recorded deployment the seeds are stretches: those to choose on cover the first two thirds.
        border, chosen_on = last - (last - first) // 3, config.validation_seeds
        if seed < chosen_on:
            return _piece(first, border, seed, chosen_on)
        return _piece(border, last, seed - chosen_on, config.confirm_seeds)
    room = last - first - config.stretch
    if room <= 0:
        return first, last
    # Recorded windows are the same for every seed: there, seeds are places.
    shift = seed / config.train_seeds if scenario.file else 0.0
    first += int((offset + shift) % 1.0 * room)
    return first, first + config.stretch


def _piece(first: int, last: int, place: int, pieces: int) -> tuple[int, int]:
    """One of so many pieces of a range, which cover it together."""
    return first + (last - first) * place // pieces, first + (last - first) * (place + 1) // pieces


def _key(scenario: WindowScenario, seed: int) -> int:
    """Recorded windows are loaded once, whatever the seed."""
    return 0 if scenario.file else seed


@lru_cache(maxsize=256)
def _windows(scenario: WindowScenario, seed: int) -> RequestWindows:
    return scenario.windows(seed)


_OF_THREAD = threading.local()
"""Worlds to play in: threads share the windows, not these."""


def _own_world(scenario: WindowScenario, seed: int) -> WindowsWorld:
    known: dict[tuple[WindowScenario, int], WindowsWorld] = _OF_THREAD.__dict__.setdefault("worlds", {})
    if (scenario, seed) not in known:
        known[scenario, seed] = WindowsWorld(_windows(scenario, seed), scenario.options)
    return known[scenario, seed]
