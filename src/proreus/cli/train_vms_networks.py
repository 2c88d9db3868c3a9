"""`proreus train vms --algo qmix|ppo|ddqn`: networks that bid for virtual machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proreus.cli.arguments import prepare
from proreus.cli.train_vms import VmsAlgo, VmsTrainArguments, asked_of, training_trace
from proreus.cli.training import watch
from proreus.cli.worlds import WorldCommand
from proreus.learning.gradient_run import GradientRun
from proreus.learning.ppo import ServersPPOConfig
from proreus.learning.qmix import QMIXConfig
from proreus.worlds.vms.training.judge import LaneLessons, VmsLessons, VmsSchool
from proreus.worlds.vms.training.networks_run import (
    Config,
    ServersDDQNConfig,
    servers_identity,
    train_servers,
)


@dataclass(frozen=True)
class QMIXArguments(VmsTrainArguments):
    """Flags of `proreus train vms --algo qmix`."""

    algo: VmsAlgo = "qmix"
    qmix: QMIXConfig = field(default_factory=QMIXConfig)
    lessons: LaneLessons = field(default_factory=LaneLessons)


@dataclass(frozen=True)
class PPOArguments(VmsTrainArguments):
    """Flags of `proreus train vms --algo ppo`."""

    algo: VmsAlgo = "ppo"
    ppo: ServersPPOConfig = field(default_factory=ServersPPOConfig)
    # It scales what it learns from by itself, and was seen to learn more steadily from the scenario's reward.
    lessons: LaneLessons = field(default_factory=lambda: LaneLessons(ending_cost=0.0))


@dataclass(frozen=True)
class DDQNArguments(VmsTrainArguments):
    """Flags of `proreus train vms --algo ddqn`."""

    algo: VmsAlgo = "ddqn"
    ddqn: ServersDDQNConfig = field(default_factory=ServersDDQNConfig)
    lessons: VmsLessons = field(default_factory=VmsLessons)


def _train_qmix(arguments: QMIXArguments, command: str) -> int:
    return _train(arguments, arguments.qmix, arguments.lessons)


def _train_ppo(arguments: PPOArguments, command: str) -> int:
    return _train(arguments, arguments.ppo, arguments.lessons)


def _train_ddqn(arguments: DDQNArguments, command: str) -> int:
    return _train(arguments, arguments.ddqn, arguments.lessons)


def _train(arguments: VmsTrainArguments, given: Config, given_lessons: VmsLessons) -> int:
    """Update after update, judged every so often."""
    prepare(arguments.output)
    asked = asked_of(arguments)
    config, lessons, (scenario,) = asked.config(given), asked.config(given_lessons), asked.scenarios
    school = VmsSchool(scenario.name, training_trace(scenario), scenario.options, lessons)
    identity = servers_identity(scenario.name, config, lessons)
    run = GradientRun(arguments.folder, identity, resume=asked.resumes)
    return watch(asked, run, lambda stopped: train_servers(run, school, config, stopped=stopped), _figures)


def _figures(figures: Mapping[str, float]) -> str:
    explores = "epsilon" if "epsilon" in figures else "entropy"
    text = f"return {figures['return']:.2f}, loss {figures['loss']:.4f}"
    return f"{text}, {explores} {figures[explores]:.2f}"


_EXAMPLE = "Flags of --algo {0}. Example: proreus train vms --algo {0} --scenario recovering@5 --out runs/{0}"
COMMANDS = {
    "qmix": WorldCommand(QMIXArguments, _train_qmix, _EXAMPLE.format("qmix")),
    "ppo": WorldCommand(PPOArguments, _train_ppo, _EXAMPLE.format("ppo")),
    "ddqn": WorldCommand(DDQNArguments, _train_ddqn, _EXAMPLE.format("ddqn")),
}
