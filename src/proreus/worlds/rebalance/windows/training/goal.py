"""What an evolution strategy learns of windows: the weights of the scorer of moves.

One generation plays every member over the training part of the windows of some deployments, or of some
stretches of a recorded one: the same for all members, others in every generation. A member's cost is the
share of requests above the threshold or hit by contention, in percent, and a price for every migration, by
which what is learned moves more or less. Older runs have a steep price beyond nine tenths of the migrations
of the hotspot rule instead. Now and then the mean of the population is judged, beside the best rule, on
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
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.model.errors import UsageError
from proreus.worlds.rebalance.windows.encoding.moves import BASIC, FEATURES, FIRST_SIZE
from proreus.worlds.rebalance.windows.model import RequestWindows, part_of_windows
from proreus.worlds.rebalance.windows.play import play_windows
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.policies.columns import BALANCE, HOTSPOT, LEARNED
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, all_weights, balance_weights
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.simulation.columns import HIT, MOVES, OUTCOMES, OVER_REQUESTS, REQUESTS
from proreus.worlds.rebalance.windows.simulation.world import WindowsWorld
from proreus.worlds.rebalance.windows.training.demand import expert_weights


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
    """Where the search starts: from the balance rule, `learned` (as it is for the first scenario), or from a
    run or a checkpoint."""
    seed: int = 0
    """Of the search; the same seed gives the same result."""

    BEFORE: ClassVar[Mapping[str, Any]] = {"views": False, "price": 0.0}

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "deployments", "train_seeds", "validation_seeds", "confirm_seeds", "stretch")
        if min(self.price, self.migration_price, self.excess_price, self.allowance) < 0:
            raise UsageError("neither a price nor the allowance is negative")


def starting_weights(config: MovesESConfig, scenario: WindowScenario) -> F64:
    """float64[features] from which the search starts; of a policy that adapts, those for the scenario."""
    if config.start != "rule":
        policy = make_move_policy(config.start)
        weights = None
        if isinstance(policy, MovePolicy):
            weights = policy.weights if policy.kind == LEARNED else expert_weights(policy, scenario)
        if weights is None:
            raise UsageError(f"--start {config.start}: it has no weights to start from")
        return weights
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
        # Runs from before there were views go on as they began, against hotspot alone.
        self._rules = RIVALS if config.views else (_HOTSPOT,)
        self._whole = starting_weights(config, scenarios[0])
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
        seeds, offset = drawn
        policies = [_HOTSPOT, *(_scorer(self._with(member)) for member in members)]
        cost = self._cost(self._played(policies, self._train, seeds, offset).mean(axis=2))
        return [float(row.mean()) for row in cost[:1] - cost[1:]], {}

    def validate(self, mean: F64) -> dict[str, float]:
        """Gain by scenario on the validation windows, over the rule that costs least there."""
        return self.gains(_scorer(self._with(mean)))

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """Gain by scenario and deployment, or stretch of a recorded one, after those."""
        return self.confirmed_gains(_scorer(all_weights(tensors["weights"])))

    def gains(self, policy: MovePolicy) -> dict[str, float]:
        """Of any policy, as `validate` judges."""
        policies, seeds = [*self._rules, policy], range(self._config.validation_seeds)
        cost = self._cost(self._played(policies, self._valid, seeds, None).mean(axis=2))
        gains = (cost[:-1].min(axis=0) - cost[-1]).tolist()
        return {scenario.name: gain for scenario, gain in zip(self._valid, gains, strict=True)}

    def confirmed_gains(self, policy: MovePolicy) -> dict[str, F64]:
        """Of any policy, as `confirm` judges."""
        policies = [*self._rules, policy]
        seeds = confirming(self._config.validation_seeds, self._config.confirm_seeds)
        cost = self._cost(self._played(policies, self._valid, seeds, None))
        return {
            scenario.name: rules[int(rules.mean(axis=1).argmin())] - own
            for scenario, rules, own in zip(self._valid, cost[:-1].swapaxes(0, 1), cost[-1], strict=True)
        }

    def tensors(self, mean: F64) -> Arrays:
        return {"weights": self._with(mean) if self._config.views else mean}

    def _with(self, searched: F64) -> F64:
        """[features]"""
        weights = self._whole.copy()
        weights[self._searched] = searched
        return weights

    def _played(
        self,
        policies: Sequence[MovePolicy],
        scenarios: Sequence[WindowScenario],
        seeds: Sequence[int],
        offset: float | None,
    ) -> F64:
        """[policies, scenarios, seeds, 3]: see `play_stretch`."""
        for scenario in scenarios:  # here, before threads ask for the same at one time
            for seed in seeds:
                _windows(scenario, _key(scenario, seed))
        jobs = [
            self._pool.submit(play_stretch, self._config, scenario, seed, offset, policy)
            for policy in policies
            for scenario in scenarios
            for seed in seeds
        ]
        outcomes = np.array([job.result() for job in jobs])
        return outcomes.reshape(len(policies), len(scenarios), len(seeds), 3)

    def _cost(self, played: F64) -> F64:
        """[policies, ...]: what each costs; played [policies, .., 3], the hotspot rule first."""
        config, bad, moves = self._config, played[..., 0], played[..., 1]
        excess = np.maximum(moves - config.allowance * moves[:1], 0.0)
        excess[0] = 0.0  # of the rule itself
        cost: F64 = bad + config.migration_price * moves
        cost += config.excess_price * excess
        return cost + config.price * played[..., 2]


_HOTSPOT = MovePolicy("hotspot", HOTSPOT)
RIVALS = (
    _HOTSPOT,
    *(MovePolicy(f"hotspot@{level}", HOTSPOT, level=level) for level in (0.7, 0.6, 0.5)),
    MovePolicy("balance", BALANCE),
)
"""Rules to be ahead of."""


def _scorer(weights: F64) -> MovePolicy:
    return MovePolicy("candidate", LEARNED, weights=weights)


def play_stretch(
    config: MovesESConfig, scenario: WindowScenario, seed: int, offset: float | None, policy: MovePolicy
) -> tuple[float, float, float]:
    """(% of requests above the threshold or hit, migrations a window, and those in % of the nodes) of one
    policy, wherever it is played."""
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
