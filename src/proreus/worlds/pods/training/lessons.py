"""What gradient-based learners train on and how they are judged; they share it, whatever they learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proreus.model.errors import UsageError
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.judge import compiled_workload
from proreus.worlds.pods.training.lanes import Reward

FIRST_TRAINING_SEED = 1000


@dataclass(frozen=True)
class Lessons:
    """What is trained on and how it is judged."""

    horizon: int = 0
    """Pods of an episode; 0: as many as the workload has."""
    reward: Reward = "allocation"
    """What is rewarded: GPU (else CPU) share placed, or little time in the system."""
    train_seeds: int = 4
    """How many seeds, from 1000 on, the workloads are drawn with."""
    validation_seeds: int = 3
    """How many seeds, from 2000 on, the policy is judged on."""
    evaluate_every: int = 10
    """Updates between judgements; the learner is saved as often."""

    def __post_init__(self) -> None:
        for name in ("train_seeds", "validation_seeds", "evaluate_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is not at least 1")


def training_workloads(scenarios: Sequence[Scenario], lessons: Lessons) -> list[Compiled]:
    """The workloads that episodes are drawn from: every scenario with every training seed."""
    if len({scenario.options for scenario in scenarios}) != 1:
        raise UsageError("the scenarios treat pods that find no room in different ways: train on one kind")
    seeds = range(FIRST_TRAINING_SEED, FIRST_TRAINING_SEED + lessons.train_seeds)
    return [compiled_workload(scenario, seed) for scenario in scenarios for seed in seeds]
