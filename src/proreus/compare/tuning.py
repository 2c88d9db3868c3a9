"""A policy trained for one user's work, judged beside every rule, and what is said of it in plain words."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proreus.compare.statistics import Difference, paired_difference
from proreus.compare.trials import Task, TrialResult, run_trials
from proreus.compare.wording import number, signed
from proreus.contract.scenario import Scenario
from proreus.contract.world import World
from proreus.learning.learner import learner_at
from proreus.learning.specialist import Specialist, specialise
from proreus.model.errors import UsageError
from proreus.model.estimate import Estimate, estimate
from proreus.model.files import make_folder, write_atomically
from proreus.model.measure import Measure
from proreus.policies.catalogue import LEARNED
from proreus.policies.checkpoint import save_checkpoint
from proreus.workers.processes import Workers, pool_of
from proreus.worlds import registered

CANDIDATE, REPORT = "candidate", "report.md"
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
        if not 2 <= self.seeds <= 1_000:
            raise UsageError(f"--seeds {self.seeds} is outside 2..1000: one allows no interval")


@dataclass(frozen=True)
class Judged:
    """Every policy on the held-out part, in the measure that decides."""

    measure: Measure
    results: tuple[TrialResult, ...]
    rules: tuple[str, ...]
    trained: bool

    @property
    def means(self) -> dict[str, Estimate]:
        """Policy -> mean with its interval, best first; equals in the order they were played."""
        names = dict.fromkeys(result.policy for result in self.results)
        found = {name: estimate(self._values(name)) for name in names}
        return dict(sorted(found.items(), key=lambda item: -self._sign * item[1].mean))

    @property
    def best_rule(self) -> str:
        """The one with the best mean."""
        return next(name for name in self.means if name in self.rules)

    @property
    def advice(self) -> str:
        """What to use: what is significantly ahead of the best rule, and of what ships and is so, too."""
        shipped = self.is_ahead(LEARNED)
        if self.is_ahead(CANDIDATE) and (not shipped or self.is_ahead(CANDIDATE, LEARNED)):
            return CANDIDATE
        return LEARNED if shipped else self.best_rule

    def is_ahead(self, name: str, over: str = "") -> bool:
        """Whether it is better than `over`, the best rule where nothing is named, and that not by chance."""
        found = self.gain(name, over)
        return found is not None and found.significant and found.estimate.mean > 0

    def gain(self, name: str, over: str = "") -> Difference | None:
        """How much better than `over`, the best rule where nothing is named; more is better."""
        found = paired_difference(self.results, self.measure.name, name, over or self.best_rule)
        if found is None or self._sign > 0:
            return found
        values = tuple(-value for value in found.values)
        return replace(found, values=values, estimate=estimate(values))

    @property
    def _sign(self) -> float:
        return 1.0 if self.measure.better == "higher" else -1.0

    def _values(self, name: str) -> list[float]:
        return [one.measures[self.measure.name] for one in self.results if one.policy == name]


def tune(world: World, wish: Wish, say: Callable[[str], None]) -> Judged:
    """Judge the rules, train for the rest of the time, judge what was trained, write what came of it."""
    begin = time.monotonic()
    make_folder(wish.folder)  # before the work: it may not be possible
    catalogue = world.policies(wish.scenario)
    rules = tuple(name for name in catalogue.rules if name != _PLANS)
    shipped = (*rules, LEARNED) if catalogue.shipped is not None else rules
    held_out = wish.scenario.of_part("test")
    say(f"judging {len(shipped)} policies on {wish.seeds} draws of the held-out part of {held_out.name}")
    results = _judge(world, wish, held_out, shipped)
    measure = next(name for name in held_out.headings.deciding if name in results[0].measures)
    judged = Judged(world.measures[measure], results, rules, trained=False)
    say(f"best rule: {judged.best_rule}, {_with_interval(judged.means[judged.best_rule], judged.measure)}")
    specialist = specialist_of(world)
    if specialist is not None and specialist.measure == measure:
        took = time.monotonic() - begin
        until = begin + 60 * wish.minutes - _LAST_JUDGEMENT * took / len(shipped)
        for line in _train(specialist, wish, until):
            say(line)
        found = _judge(world, wish, held_out, (str(wish.folder / CANDIDATE),))
        renamed = tuple(replace(result, policy=CANDIDATE) for result in found)
        judged = replace(judged, results=(*results, *renamed), trained=True)
    write_atomically(wish.folder / REPORT, page(judged, wish, time.monotonic() - begin).encode())
    return judged


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


def _train(specialist: Specialist, wish: Wish, until: float) -> Iterator[str]:
    """Train until that moment; the best so far is always in the folder."""
    learner = specialist.learner
    config = replace(learner.configs[0], seed=wish.seed)
    with pool_of(wish.workers, config.population, threads=learner.threads) as pool:
        for trained in specialise(learner, wish.scenario, config, pool, until):
            if trained.line:
                save_checkpoint(wish.folder / CANDIDATE, trained.checkpoint)
                yield trained.line
        yield f"the best is of generation {trained.generations}"


def page(judged: Judged, wish: Wish, seconds: float) -> str:
    """The report: what you gain, how sure that is, what to watch."""
    means, measure, best = judged.means, judged.measure, judged.best_rule
    lines = [f"# {wish.scenario.name}: {headline(judged, wish)}", ""]
    lines += ["## What you gain", "", *_gains(judged), ""]
    lines += ["## How sure that is", ""]
    lines += [
        f"Every policy met the same {wish.seeds} draws of work from the held-out part (the end of what was "
        "given), which nobody was trained or chosen on. Intervals are 95 % Student-t intervals; gains are "
        "paired by draw. The best rule is named after the fact, by its mean on the very same draws, which "
        "favours the rule.",
        "",
        f"| policy | {measure.in_words}, {measure.unit} | against {best} |",
        "|---|---|---|",
    ]
    for name, mean in means.items():
        gain = judged.gain(name)
        told = "" if gain is None or name == best else _signed_interval(gain.estimate)
        lines.append(f"| {name} | {_with_interval(mean, measure)} | {told} |")
    lines += ["", "## What to watch", "", *_cautions(judged), ""]
    lines += [f"Made in {seconds / 60:.1f} minutes with `--seed {wish.seed}`.", ""]
    return "\n".join(lines)


def headline(judged: Judged, wish: Wish) -> str:
    """What to do, in one line."""
    if judged.advice == CANDIDATE:
        return f"use the policy that was trained for it, --policy {wish.folder / CANDIDATE}"
    return f"use {judged.advice}"


def _gains(judged: Judged) -> list[str]:
    advice, best = judged.advice, judged.best_rule
    gain = judged.gain(advice)
    if advice == best or gain is None:
        tried = (
            " Neither what was trained nor what ships is ahead of it by more than chance." * judged.trained
        )
        return [f"Nothing beats the rule `{best}` here.{tried}"]
    unit = "points" if judged.measure.unit.startswith("%") else judged.measure.unit
    lines = [
        f"`{advice}` is {_signed_interval(gain.estimate)} {unit} better than `{best}`, the best rule, in "
        f"{judged.measure.in_words}; ahead in {sum(value > 0 for value in gain.values)} of "
        f"{len(gain.values)} draws."
    ]
    if advice == CANDIDATE and (over := judged.gain(advice, LEARNED)) is not None:
        lines.append(f"Against `{LEARNED}`, which ships: {_signed_interval(over.estimate)} {unit}.")
    if judged.trained and advice != CANDIDATE:
        lines.append("What was trained is not ahead of that by more than chance: use what ships.")
    return lines


def _cautions(judged: Judged) -> list[str]:
    lines = [
        "- The draws are of the work that was given. Where yours changes (other sizes, other GPUs, more CPU "
        "for each GPU), tune again.",
        "- Of files, pods are drawn one by one and stay until the nodes are full: this is about room, not "
        "about time spent waiting.",
    ]
    if not judged.trained:
        lines.append("- Nothing was trained: what decides here is not what a specialist learns.")
    return lines


def _with_interval(found: Estimate, measure: Measure) -> str:
    half = "" if found.half is None else f" ± {number(found.half, 2)}"
    return f"{number(found.mean, 2)}{half} {measure.unit}".strip()


def _signed_interval(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return signed(found.mean, 2)
    return f"{signed(found.mean, 2)} ({signed(found.low, 2)} to {signed(found.high, 2)})"


def as_json(judged: Judged, wish: Wish) -> Mapping[str, Any]:
    """For --json."""

    def told(found: Estimate | None) -> Mapping[str, Any] | None:
        return None if found is None else {"mean": found.mean, "low": found.low, "high": found.high}

    gains: Sequence[tuple[str, Difference | None]] = [(name, judged.gain(name)) for name in judged.means]
    return {
        "scenario": wish.scenario.name,
        "measure": judged.measure.name,
        "advice": judged.advice,
        "best_rule": judged.best_rule,
        "checkpoint": str(wish.folder / CANDIDATE) if judged.advice == CANDIDATE else None,
        "means": {name: told(mean) for name, mean in judged.means.items()},
        "gains": {name: told(gain.estimate) for name, gain in gains if gain is not None},
    }
