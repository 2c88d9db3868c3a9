"""What the evolution strategy of `inference` asks: GPU-hours at the attainment of the best rule.

Members are held against the rule that is best on the same windows: they pay for GPU-hours, dearly for every
point of attainment that they have less than it, and a little for more turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.es import check_search
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.model.errors import UsageError
from proreus.worlds.inference.policies.knobs import knobs_of
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.training.weight_vector import SIZE, tensors_of
from proreus.worlds.inference.training.windows import Window, WindowCost, knobs_spend, rule_spends, windows_of

_SEEDS = 100_000


@dataclass(frozen=True)
class InferenceESConfig:
    """Settings of the evolution strategy."""

    generations: int = 20
    """How many populations to try."""
    population: int = 16
    """Networks per generation."""
    sigma: float = 0.6
    """Width of the first population, in steps of each weight."""
    windows: int = 8
    """Windows of a scenario that make one episode."""
    window_seconds: float = 3_600.0
    """Of a window."""
    validation_runs: int = 4
    """Episodes by which the mean is judged."""
    confirm_runs: int = 6
    """Episodes after those that say, at the end, how much better the best is than the start."""
    margin: float = 0.001
    """Attainment that members are to have beyond the best rule's, so that it is kept elsewhere too."""
    as_many_again: float = 0.05
    """Attainment below what is asked for that counts as twice the GPU-hours; in the world's own measure 0.05,
    and less where members are not to buy GPU-hours with it."""
    turns: float = 0.01
    """What a turn an hour more than the best rule's costs, as a share of the GPU-hours."""
    evaluate_every: int = 5
    """Generations between judgements."""
    seed: int = 1
    """Of the search."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "windows", "validation_runs", "confirm_runs")
        if not 0 < self.window_seconds < float("inf"):
            raise UsageError(f"window_seconds: {self.window_seconds} is not above 0")
        if min(self.margin, self.turns) < 0:
            raise UsageError("margin and turns are not below 0")
        if not 0 < self.as_many_again < float("inf"):
            raise UsageError(f"as_many_again: {self.as_many_again} is not above 0")


class InferenceGoal:
    """Plays networks on workers, every member on the same windows."""

    def __init__(
        self, scenarios: Sequence[InferenceScenario], config: InferenceESConfig, pool: Executor
    ) -> None:
        self._scenarios, self._config, self._pool = scenarios, config, pool
        self._of_rules: dict[tuple[InferenceScenario, int], WindowCost] = {}

    @property
    def start(self) -> F64:
        """The plan without weights."""
        return np.zeros(SIZE)

    def draw(self, random: np.random.Generator) -> list[int]:
        """A seed for each scenario."""
        drawn: list[int] = random.integers(_SEEDS, size=len(self._scenarios)).tolist()
        return drawn

    def fitness(self, members: Sequence[F64], drawn: list[int]) -> tuple[list[float], dict[str, int]]:
        """Minus the logarithm of what is paid, in what the best rule pays; and the windows."""
        total, count = np.zeros(len(members)), 0
        for scenario, seed in zip(self._scenarios, drawn, strict=True):
            windows = self._windows(scenario.of_part("train"), seed)
            jobs = [self._begin(tensors_of(member), windows) for member in members]
            rule = self._rule(scenario.of_part("train"), seed)
            asked = max(rule.attained + self._config.margin, scenario.control.wanted)
            for place, row in enumerate(jobs):
                total[place] -= self._paid(_together(row), rule, asked)
            count += len(windows) * len(members)
        return (total / len(self._scenarios)).tolist(), {"windows": count}

    def _paid(self, ours: WindowCost, rule: WindowCost, asked: float) -> float:
        point = self._config.as_many_again
        weighed = ours.weighed(asked, point) / rule.weighed(asked, point)
        more = max(ours.turns_an_hour - rule.turns_an_hour, 0.0)
        return float(np.log(weighed)) + self._config.turns * more

    def validate(self, mean: F64) -> dict[str, float]:
        """% fewer weighed GPU-hours than the best rule by scenario, in windows of other days."""
        gains = self._gains(tensors_of(mean), range(self._config.validation_runs))
        return {name: float(np.mean(gain)) for name, gain in gains.items()}

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """The same of a checkpoint, for each of the episodes on which nothing is chosen."""
        return self._gains(tensors, confirming(self._config.validation_runs, self._config.confirm_runs))

    def tensors(self, mean: F64) -> Arrays:
        """The network's."""
        return tensors_of(mean)

    def _gains(self, tensors: Arrays, seeds: range) -> dict[str, F64]:
        """By scenario and episode; attainment below the best rule's is paid for."""
        found, point = {}, self._config.as_many_again
        for scenario in (scenario.of_part("valid") for scenario in self._scenarios):
            jobs = [self._begin(tensors, self._windows(scenario, seed)) for seed in seeds]
            gains = []
            for seed, row in zip(seeds, jobs, strict=True):
                rule, ours = self._rule(scenario, seed), _together(row)
                asked = max(rule.attained, scenario.control.wanted)
                share = ours.weighed(asked, point) / rule.weighed(asked, point)
                gains.append(100.0 * (1.0 - share))
            found[scenario.name] = np.array(gains)
        return found

    def _windows(self, scenario: InferenceScenario, seed: int) -> list[Window]:
        return windows_of(scenario, seed, self._config.windows, self._config.window_seconds)

    def _begin(self, tensors: Arrays, windows: Sequence[Window]) -> list[Future[WindowCost]]:
        knobs = knobs_of(tensors)
        return [self._pool.submit(knobs_spend, window, knobs) for window in windows]

    def _rule(self, scenario: InferenceScenario, seed: int) -> WindowCost:
        """What the rule that is best in an episode comes to there."""
        key = (scenario, seed)
        if key not in self._of_rules:
            windows = self._windows(scenario, seed)
            jobs = [
                [self._pool.submit(rule_spends, window, name) for window in windows]
                for name in scenario.yardstick()[1]
            ]
            wanted, point = scenario.control.wanted, self._config.as_many_again
            self._of_rules[key] = min(
                (_together(row) for row in jobs), key=lambda spent: spent.weighed(wanted, point)
            )
        return self._of_rules[key]


def _together(jobs: Sequence[Future[WindowCost]]) -> WindowCost:
    total = WindowCost()
    for job in jobs:
        total += job.result()
    return total
