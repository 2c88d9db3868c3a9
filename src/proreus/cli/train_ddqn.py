"""`proreus train WORLD --algo ddqn`: double dueling DQN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proreus.cli.training import Algo, Asked, TrainArguments, watch
from proreus.learning.ddqn import DDQNConfig
from proreus.learning.gradient_run import GradientRun
from proreus.model.errors import UsageError
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.training.ddqn_run import ddqn_identity, train_ddqn
from proreus.worlds.pods.training.lessons import Lessons


@dataclass(frozen=True)
class Arguments(TrainArguments):
    """Flags of `proreus train pods --algo ddqn`."""

    algo: Algo = "ddqn"
    ddqn: DDQNConfig = field(default_factory=DDQNConfig)
    lessons: Lessons = field(default_factory=Lessons)


def train(asked: Asked[Scenario]) -> int:
    """Report after report, judged every so often."""
    arguments = asked.arguments
    assert isinstance(arguments, Arguments)
    if arguments.ray:
        raise UsageError("--ray: ddqn learns decision by decision in one process; es and ppo spread over Ray")
    config, lessons = asked.config(arguments.ddqn), asked.config(arguments.lessons)
    run = GradientRun(arguments.folder, ddqn_identity(asked.scenarios, config, lessons), resume=asked.resumes)
    return watch(
        asked,
        run,
        lambda stopped: train_ddqn(run, asked.scenarios, (config, lessons), stopped=stopped),
        _figures,
    )


def _figures(figures: Mapping[str, float]) -> str:
    return f"return {figures['return']:.2f}, loss {figures['loss']:.4f}, epsilon {figures['epsilon']:.2f}"
