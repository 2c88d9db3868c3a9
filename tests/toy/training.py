"""What learners need: episodes side by side, and how good a vector of weights is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proreus.contract.episodes import EpisodeLanes
from proreus.contract.lanes import Arrays
from proreus.contract.play import step_by_step
from proreus.kernels.arrays import F32, F64
from tests.toy.model import VERSION, ToyObservation, context_of, rows_of
from tests.toy.policies import POLICIES, SHORTEST, Scored
from tests.toy.scenarios import SEEDS_APART, ToyScenario, parse


def encode(seen: ToyObservation) -> tuple[F32, F32]:
    """Rows of actions, and what holds for all of them."""
    return rows_of(seen), context_of(seen)


def lanes(scenario: ToyScenario, count: int) -> EpisodeLanes:
    """Episodes of the training part."""
    return EpisodeLanes(scenario.of_part("train"), count, SEEDS_APART, encode, VERSION)


def episodes(scenario: str = "calm") -> EpisodeLanes:
    """One lane, for an environment."""
    return lanes(parse(scenario, None), 1)


class ToyGoal:
    """Less time in the system than the better rule, from that rule on."""

    def __init__(self, scenarios: Sequence[ToyScenario], runs: int = 4) -> None:
        self._scenarios, self._runs = scenarios, runs

    @property
    def start(self) -> F64:
        """The shortest finish."""
        return SHORTEST.copy()

    def draw(self, random: np.random.Generator) -> list[int]:
        """Seeds of jobs."""
        drawn: list[int] = random.integers(SEEDS_APART, size=self._runs).tolist()
        return drawn

    def fitness(self, members: Sequence[F64], drawn: list[int]) -> tuple[list[float], dict[str, int]]:
        """Minus the mean time in the system."""
        training = [scenario.of_part("train") for scenario in self._scenarios]
        found = [
            -float(np.mean([_time(one, Scored("", member), seed) for one in training for seed in drawn]))
            for member in members
        ]
        return found, {"runs": len(members) * len(training) * len(drawn)}

    def validate(self, mean: F64) -> dict[str, float]:
        """% less time in the system than the best rule."""
        gains = {}
        for scenario in self._scenarios:
            held_out, (_, names) = scenario.of_part("valid"), scenario.yardstick()
            rules = [POLICIES.make(name) for name in names]
            times = [
                float(np.mean([_time(held_out, one, seed) for seed in range(self._runs)]))
                for one in (Scored("", mean), *rules)
            ]
            gains[scenario.name] = 100.0 * (1.0 - times[0] / min(times[1:]))
        return gains

    def tensors(self, mean: F64) -> Arrays:
        """As `policies` reads it back."""
        return {"weights": mean}


def _time(scenario: ToyScenario, policy: Any, seed: int) -> float:
    return step_by_step(scenario, scenario.load(seed), policy, seed).measures["time_in_system"]
