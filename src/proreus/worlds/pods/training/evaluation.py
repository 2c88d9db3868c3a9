"""What learners of pods train on, and how good a policy is where nobody trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

from proreus.kernels.arrays import F64
from proreus.learning.evaluation import Judge, confirming
from proreus.learning.settings import at_least_one, not_negative
from proreus.model.errors import UsageError
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.simulation.outcome import MEASURES
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.base_pods import Reward

_REMEMBERED = 96


@dataclass(frozen=True)
class Lessons:
    """What is trained on and how it is judged."""

    BEFORE: ClassVar[Mapping[str, Any]] = {"patience": 0}
    """What runs did that do not say so: see `settings.config_from`."""

    horizon: int = 0
    """Pods of an episode; 0: as many as the workload has."""
    reward: Reward = "allocation"
    """What is rewarded: GPU (else CPU) share placed, or little time in the system."""
    train_seeds: int = 4
    """How many seeds, from 1000 on, the workloads are drawn with."""
    validation_seeds: int = 16
    """How many seeds, from 2000 on, the policy is judged on: fewer choose what was lucky."""
    confirm_seeds: int = 30
    """How many seeds after those say, at the end, how much better the best is than the start."""
    evaluate_every: int = 10
    """Updates between judgements; the learner is saved as often."""
    patience: int = 10
    """End after so many judgements without a new best; 0: never."""

    def __post_init__(self) -> None:
        at_least_one(self, "train_seeds", "validation_seeds", "confirm_seeds", "evaluate_every")
        not_negative(self, "patience")


class HeldOut(Protocol):
    """How many seeds a policy is judged on."""

    @property
    def validation_seeds(self) -> int:
        """From 2000 on: where checkpoints are chosen."""
        ...

    @property
    def confirm_seeds(self) -> int:
        """After those: where nothing is chosen."""
        ...


@lru_cache(maxsize=_REMEMBERED)
def compiled_workload(scenario: PodScenario, seed: int) -> Compiled:
    """The scenario's workload for a seed, compiled; kept for the next time it is asked for."""
    return scenario.load(seed)


def training_workloads(scenarios: Sequence[PodScenario], lessons: Lessons) -> list[Compiled]:
    """The workloads that episodes are drawn from: every scenario with every training seed."""
    if len({scenario.options for scenario in scenarios}) != 1:
        raise UsageError("the scenarios treat pods that find no room in different ways: train on one kind")
    parts, seeds = [scenario.of_part("train") for scenario in scenarios], range(lessons.train_seeds)
    return [compiled_workload(scenario, seed) for scenario in parts for seed in seeds]


def _measured(scenario: PodScenario, seed: int, policy: PodPolicy) -> Mapping[str, float]:
    return simulate(compiled_workload(scenario, seed), policy, scenario.options).measures


def gains(
    make: Callable[[], PodPolicy], scenarios: Sequence[PodScenario], lessons: HeldOut
) -> dict[str, float]:
    """Mean gain over the strongest rule by scenario, where checkpoints are chosen."""
    return JUDGE.gains(make, scenarios, lessons.validation_seeds)


def confirmed_gains(
    make: Callable[[], PodPolicy], scenarios: Sequence[PodScenario], lessons: HeldOut
) -> dict[str, F64]:
    """The same for each of the seeds on which nothing is chosen."""
    return JUDGE.each(make, scenarios, confirming(lessons.validation_seeds, lessons.confirm_seeds))


JUDGE: Judge[PodScenario, PodPolicy] = Judge(_measured, make_policy, MEASURES)
