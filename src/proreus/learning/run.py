"""A run of a learner from its start to its end: what `proreus train` does in every world."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, assert_never

from proreus.contract.goal import Goal
from proreus.contract.lanes import Arrays
from proreus.learning.degenerate import refuse_where_all_score_alike
from proreus.learning.es import evolve
from proreus.learning.evolution_run import EvolutionRun
from proreus.learning.gradient_run import EvaluationTurns, GradientRun, UpdateReport, live
from proreus.learning.improvement import Gains, Improvement, improvement, same_weights
from proreus.learning.learner import Configs, EvolutionLearner, GradientLearner, Learner, Scenarios
from proreus.learning.run_folder import (
    SETTINGS,
    done_of,
    mean_gain,
    read_improvement,
    read_journal,
    read_settings,
    scenarios_of,
)
from proreus.learning.settings import config_from
from proreus.model.errors import InputError, UsageError
from proreus.workers.processes import Workers, pool_of

_FORMATS = {"loss": ".4f", "kl": ".4f"}
"""Of figures on a terminal; others have two digits."""


@dataclass(frozen=True)
class Task:
    """What a run is asked for."""

    scenarios: Scenarios
    configs: Configs
    workers: Workers
    folder: Path
    resume: bool
    former_length: int | None = None
    """How long the run was to be, where it is resumed with another length."""


def resumed(
    learner: Learner,
    folder: Path,
    workers: Workers,
    read: Callable[[Any], Any],
    asked: Mapping[str, Any] = MappingProxyType({}),
) -> Task:
    """The task of the run in that folder, as it was asked for; `read` makes scenarios of their JSON.

    Of the settings asked for now, the length may be another: then the run goes on beyond its end.
    """
    past, file = read_settings(folder, learner.world), folder / SETTINGS
    scenarios = scenarios_of(past, folder, read)
    if not scenarios:
        raise InputError("cannot be resumed: names no scenario", file=file, field="scenarios")
    configs = configs_of(learner, folder)
    known = {name: value for config in configs for name, value in vars(config).items()}
    for name, value in asked.items():
        if name != learner.length and value != known.get(name):
            raise UsageError(
                f"{name} {value}: {folder} has {known.get(name)} and goes on so; only {learner.length} may "
                "be another"
            )
    before = known[learner.length]
    length = asked.get(learner.length, before)
    if length == before:
        return Task(scenarios, configs, workers, folder, resume=True)
    done = done_of(read_journal(folder))
    if length <= done:
        raise UsageError(
            f"--{learner.length} {length}: {folder} has {done:,} {learner.length} behind it, and this is the "
            "length of the whole run: name more"
        )
    longer = (replace(configs[0], **{learner.length: length}), *configs[1:])
    return Task(scenarios, longer, workers, folder, resume=True, former_length=before)


def configs_of(learner: Learner, folder: Path) -> Configs:
    """The settings of the run in that folder."""
    stored = read_settings(folder, learner.world)["config"]
    try:
        return tuple(config_from(stored, config) for config in learner.configs)
    except (TypeError, UsageError) as error:
        raise InputError(f"cannot be resumed: {error}", file=folder / SETTINGS, field="config") from error


@dataclass(frozen=True)
class RunStatus:
    """How a run stands."""

    done: int
    total: int
    """Generations or updates; 0 of 0: not known yet."""
    text: str
    """How it goes."""
    line: str
    """What is worth a line of its own; "": nothing."""


def learn(
    learner: Learner, task: Task, stopped: Callable[[], bool], summary: Callable[[Mapping[str, Any]], None]
) -> Generator[RunStatus, None, None]:
    """Train to the end; everything learned is kept. `summary` hears the result as JSON.

    A gradient-based learner is saved and ends where `stopped` says so between two updates. An evolution may
    be interrupted at any moment: its journal is all it needs.
    """
    identity = learner.identity(task.scenarios, task.configs)
    if task.resume:
        yield RunStatus(0, 0, "", _going_on(learner, task))
    run: EvolutionRun | GradientRun
    match learner:
        case EvolutionLearner():
            run = EvolutionRun(task.folder, identity, resume=task.resume)
            with closing(run):
                yield from _noted(learner, task)
                yield from _evolve(learner, task, run)
        case GradientLearner():
            run = GradientRun(task.folder, identity, resume=task.resume)
            with closing(run):
                yield from _noted(learner, task)
                yield from _descend(learner, task, run, stopped)
        case _:
            assert_never(learner)
    summary({**run.summary(), "improvement": read_improvement(task.folder)})


def _noted(learner: Learner, task: Task) -> Iterator[RunStatus]:
    if learner.note is not None and (note := learner.note(task.scenarios, task.configs, task.workers)):
        yield RunStatus(0, 0, "", f"note: {note}")


def _going_on(learner: Learner, task: Task) -> str:
    """What is resumed: how far it is, and how far it goes."""
    done, length = done_of(read_journal(task.folder)), getattr(task.configs[0], learner.length)
    unit = learner.length
    if done >= length:
        return (
            f"{task.folder} is done: {done:,} of {length:,} {unit}. To go on: --resume {task.folder} "
            f"--{unit} N, the length of the whole run, more than {done:,}"
        )
    line = f"{task.folder}: {done:,} {unit} are done, goes on to {length:,}"
    if task.former_length is None:
        return line
    line += f" in place of {task.former_length:,}"
    if isinstance(learner, GradientLearner):
        line += f"; what falls over a run (rates, exploration) falls as in a run of {length:,} from here on"
    return line


def _evolve(learner: EvolutionLearner, task: Task, run: EvolutionRun) -> Iterator[RunStatus]:
    config = task.configs[0]
    runs, total = config.population * len(task.scenarios), config.generations
    with pool_of(task.workers, runs, threads=learner.threads) as pool:
        goal = learner.goal(task.scenarios, config, pool)
        if not run.best.began:
            yield RunStatus(
                0, total, "", f"start: held out {_judge_start(goal, run, new=not task.resume):+.3f}"
            )
        past = run.past_fitness
        for generation in evolve(config, goal, past, probes=run.past_probes, separable=learner.separable):
            text = f"{generation.seconds:.1f} s a generation"
            yield RunStatus(generation.number + 1, generation.total, text, run.add(generation))
        yield RunStatus(total, total, "is confirmed", "")
        yield RunStatus(total, total, "", _end(task.folder, run, goal.tensors(goal.start), goal.confirm))


def _judge_start(goal: Goal, run: EvolutionRun, *, new: bool) -> float:
    """The mean gain of the start, recorded."""
    begin, judged = time.perf_counter(), goal.validate(goal.start)
    if new:
        refuse_where_all_score_alike(
            {"start": goal.start}, judged, lambda drawn: goal.validate(drawn["start"])
        )
    run.begin(goal.tensors(goal.start), judged, time.perf_counter() - begin)
    return mean_gain(judged)


def _descend(
    learner: GradientLearner, task: Task, run: GradientRun, stopped: Callable[[], bool]
) -> Iterator[RunStatus]:
    run_status = RunStatus(0, 0, "", "")
    for report in descend(learner, task, run, stopped):
        if report.start is not None:
            yield RunStatus(0, report.update.total, "", f"start; held out: {_by_scenario(report.start)}")
        yield (run_status := _status_of(learner, report))
    if _turns(task).are_over(run.best):
        judged = _turns(task).patience
        yield replace(
            run_status, text="", line=f"ended early: nothing better in {judged} judgements (--patience)"
        )
    elif run.steps < task.configs[0].steps:
        return  # interrupted
    yield replace(run_status, text="is confirmed", line="")

    def confirm(tensors: Arrays) -> Gains:
        return learner.confirm(task.scenarios, task.configs, tensors)

    start = learner.start(task.scenarios, task.configs)
    yield replace(run_status, text="", line=_end(task.folder, run, start, confirm))


def _turns(task: Task) -> EvaluationTurns:
    """Not every learner ends early: elsewhere `patience` is a setting of the world's own."""
    lessons = task.configs[-1]
    return EvaluationTurns(lessons.evaluate_every, getattr(lessons, "patience", 0))


def descend(
    learner: GradientLearner, task: Task, run: GradientRun, stopped: Callable[[], bool]
) -> Iterator[UpdateReport]:
    """Update after update, each recorded, judged every so often; the start before them all."""

    def judge(tensors: Arrays) -> dict[str, float]:
        return learner.judge(task.scenarios, task.configs, tensors)

    def begin(figures: Iterable[str]) -> dict[str, float]:
        start = learner.start(task.scenarios, task.configs)
        judged = judge(start)
        if not task.resume:
            refuse_where_all_score_alike(start, judged, judge)
        run.begin(start, judged, figures)
        return judged

    updates = learner.train(task.scenarios, task.configs, task.workers, run.saved)
    turns = _turns(task)
    try:
        yield from live(run, updates, judge, turns=turns, stopped=stopped, begin=begin)
    finally:
        if isinstance(updates, Generator):
            updates.close()  # now, and not when the interpreter ends: it may hold a cluster
    if not run.best.began:  # an old run that is done
        begin(())


def _end(
    folder: Path, run: EvolutionRun | GradientRun, start: Arrays, confirm: Callable[[Arrays], Gains]
) -> str:
    """What is said of the run's best checkpoint: what was found before, where nothing was learned since."""
    known = read_improvement(folder)
    if known is not None:
        return Improvement.from_json(known).words
    best = run.best.tensors
    improved = Improvement() if same_weights(best, start) else improvement(confirm(start), confirm(best))
    run.end(improved, start)
    return improved.words


def _status_of(learner: GradientLearner, report: UpdateReport) -> RunStatus:
    update = report.update
    text = f"{update.figures['steps']:,.0f} steps, {update.figures['steps_per_second']:,.0f}/s"
    for name in learner.tells:
        if math.isfinite(update.figures[name]):  # no episode has ended yet, nothing was learned from
            text += f", {name} {update.figures[name]:{_FORMATS.get(name, '.2f')}}"
    line = ""
    if report.validation is not None:
        line = f"{text}; held out: {_by_scenario(report.validation)}"
        line += " (best so far)" if report.is_best else ""
    return RunStatus(update.number, update.total, text, line)


def _by_scenario(gains: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {gain:+.2f}" for name, gain in gains.items())
