"""What the search for a reserve asks: the fluid model says how good members are, the simulator judges them.

The fluid model plays an episode in a millisecond, so that a generation rests on hundreds of them and single
bad ones do not decide. It is fitted to each scenario by what rules came to there. What it cannot know, how
requests are batched and routed, is judged where nobody trains.

Three kinds of episodes: those of scenarios, held against the rule that is best there, which also says how
many promises are to be kept; parts of recordings and of whole days, warped; and loads by chance. The last two
are held against the start of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.es import check_search
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.worlds.inference.encoding.load_history import SIZE
from proreus.worlds.inference.policies.reserve import (
    BESIDE,
    FALL,
    FIGURES,
    HOLD,
    INPUTS,
    LEAN,
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
from proreus.worlds.inference.training.fluid_calibration import SimulatedRun, fitted_speed
from proreus.worlds.inference.training.fluid_curriculum import (
    FluidEpisode,
    drawn_episodes,
    fluid_of,
    foreseen,
    is_long,
    played,
    warped_parts,
)
from proreus.worlds.inference.training.member_fitness import Rated, fitness_of
from proreus.worlds.inference.training.simulated_runs import RuleRuns, simulated_runs

_STEP = 0.15
"""Of a weight, in one of a vector."""
_DECAY = 1e-4
_FITTED_ON, _COMPARED_ON = 24, 28
"""Runs of a scenario to which the fluid model is fitted, and by which rules are compared; the best of them is
played in all."""
WHOLE, _NOISE, _OFF, _SLOPE, _STARTS, _LEVEL, POOLS, MODELS = 6, 10, 11, 9, 16, SIZE, SIZE + 3, SIZE + 4
BELOW, ABOVE, TIMES, KNOWN = SIZE + 5, SIZE + 6, SIZE + 7, 17
_DEPENDS: dict[int, tuple[int, ...]] = {
    RISE: tuple(range(INPUTS)),
    FALL: tuple(range(INPUTS)),
    BESIDE: tuple(range(INPUTS)),
    USE: (_LEVEL, _NOISE, POOLS),
    HOLD: (_OFF, _STARTS, _SLOPE, POOLS, BELOW),
    THREE: (_OFF, _STARTS, _SLOPE),
    LOSS: (_LEVEL,),
    LEAN: (WHOLE, KNOWN, POOLS, MODELS, BELOW, ABOVE, TIMES),
}
_PLACES = [(row, column) for row, columns in _DEPENDS.items() for column in columns]
VECTOR = len(FIGURES) + len(_PLACES)


@dataclass(frozen=True)
class ReserveConfig:
    """Settings of the search."""

    generations: int = 200
    """How many populations to try."""
    population: int = 24
    """Networks per generation."""
    sigma: float = 0.3
    """Width of the first population."""
    traces: int = 160
    """Runs of each scenario that episodes are drawn from: what rare jumps cost is in few of them."""
    days: int = 3
    """The same of a scenario of whole days."""
    warped: int = 300
    """Parts of each recording, and of each scenario of a whole day, that episodes are drawn from."""
    drawn: int = 1_600
    """Loads by chance that episodes are drawn from."""
    episodes: int = 160
    """Of each scenario, a generation."""
    drawn_episodes: int = 100
    """Of loads by chance and of parts, a generation; 0: none."""
    forecast_series: int = 24_000
    """Loads that the forecast is fitted to; 0: that of what ships."""
    validation_runs: int = 12
    """Runs of each scenario by which the mean is judged, in the simulator."""
    confirm_runs: int = 12
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 50
    """Generations between judgements."""
    rule_runs: str = ""
    """A folder for what rules come to, so that another seed need not play them again; empty: none."""
    seed: int = 1
    """Of the search."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "traces", "days", "drawn", "episodes", "warped", "validation_runs", "confirm_runs")


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
        self._rule_runs = RuleRuns(Path(config.rule_runs) if config.rule_runs else None)
        parts = [scenario.of_part("train") for scenario in scenarios]
        self._own = {scenario.name: self._episodes(scenario) for scenario in parts}
        begin = self._net(self.start)
        self._drawn = [_against_start(begin, episode) for episode in self._by_chance(parts)]

    def _episodes(self, scenario: InferenceScenario) -> list[FluidEpisode]:
        """Of a scenario, each against the rule that is best over all of them."""
        seeds = range(self._config.days if is_long(scenario) else self._config.traces)
        episodes = list(self._pool.map(fluid_of, repeat(scenario), seeds))
        best = self._best_rule(scenario, seeds)
        start = Reserve("start", self._net(self.start))
        fitted_on = seeds[: 1 if is_long(scenario) else _FITTED_ON]
        of_start = simulated_runs(scenario, fitted_on, start)
        speed = fitted_speed(
            [episodes[seed].load for seed in fitted_on],
            of_start,
            [self._rule_runs.of(scenario, rule, fitted_on) for rule in _rules(scenario)],
            episodes[0].setting.interval,
        )
        gpus = float(np.mean([run.gpus for run in of_start]))
        return [
            foreseen(
                self._net(self.start),
                replace(
                    episode,
                    setting=episode.setting._replace(speed=speed),
                    against=run.cost * 3_600.0 / gpus,
                    promised=run.kept,
                ),
            )
            for episode, run in zip(episodes, best, strict=True)
        ]

    def _by_chance(self, scenarios: Sequence[InferenceScenario]) -> list[FluidEpisode]:
        """Parts of recordings and of days, and loads drawn anew."""
        config = self._config
        if not config.drawn_episodes:
            return []
        parts = warped_parts(scenarios, config.warped, config.seed)
        return [*drawn_episodes(config.drawn, 100 + config.seed), *parts]

    @property
    def start(self) -> F64:
        """The same figures whatever is seen."""
        return np.zeros(VECTOR)

    def _net(self, vector: F64) -> ReserveNet:
        return packed(self._forecaster, *vector_parts(vector))

    def draw(self, random: np.random.Generator) -> list[FluidEpisode]:
        """Episodes of this generation."""
        chosen: list[FluidEpisode] = []
        for episodes in self._own.values():
            places = random.permutation(len(episodes))[: self._config.episodes]
            chosen += [episodes[place] for place in places]
        drawn = random.permutation(len(self._drawn))[: self._config.drawn_episodes]
        return [*chosen, *(self._drawn[place] for place in drawn)]

    def fitness(
        self, members: Sequence[F64], drawn: list[FluidEpisode]
    ) -> tuple[list[float], dict[str, int]]:
        """Minus the logarithm of what is paid, in what the best rule pays in a scenario, and in what the
        start pays for a drawn load; and the episodes."""
        jobs = [self._pool.submit(self._rated, member, drawn) for member in members]
        return [job.result() for job in jobs], {"episodes": len(drawn) * len(members)}

    def _rated(self, member: F64, drawn: Sequence[FluidEpisode]) -> float:
        net = self._net(member)
        groups: dict[str, list[Rated]] = {}
        for episode in drawn:
            paid, kept = played(net, episode)
            groups.setdefault(episode.group, []).append(Rated(paid, episode.against, kept, episode.promised))
        return fitness_of(groups, self._own) - _DECAY * float(member @ member) / len(member)

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
        """By scenario and run; the rule is that of the least mean over the runs. Whole days are left out:
        each of them takes as long as all the others."""
        gains: dict[str, F64] = {}
        for scenario in (scenario.of_part("valid") for scenario in self._scenarios):
            if is_long(scenario) and len(self._scenarios) > 1:
                continue
            ours = np.array([run.cost for run in simulated_runs(scenario, seeds, Reserve("candidate", net))])
            best = np.array([run.cost for run in self._best_rule(scenario, seeds)])
            gains[scenario.name] = 100.0 * (best - ours) / best.mean()
        return gains

    def _best_rule(self, scenario: InferenceScenario, seeds: range) -> list[SimulatedRun]:
        """[seeds] runs of the rule of the least mean over the first of them."""
        first = {rule: self._rule_runs.of(scenario, rule, seeds[:_COMPARED_ON]) for rule in _rules(scenario)}
        means = {rule: float(np.mean([run.cost for run in runs])) for rule, runs in first.items()}
        best = min(means, key=lambda rule: means[rule])
        return self._rule_runs.of(scenario, best, seeds)


def _rules(scenario: InferenceScenario) -> tuple[str, ...]:
    """That it is held against."""
    return scenario.yardstick()[1]


def _against_start(start: ReserveNet, episode: FluidEpisode) -> FluidEpisode:
    known = foreseen(start, episode)
    paid, kept = played(start, known)
    return replace(known, against=paid, promised=kept)
