"""What the search for a reserve asks: the fluid model says how good members are, the simulator judges them.

The fluid model plays an episode in a millisecond, so that a generation rests on hundreds of them and single
bad ones do not decide. What it cannot know, how requests are batched and routed, is judged where nobody
trains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.es import check_search
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.policies.catalogue import AnyPolicy
from proreus.worlds.inference.encoding.load_history import SIZE
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.reserve import (
    BESIDE,
    FALL,
    FIGURES,
    HOLD,
    INPUTS,
    LOSS,
    RISE,
    THREE,
    USE,
    ReserveNet,
)
from proreus.worlds.inference.policies.reserve_controller import Reserve
from proreus.worlds.inference.policies.reserve_weights import (
    BIAS,
    FIRST_FIGURES,
    WEIGHT,
    net_of,
    packed,
    raised,
)
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.state.quantile_forecast import LoadForecaster, tensors_of
from proreus.worlds.inference.training.fluid_curriculum import (
    FluidEpisode,
    drawn_episodes,
    fluid_of,
    played,
)

_STEP = 0.5
"""Of a weight, in one of a vector."""
_DECAY = 1e-4
_MEAN, _EACH = 0.6, 0.4
"""What the mean of a group counts, in which the worst decide, and that of its episodes' logarithms."""
_BEHIND, _AHEAD = 2.0, 0.05
"""What it costs besides not to be so far ahead of the rule that is best in a scenario."""
_OF_DRAWN = 0.3
"""What a drawn family counts where a scenario counts one."""
_NOISE, _OFF, _SLOPE, _STARTS, _LEVEL = 10, 11, 9, 16, SIZE
_DEPENDS: dict[int, tuple[int, ...]] = {
    RISE: tuple(range(INPUTS)),
    FALL: tuple(range(INPUTS)),
    BESIDE: tuple(range(INPUTS)),
    USE: (_LEVEL, _NOISE),
    HOLD: (_OFF, _STARTS, _SLOPE),
    THREE: (_OFF, _STARTS, _SLOPE),
    LOSS: (_LEVEL,),
}
_PLACES = [(row, column) for row, columns in _DEPENDS.items() for column in columns]
VECTOR = len(FIGURES) + len(_PLACES)


@dataclass(frozen=True)
class ReserveConfig:
    """Settings of the search."""

    generations: int = 240
    """How many populations to try."""
    population: int = 22
    """Networks per generation."""
    sigma: float = 0.3
    """Width of the first population."""
    traces: int = 40
    """Runs of each scenario that episodes are drawn from."""
    drawn: int = 1_600
    """Loads by chance that episodes are drawn from."""
    episodes: int = 72
    """Of scenarios, a generation."""
    drawn_episodes: int = 160
    """Of loads by chance, a generation; 0: none."""
    forecast_series: int = 24_000
    """Loads that the forecast is fitted to; 0: that of what ships."""
    validation_runs: int = 6
    """Runs of each scenario by which the mean is judged, in the simulator."""
    confirm_runs: int = 12
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 20
    """Generations between judgements."""
    seed: int = 1
    """Of the search."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "traces", "drawn", "episodes", "validation_runs", "confirm_runs")


def vector_parts(vector: F64) -> tuple[F64, F64]:
    """(weights [figures, inputs], biases) at a vector."""
    weight = np.zeros((len(FIGURES), INPUTS))
    for (row, column), value in zip(_PLACES, vector[len(FIGURES) :].tolist(), strict=True):
        weight[row, column] = _STEP * value
    return weight, raised(FIRST_FIGURES) + vector[: len(FIGURES)]


def vector_of(tensors: Arrays) -> F64:
    """The vector at which a checkpoint stands."""
    weight, bias = tensors[WEIGHT].astype(np.float64), tensors[BIAS].astype(np.float64)
    places = [weight[row, column] / _STEP for row, column in _PLACES]
    return np.concatenate([bias - raised(FIRST_FIGURES), np.array(places)])


class ReserveGoal:
    """Rates members in threads: the kernel lets go of the lock."""

    def __init__(
        self,
        scenarios: Sequence[InferenceScenario],
        config: ReserveConfig,
        pool: Executor,
        forecaster: LoadForecaster,
    ) -> None:
        self._scenarios, self._config, self._pool, self._forecaster = scenarios, config, pool, forecaster
        self._of_rules: dict[tuple[InferenceScenario, int, str], float] = {}
        self._own = [
            episode for scenario in scenarios for episode in self._episodes(scenario.of_part("train"))
        ]
        drawn = drawn_episodes(config.drawn, 100 + config.seed) if config.drawn_episodes else []
        begin = self._net(self.start)
        self._drawn = [replace(episode, against=played(begin, episode)[0]) for episode in drawn]

    def _episodes(self, scenario: InferenceScenario) -> list[FluidEpisode]:
        """Of a scenario, each against the rule that is best over all of them."""
        seeds = range(self._config.traces)
        episodes = [fluid_of(scenario, seed) for seed in seeds]
        return [
            replace(episode, against=hours * 3_600.0 / episode.gpus)
            for episode, hours in zip(episodes, self._best_rule(scenario, seeds).tolist(), strict=True)
        ]

    @property
    def start(self) -> F64:
        """The same figures whatever is seen."""
        return np.zeros(VECTOR)

    def _net(self, vector: F64) -> ReserveNet:
        return packed(self._forecaster, *vector_parts(vector))

    def draw(self, random: np.random.Generator) -> list[FluidEpisode]:
        """Episodes of this generation."""
        own = random.permutation(len(self._own))[: self._config.episodes]
        drawn = random.permutation(len(self._drawn))[: self._config.drawn_episodes]
        return [*(self._own[place] for place in own), *(self._drawn[place] for place in drawn)]

    def fitness(
        self, members: Sequence[F64], drawn: list[FluidEpisode]
    ) -> tuple[list[float], dict[str, int]]:
        """Minus the logarithm of what is paid, in what the best rule pays in a scenario, and in what the
        start pays for a drawn load; and the episodes."""
        jobs = [self._pool.submit(self._rated, member, drawn) for member in members]
        return [job.result() for job in jobs], {"episodes": len(drawn) * len(members)}

    def _rated(self, member: F64, drawn: Sequence[FluidEpisode]) -> float:
        net = self._net(member)
        groups: dict[str, list[tuple[float, float]]] = {}
        for episode in drawn:
            groups.setdefault(episode.group, []).append((played(net, episode)[0], episode.against))
        named = {scenario.name for scenario in self._scenarios}
        total, weights = 0.0, 0.0
        for group, costs in groups.items():
            ours, other = np.array(costs).T
            gap = math.log(ours.mean() / other.mean())
            cost = _MEAN * gap + _EACH * float(np.log(ours / other).mean())
            if group in named:
                cost += _BEHIND * max(gap + _AHEAD, 0.0)
            weight = 1.0 if group in named else _OF_DRAWN
            total, weights = total + weight * cost, weights + weight
        return -total / weights - _DECAY * float(member @ member) / len(member)

    def validate(self, mean: F64) -> dict[str, float]:
        """% fewer weighed GPU-hours than the best rule by scenario, in runs of the simulator."""
        gains = self._gains(self._net(mean), range(self._config.validation_runs))
        return {name: float(np.mean(gain)) for name, gain in gains.items()}

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """The same of a checkpoint, for each of the runs on which nothing is chosen."""
        seeds = confirming(self._config.validation_runs, self._config.confirm_runs)
        return self._gains(net_of(tensors), seeds)

    def tensors(self, mean: F64) -> Arrays:
        """The forecast's, and those that set the figures."""
        weight, bias = vector_parts(mean)
        return {
            **tensors_of(self._forecaster),
            WEIGHT: weight.astype(np.float32),
            BIAS: bias.astype(np.float32),
        }

    def _gains(self, net: ReserveNet, seeds: range) -> dict[str, F64]:
        """By scenario and run; the rule is that of the least mean over the runs."""
        gains: dict[str, F64] = {}
        for scenario in (scenario.of_part("valid") for scenario in self._scenarios):
            ours = np.array([_cost(scenario, seed, Reserve("candidate", net)) for seed in seeds])
            best = self._best_rule(scenario, seeds)
            gains[scenario.name] = 100.0 * (best - ours) / best.mean()
        return gains

    def _best_rule(self, scenario: InferenceScenario, seeds: range) -> F64:
        """[seeds] weighed GPU-hours of the rule of the least mean."""
        rules = np.array(
            [[self._of_rule(scenario, seed, rule) for seed in seeds] for rule in scenario.yardstick()[1]]
        )
        return np.asarray(rules[int(np.argmin(rules.mean(axis=1)))])

    def _of_rule(self, scenario: InferenceScenario, seed: int, rule: str) -> float:
        key = (scenario, seed, rule)
        if key not in self._of_rules:
            self._of_rules[key] = _cost(scenario, seed, POLICIES.make(rule))
        return self._of_rules[key]


def _cost(scenario: InferenceScenario, seed: int, policy: AnyPolicy) -> float:
    return float(play(scenario, scenario.load(seed), policy, seed).measures["weighed_gpu_hours"])
