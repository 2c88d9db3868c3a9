"""`proreus train WORLD --algo ppo`: proximal policy optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from proreus.cli.training import Algo, Asked, TrainArguments, watch
from proreus.learning.gradient_run import GradientRun
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.training.fused_ppo import PPOConfig
from proreus.worlds.pods.training.ppo_run import PPOLessons, ppo_identity, train_ppo


@dataclass(frozen=True)
class PPOFlags(PPOConfig):
    """Settings of PPO."""

    threads: Annotated[int, tyro.conf.Suppress] = 0
    """Said by --processes."""


@dataclass(frozen=True)
class Arguments(TrainArguments):
    """Flags of `proreus train pods --algo ppo`."""

    algo: Algo = "ppo"
    ppo: PPOFlags = field(default_factory=PPOFlags)
    lessons: PPOLessons = field(default_factory=PPOLessons)


def train(asked: Asked[Scenario]) -> int:
    """Update after update, judged every so often."""
    arguments = asked.arguments
    assert isinstance(arguments, Arguments)
    config, lessons = asked.config(arguments.ppo), asked.config(arguments.lessons)
    workers = arguments.workers()
    run = GradientRun(arguments.folder, ppo_identity(asked.scenarios, config, lessons), resume=asked.resumes)
    return watch(
        asked,
        run,
        lambda stopped: train_ppo(run, asked.scenarios, (config, lessons), workers=workers, stopped=stopped),
        _figures,
    )


def _figures(figures: Mapping[str, float]) -> str:
    return f"return {figures['return']:.2f}, entropy {figures['entropy']:.2f}, kl {figures['kl']:.4f}"
