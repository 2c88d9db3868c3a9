"""What a further search for `learned` asks: few of its weights, rated in the simulator itself.

The fluid model is right about means and wrong about jumps, whose queues it works off too soon: what a search
finds there holds too little for large loads and too much for small ones. A run of the simulator takes a
thousand times as long, so only those figures are searched that say how cautious one is, and for which loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.es import check_search
from proreus.learning.evaluation import confirming
from proreus.learning.settings import at_least_one
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.reserve import APART, BESIDE, FALL, HOLD, LEAN, RISE
from proreus.worlds.inference.policies.reserve_controller import Reserve
from proreus.worlds.inference.policies.reserve_weights import BIAS, WEIGHT, net_of
from proreus.worlds.inference.scenarios import DRAWN, InferenceScenario
from proreus.worlds.inference.training.fluid_calibration import SimulatedRun, simulated
from proreus.worlds.inference.training.fluid_curriculum import is_long
from proreus.worlds.inference.training.member_fitness import Rated, fitness_of
from proreus.worlds.inference.training.reserve_goal import ABOVE, BELOW, KNOWN, MODELS, POOLS, TIMES, WHOLE
from proreus.worlds.inference.training.simulated_runs import RuleRuns
from proreus.worlds.inference.training.windows import fit_for, windows_of

_BIASES = (RISE, FALL, BESIDE, HOLD, LEAN, APART)
_WEIGHTS = (
    *(
        (LEAN, WHOLE),
        (LEAN, POOLS),
        (LEAN, MODELS),
        (LEAN, BELOW),
        (LEAN, ABOVE),
        (LEAN, TIMES),
        (LEAN, KNOWN),
    ),
    *((FALL, BELOW), (HOLD, BELOW), (RISE, MODELS)),
)
SIZE = len(_BIASES) + len(_WEIGHTS)
_WINDOW = 7_200.0
"""Seconds of a whole day that are one run."""
_WINDOWS = 12
"""Of each scenario of whole days."""
_DECAY = 0.02


@dataclass(frozen=True)
class FinetuneConfig:
    """Settings of the search."""

    generations: int = 16
    """How many populations to try."""
    population: int = 10
    """Networks per generation."""
    sigma: float = 0.2
    """Width of the first population."""
    traces: int = 32
    """Runs of each scenario that a generation's are drawn from."""
    runs: int = 4
    """Of each scenario, a generation; half as many of those of whole days and of drawn loads."""
    validation_runs: int = 12
    """Runs of each scenario by which the mean is judged."""
    confirm_runs: int = 12
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 4
    """Generations between judgements."""
    base: str = ""
    """Checkpoint of `--algo reserve` that it begins with; empty: what ships."""
    rule_runs: str = ""
    """A folder for what rules come to, so that another seed need not play them again; empty: none."""
    seed: int = 1
    """Of the search."""

    def __post_init__(self) -> None:
        check_search(self)
        at_least_one(self, "traces", "runs", "validation_runs", "confirm_runs")


@dataclass(frozen=True)
class _Case:
    """A run, and what the best rule of its scenario comes to there."""

    scenario: InferenceScenario
    seed: int
    best: SimulatedRun


class FinetuneGoal:
    """Plays members in processes, all of a generation on the same requests."""

    def __init__(
        self, scenarios: Sequence[InferenceScenario], config: FinetuneConfig, pool: Executor, base: Arrays
    ) -> None:
        self._scenarios, self._config, self._pool, self._base = scenarios, config, pool, base
        self._rule_runs = RuleRuns(Path(config.rule_runs) if config.rule_runs else None, pool)
        self._judged: dict[tuple[InferenceScenario, range], list[_Case]] = {}
        self._names = {scenario.name for scenario in scenarios if not scenario.name.startswith(DRAWN)}
        self._cases = {
            scenario.name: self._against_best(scenario.of_part("train"), range(config.traces))
            for scenario in scenarios
        }

    @property
    def start(self) -> F64:
        """The base as it is."""
        return np.zeros(SIZE)

    def draw(self, random: np.random.Generator) -> list[_Case]:
        """Runs of this generation."""
        drawn: list[_Case] = []
        for scenario in self._scenarios:
            cases, runs = self._cases[scenario.name], self._config.runs
            if is_long(scenario) or scenario.name not in self._names:
                runs = max(runs // 2, 1)
            drawn += [cases[place] for place in random.permutation(len(cases))[:runs]]
        return drawn

    def fitness(self, members: Sequence[F64], drawn: list[_Case]) -> tuple[list[float], dict[str, int]]:
        """How good members are, with a price for going far from the start; and the runs."""
        jobs = [[self._begin(self.tensors(member), case) for case in drawn] for member in members]
        found = []
        for member, row in zip(members, jobs, strict=True):
            groups: dict[str, list[Rated]] = {}
            for case, job in zip(drawn, row, strict=True):
                ours = job.result()
                rated = Rated(ours.cost, case.best.cost, ours.kept, case.best.kept)
                groups.setdefault(case.scenario.name, []).append(rated)
            found.append(fitness_of(groups, self._names) - _DECAY * float(member @ member) / SIZE)
        return found, {"runs": len(drawn) * len(members)}

    def validate(self, mean: F64) -> dict[str, float]:
        """% fewer weighed GPU-hours than the best rule by scenario."""
        gains = self._gains(self.tensors(mean), range(self._config.validation_runs))
        return {name: float(np.mean(gain)) for name, gain in gains.items()}

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """The same of a checkpoint, for each of the runs on which nothing is chosen."""
        return self._gains(tensors, confirming(self._config.validation_runs, self._config.confirm_runs))

    def tensors(self, mean: F64) -> Arrays:
        """The base, with its caution moved."""
        weight, bias = self._base[WEIGHT].copy(), self._base[BIAS].copy()
        steps = mean.astype(np.float32)
        bias[list(_BIASES)] += steps[: len(_BIASES)]
        rows, columns = zip(*_WEIGHTS, strict=True)
        weight[list(rows), list(columns)] += steps[len(_BIASES) :]
        return {**self._base, WEIGHT: weight, BIAS: bias}

    def _begin(self, tensors: Arrays, case: _Case) -> Future[SimulatedRun]:
        return self._pool.submit(simulated, case.scenario, case.seed, Reserve("candidate", net_of(tensors)))

    def _gains(self, tensors: Arrays, seeds: range) -> dict[str, F64]:
        gains: dict[str, F64] = {}
        for scenario in (scenario.of_part("valid") for scenario in self._scenarios):
            if (scenario, seeds) not in self._judged:
                self._judged[scenario, seeds] = self._against_best(scenario, seeds)
            cases = self._judged[scenario, seeds]
            jobs = [self._begin(tensors, case) for case in cases]
            ours = np.array([job.result().cost for job in jobs])
            best = np.array([case.best.cost for case in cases])
            gains[scenario.name] = 100.0 * (best - ours) / best.mean()
        return gains

    def _against_best(self, scenario: InferenceScenario, seeds: range) -> list[_Case]:
        """[seeds] runs, held against the rule of the least mean over all of them."""
        if is_long(scenario):
            seeds = range(seeds.start, seeds.start + min(len(seeds), _WINDOWS))
            played = [(_window(scenario, seed), seed) for seed in seeds]
        else:
            played = [(scenario, seed) for seed in seeds]
        by_rule = [self._of_rule(played, rule) for rule in scenario.yardstick()[1]]
        best = min(by_rule, key=lambda runs: float(np.mean([run.cost for run in runs])))
        return [_Case(*case, run) for case, run in zip(played, best, strict=True)]

    def _of_rule(self, played: list[tuple[InferenceScenario, int]], rule: str) -> list[SimulatedRun]:
        """Whole scenarios are kept in files; windows are played again by every search."""
        first, seeds = played[0][0], [seed for _, seed in played]
        if all(scenario == first for scenario, _ in played):
            return self._rule_runs.of(first, rule, seeds)
        jobs = [self._pool.submit(simulated, *case, POLICIES.make(rule)) for case in played]
        return [job.result() for job in jobs]


def _window(scenario: InferenceScenario, seed: int) -> InferenceScenario:
    """Some hours out of a day, that begin with as many instances as their first load needs."""
    (window,) = windows_of(scenario, seed, 1, _WINDOW)
    return fit_for(window.scenario, window.scenario.load(seed))
