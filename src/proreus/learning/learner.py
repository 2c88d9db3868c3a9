"""A learner as one value, and a run of it: what `proreus train` does in every world."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, assert_never

from proreus.contract.goal import Goal
from proreus.contract.lanes import Arrays
from proreus.learning.es import evolve
from proreus.learning.evolution_run import EvolutionRun
from proreus.learning.gradient_run import GradientRun, Report, live
from proreus.learning.runs import SETTINGS, Identity, WrittenScenario, read_settings, scenarios_of
from proreus.learning.settings import config_from
from proreus.learning.update import Update
from proreus.model.errors import InputError, UsageError, needs_extra
from proreus.workers.processes import Workers, pool_of

Scenarios = Sequence[Any]
Configs = tuple[Any, ...]
"""One of each of a learner's `configs`."""
_EXTRA, _INSTALL = ("cmaes", "torch"), needs_extra("learn")
_FORMATS = {"loss": ".4f", "kl": ".4f"}
"""Of figures on a terminal; others have two digits."""


@dataclass(frozen=True)
class Common:
    """What every learner says of itself."""

    world: str
    algorithm: str
    configs: Configs
    """Its settings with their defaults: frozen dataclasses, the first with the seed. They are its flags."""
    kind: str
    """Of the policy that it learns."""
    encoding: str
    """What that policy sees."""
    gain: str
    """What its held-out scores are, for the cards of checkpoints."""
    about: str
    """What it learns, in a few words."""
    example: str
    """Flags for the example of --help."""
    needs: str = ""
    """A package of the extra `learn`."""
    not_on_ray: str = ""
    """Why it cannot spread over Ray; "": it can."""

    def check(self, workers: Workers) -> None:
        """Refuse workers that it cannot use."""
        if workers.ray and self.not_on_ray:
            raise UsageError(f"--ray: {self.algorithm} {self.not_on_ray}")

    def identity(self, scenarios: Sequence[WrittenScenario], configs: Configs) -> Identity:
        """What a run of it is."""
        settings = {name: value for config in configs for name, value in asdict(config).items()}
        return Identity(
            world=self.world,
            algorithm=self.algorithm,
            kind=self.kind,
            encoding=self.encoding,
            scenarios=tuple(scenarios),
            config=settings,
            seed=configs[0].seed,
            gain=self.gain,
        )


@dataclass(frozen=True, kw_only=True)
class EvolutionLearner(Common):
    """An evolution strategy: its members are rated side by side."""

    goal: Callable[[Scenarios, Any, Executor], Goal]
    threads: bool
    """Whether members are rated in threads of this process, by kernels that release the lock."""


@dataclass(frozen=True, kw_only=True)
class GradientLearner(Common):
    """A learner that goes down a gradient, update by update."""

    train: Callable[[Scenarios, Configs, Workers, Arrays | None], Iterator[Update]]
    """From the saved state on, where there is one."""
    judge: Callable[[Scenarios, Configs, Arrays], dict[str, float]]
    """Gain of the policy of these tensors by scenario, on work that training never sees."""
    tells: tuple[str, ...]
    """Figures worth a word on a terminal."""


Learner = EvolutionLearner | GradientLearner


def learner_at(where: str) -> Learner:
    """The learner at "module:LEARNER"; one line where a package of the extra `learn` is missing."""
    module, _, name = where.partition(":")
    try:
        learner: Learner = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise UsageError(f"{name.lower()}: {error.name} is missing: {_INSTALL}") from error
    if learner.needs and importlib.util.find_spec(learner.needs) is None:
        raise UsageError(f"train {learner.world} --algo {learner.algorithm} {_INSTALL}")
    return learner


@dataclass(frozen=True)
class Task:
    """What a run is asked for."""

    scenarios: Scenarios
    configs: Configs
    workers: Workers
    folder: Path
    resume: bool


def resumed(learner: Learner, folder: Path, workers: Workers, read: Callable[[Any], Any]) -> Task:
    """The task of the run in that folder, as it was asked for; `read` makes scenarios of their JSON."""
    past, file = read_settings(folder, learner.world), folder / SETTINGS
    scenarios = scenarios_of(past, folder, read)
    if not scenarios:
        raise InputError("cannot be resumed: names no scenario", file=file, field="scenarios")
    try:
        configs = tuple(config_from(past["config"], config) for config in learner.configs)
    except (TypeError, UsageError) as error:
        raise InputError(f"cannot be resumed: {error}", file=file, field="config") from error
    return Task(scenarios, configs, workers, folder, resume=True)


@dataclass(frozen=True)
class Told:
    """How a run stands."""

    done: int
    total: int
    """Generations or updates."""
    text: str
    """How it goes."""
    line: str
    """What is worth a line of its own; "": nothing."""


def learn(
    learner: Learner, task: Task, stopped: Callable[[], bool], summary: Callable[[Mapping[str, Any]], None]
) -> Generator[Told, None, None]:
    """Train to the end; everything learned is kept. `summary` hears the result as JSON.

    A gradient-based learner is saved and ends where `stopped` says so between two updates. An evolution may
    be interrupted at any moment: its journal is all it needs.
    """
    identity = learner.identity(task.scenarios, task.configs)
    match learner:
        case EvolutionLearner():
            evolution = EvolutionRun(task.folder, identity, resume=task.resume)
            with closing(evolution):
                yield from _evolve(learner, task, evolution)
            summary(evolution.summary())
        case GradientLearner():
            run = GradientRun(task.folder, identity, resume=task.resume)
            with closing(run):
                for report in descend(learner, task, run, stopped):
                    yield _told(learner, report)
            summary(run.summary())
        case _:
            assert_never(learner)


def _evolve(learner: EvolutionLearner, task: Task, run: EvolutionRun) -> Iterator[Told]:
    config = task.configs[0]
    runs = config.population * len(task.scenarios)
    with pool_of(task.workers, runs, threads=learner.threads) as pool:
        goal = learner.goal(task.scenarios, config, pool)
        for generation in evolve(config, goal, run.past_fitness):
            text = f"{generation.seconds:.1f} s a generation"
            yield Told(generation.number + 1, generation.total, text, run.add(generation))


def descend(
    learner: GradientLearner, task: Task, run: GradientRun, stopped: Callable[[], bool]
) -> Iterator[Report]:
    """Update after update, each recorded, judged every so often."""

    def judge(tensors: Arrays) -> dict[str, float]:
        return learner.judge(task.scenarios, task.configs, tensors)

    updates = learner.train(task.scenarios, task.configs, task.workers, run.saved)
    yield from live(run, updates, judge, every=task.configs[-1].evaluate_every, stopped=stopped)


def _told(learner: GradientLearner, report: Report) -> Told:
    update = report.update
    text = f"{update.figures['steps']:,.0f} steps, {update.figures['steps_per_second']:,.0f}/s, "
    text += ", ".join(f"{name} {update.figures[name]:{_FORMATS.get(name, '.2f')}}" for name in learner.tells)
    line = ""
    if report.validation is not None:
        gains = ", ".join(f"{name} {gain:+.2f}" for name, gain in report.validation.items())
        line = f"{text}; held out: {gains}{' (best so far)' if report.is_best else ''}"
    return Told(update.number, update.total, text, line)
