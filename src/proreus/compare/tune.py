"""A policy trained for one user's work, judged beside every rule, and handed out where it is better."""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from proreus.compare.advice import CANDIDATE, MOST_DRAWS, Judged, Training
from proreus.compare.output_folder import keep_earlier, only_one_writes
from proreus.compare.trials import TrialResult, TrialTask, run_trials
from proreus.compare.tune_page import About, digits_of, page, with_interval
from proreus.contract.scenario import Scenario
from proreus.contract.world import World
from proreus.learning.learner import learner_at
from proreus.learning.specialist import Search, Specialist, TrainedSpecialist, specialise
from proreus.model.errors import UsageError
from proreus.model.files import write_atomically
from proreus.policies.catalogue import LEARNED, PLANNER
from proreus.policies.checkpoint import save_checkpoint
from proreus.workers.processes import Workers, pool_of
from proreus.worlds import registered

REPORT = "report.md"
_UNFINISHED = "unfinished"
"""Where what was trained waits to be judged."""
LEAST_DRAWS = 5
"""With fewer an interval is so wide that hardly anything can be told apart."""
_LAST_JUDGEMENT = 2.0
"""How much longer than a rule, on average, the candidate may take to be judged."""


@dataclass(frozen=True)
class Wish:
    """What is asked for."""

    scenario: Scenario
    """Draws other work for every seed, from parts that never meet."""
    minutes: float
    seeds: int
    """Draws of the held-out part that everything is judged on."""
    folder: Path
    """Where the checkpoint and the report go."""
    workers: Workers
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.minutes <= 24 * 60:
            raise UsageError(f"--minutes {self.minutes:g} is not above 0 and at most a day")
        if not LEAST_DRAWS <= self.seeds <= MOST_DRAWS:
            raise UsageError(
                f"--seeds {self.seeds} is outside {LEAST_DRAWS}..{MOST_DRAWS}: fewer tell nothing apart"
            )

    @property
    def checkpoint(self) -> Path:
        """Where what was trained lies, where it is handed out."""
        return self.folder / CANDIDATE


def tune(world: World, wish: Wish, say: Callable[[str], None]) -> tuple[Judged, About]:
    """Judge the rules, train for the rest of the time, judge what was trained, write what came of it."""
    with only_one_writes(wish.folder):  # before the work: it may not be possible
        _forget_unfinished(wish.folder)
        try:
            return _tune(world, wish, say)
        finally:
            _forget_unfinished(wish.folder)


def _tune(world: World, wish: Wish, say: Callable[[str], None]) -> tuple[Judged, About]:
    begin, specialist = time.monotonic(), specialist_of(world)
    judged = _without_training(world, specialist, wish, say)
    learner = specialist.learners.get(judged.measure.name)
    if learner is not None:
        took = time.monotonic() - begin
        until = begin + 60 * wish.minutes - _LAST_JUDGEMENT * took / len(judged.means)
        config = replace(learner.configs[0], seed=wish.seed)
        search = Search(learner, wish.scenario, config, specialist.starts(wish.scenario))
        judged = _with_training(world, wish, judged, _train(search, wish.workers, until, say))
    measured = judged.results[0].measures
    about = About(
        scenario=wish.scenario.name,
        checkpoint=wish.checkpoint,
        seconds=time.monotonic() - begin,
        seed=wish.seed,
        beside=tuple(world.measures[name] for name in specialist.beside if name in measured),
        cautions=(*specialist.cautions, *_repeated(wish)),
    )
    _hand_out(judged, wish, page(judged, about), say)
    return judged, about


def _without_training(world: World, specialist: Specialist, wish: Wish, say: Callable[[str], None]) -> Judged:
    """Every rule and what ships."""
    catalogue = world.policies(wish.scenario)
    # A planner would take all the time there is.
    rules = (*(name for name in catalogue.rules if name != PLANNER), *specialist.rivals)
    shipped = (*rules, LEARNED) if catalogue.shipped is not None else rules
    say(f"judging {len(shipped)} policies on {wish.seeds} draws of the held-out part of {wish.scenario.name}")
    results = _judge(world, wish, shipped)
    measure = next(name for name in wish.scenario.headings.deciding if name in results[0].measures)
    strongest = specialist.strongest_rule(measure)
    judged = Judged(world.measures[measure], results, rules, Training.NOT_DONE, strongest)
    best = with_interval(judged.means[judged.best_rule], judged.measure, digits_of(judged))
    say(f"best rule: {judged.best_rule}, {best}")
    return judged


def _with_training(world: World, wish: Wish, judged: Judged, trained: TrainedSpecialist) -> Judged:
    """The same with what was trained, unless that is the start."""
    judged = replace(judged, start=trained.start, tried=trained.tried)
    if trained.generations == 0:
        return replace(judged, training=Training.START_STAYED)
    # Under a name that says so, until it is judged: whoever is killed here hands nothing out.
    save_checkpoint(wish.folder / _UNFINISHED, trained.checkpoint)
    trial_results = _judge(world, wish, (str(wish.folder / _UNFINISHED),))
    renamed = tuple(replace(result, policy=CANDIDATE) for result in trial_results)
    return replace(judged, results=(*judged.results, *renamed), training=Training.JUDGED)


def _repeated(wish: Wish) -> list[str]:
    """What the scenario says of draws that are no sample."""
    caution = wish.scenario.of_part("test").caution(range(wish.seeds))
    return [f"{caution}."] if caution else []


def _hand_out(judged: Judged, wish: Wish, report: str, say: Callable[[str], None]) -> None:
    """The report, and what was trained where it is better; what another run handed out is kept."""
    kept = keep_earlier(wish.folder, (REPORT, CANDIDATE))
    if kept is not None:
        say(f"what was here before is kept: {kept}")
    if judged.advice == CANDIDATE:
        (wish.folder / _UNFINISHED).rename(wish.checkpoint)
    write_atomically(wish.folder / REPORT, report.encode())


def _forget_unfinished(folder: Path) -> None:
    """What was trained and not handed out, by this run or by one that was killed."""
    shutil.rmtree(folder / _UNFINISHED, ignore_errors=True)


def specialist_of(world: World) -> Specialist:
    """What the world trains for a user."""
    if not world.specialist:
        raise UsageError(f"nothing can be trained for you in the world {world.name!r}")
    learner_at(world.learners["es"])  # one line where a package is missing
    module, _, name = world.specialist.partition(":")
    specialist: Specialist = getattr(importlib.import_module(module), name)
    return specialist


def _judge(world: World, wish: Wish, policies: tuple[str, ...]) -> tuple[TrialResult, ...]:
    home, held_out = registered()[world.name], wish.scenario.of_part("test")
    tasks = [TrialTask(held_out, seed, policies, None, world.name, home) for seed in range(wish.seeds)]
    return run_trials(tasks, wish.workers)


def _train(search: Search, workers: Workers, until: float, say: Callable[[str], None]) -> TrainedSpecialist:
    """The best that was found until that moment."""
    with pool_of(workers, search.config.population, threads=search.learner.threads) as pool:
        for trained in specialise(search, pool, until):
            if trained.line:
                say(trained.line)
    if trained.generations:
        say(f"the best is generation {trained.generations} of {trained.tried}")
    else:
        say(f"of {trained.tried} generations none was better than the start, {trained.start}")
    return trained
