"""A policy trained for one user's work, judged beside every rule, and handed out where it is better."""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from proreus.compare.advice import CANDIDATE, MOST_DRAWS, Judged, Training
from proreus.compare.folders import keep_earlier, only_one_writes
from proreus.compare.trials import Task, TrialResult, run_trials
from proreus.compare.tuning_page import About, page, with_interval
from proreus.contract.scenario import Scenario
from proreus.contract.world import World
from proreus.learning.learner import learner_at
from proreus.learning.specialist import Specialist, Trained, specialise
from proreus.model.errors import UsageError
from proreus.model.files import write_atomically
from proreus.policies.catalogue import LEARNED
from proreus.policies.checkpoint import save_checkpoint
from proreus.workers.processes import Workers, pool_of
from proreus.worlds import registered

REPORT = "report.md"
_UNFINISHED = "unfinished"
"""Where what was trained waits to be judged."""
LEAST_DRAWS = 5
"""With fewer an interval is so wide that hardly anything can be told apart."""
_PLANS = "planner"
"""No rule: it plays futures with one, and would take all the time there is."""
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

    def about(self, seconds: float = 0.0) -> About:
        """For what is told of it."""
        return About(self.scenario.name, self.folder / CANDIDATE, seconds, self.seed)


def tune(world: World, wish: Wish, say: Callable[[str], None]) -> Judged:
    """Judge the rules, train for the rest of the time, judge what was trained, write what came of it."""
    with only_one_writes(wish.folder):  # before the work: it may not be possible
        _forget_unfinished(wish.folder)
        try:
            return _tune(world, wish, say)
        finally:
            _forget_unfinished(wish.folder)


def _tune(world: World, wish: Wish, say: Callable[[str], None]) -> Judged:
    begin = time.monotonic()
    catalogue = world.policies(wish.scenario)
    rules = tuple(name for name in catalogue.rules if name != _PLANS)
    shipped = (*rules, LEARNED) if catalogue.shipped is not None else rules
    held_out = wish.scenario.of_part("test")
    say(f"judging {len(shipped)} policies on {wish.seeds} draws of the held-out part of {held_out.name}")
    results = _judge(world, wish, held_out, shipped)
    measure = next(name for name in held_out.headings.deciding if name in results[0].measures)
    specialist = specialist_of(world)
    strongest = specialist.strongest_rule(measure) if specialist is not None else ""
    judged = Judged(world.measures[measure], results, rules, Training.NOT_DONE, strongest)
    say(f"best rule: {judged.best_rule}, {with_interval(judged.means[judged.best_rule], judged.measure)}")
    if specialist is not None and specialist.measure == measure:
        took = time.monotonic() - begin
        until = begin + 60 * wish.minutes - _LAST_JUDGEMENT * took / len(shipped)
        trained = _train(specialist, wish, until, say)
        if trained.generations == 0:
            judged = replace(judged, training=Training.START_STAYED)
        else:
            # Under a name that says so, until it is judged: whoever is killed here hands nothing out.
            save_checkpoint(wish.folder / _UNFINISHED, trained.checkpoint)
            found = _judge(world, wish, held_out, (str(wish.folder / _UNFINISHED),))
            renamed = tuple(replace(result, policy=CANDIDATE) for result in found)
            judged = replace(judged, results=(*results, *renamed), training=Training.JUDGED)
    _hand_out(judged, wish, time.monotonic() - begin, say)
    return judged


def _hand_out(judged: Judged, wish: Wish, seconds: float, say: Callable[[str], None]) -> None:
    """The report, and what was trained where it is better; what another run handed out is kept."""
    kept = keep_earlier(wish.folder, (REPORT, CANDIDATE))
    if kept is not None:
        say(f"what was here before is kept: {kept}")
    if judged.advice == CANDIDATE:
        (wish.folder / _UNFINISHED).rename(wish.folder / CANDIDATE)
    write_atomically(wish.folder / REPORT, page(judged, wish.about(seconds)).encode())


def _forget_unfinished(folder: Path) -> None:
    """What was trained and not handed out, by this run or by one that was killed."""
    shutil.rmtree(folder / _UNFINISHED, ignore_errors=True)


def specialist_of(world: World) -> Specialist | None:
    """What the world trains for a user; None: nothing."""
    if not world.specialist:
        return None
    learner_at(world.learners["es"])  # one line where a package is missing
    module, _, name = world.specialist.partition(":")
    found: Specialist = getattr(importlib.import_module(module), name)
    return found


def _judge(
    world: World, wish: Wish, held_out: Scenario, policies: tuple[str, ...]
) -> tuple[TrialResult, ...]:
    home = registered()[world.name]
    tasks = [Task(held_out, seed, policies, None, world.name, home) for seed in range(wish.seeds)]
    return run_trials(tasks, wish.workers)


def _train(specialist: Specialist, wish: Wish, until: float, say: Callable[[str], None]) -> Trained:
    """The best that was found until that moment."""
    learner = specialist.learner
    config = replace(learner.configs[0], seed=wish.seed)
    with pool_of(wish.workers, config.population, threads=learner.threads) as pool:
        for trained in specialise(learner, wish.scenario, config, pool, until):
            if trained.line:
                say(trained.line)
    if trained.generations:
        say(f"the best is of generation {trained.generations}")
    else:
        say("no generation was better than the start, which is what ships")
    return trained
