"""What `tune` found, in plain words: one page for a reader, one object for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proreus.compare.advice import CANDIDATE, MOST_DRAWS, Judged, Training, draws_to_tell
from proreus.compare.number_format import number, signed
from proreus.compare.statistics import Difference
from proreus.model.estimate import Estimate
from proreus.model.measure import Measure
from proreus.policies.catalogue import LEARNED

_DIGITS = 2


@dataclass(frozen=True)
class About:
    """What a page is about."""

    scenario: str
    checkpoint: Path
    """Where what was trained lies, where it is handed out."""
    seconds: float
    """That all of it took."""
    seed: int
    beside: tuple[Measure, ...] = ()
    """Told beside the measure that decides."""
    cautions: tuple[str, ...] = ()
    """What to watch in this world."""


def page(judged: Judged, about: About) -> str:
    """The report: what you gain, how sure that is, what to watch."""
    means, measure, best, digits = judged.means, judged.measure, judged.best_rule, digits_of(judged)
    lines = [f"# {about.scenario}: {headline(judged, about.checkpoint)}", ""]
    lines += ["## What you gain", "", *(f"- {line}" for line in findings(judged)), ""]
    lines += ["## How sure that is", ""]
    lines += [
        f"Every policy met the same {means[best].n} draws of work from the held-out part, which nobody "
        "was trained or chosen on. Intervals are 95 % Student-t intervals; gains "
        "are paired by draw. The best rule is named after the fact, by its mean on the very same draws, "
        "which favours the rule.",
        "",
        f"| policy | {_heading(measure)} | against {best} |"
        + "".join(f" {_heading(other)} |" for other in about.beside),
        "|---|---|---|" + "---|" * len(about.beside),
    ]
    for name, mean in means.items():
        gain = judged.gain(name)
        signed_interval = "" if gain is None or name == best else _signed_interval(gain.estimate, digits)
        more = (f" {judged.mean_of(other.name, name):.3g} |" for other in about.beside)
        lines.append(
            f"| {name} | {with_interval(mean, measure, digits)} | {signed_interval} |" + "".join(more)
        )
    lines += ["", "## What to watch", "", *(f"- {line}" for line in _cautions(judged, about)), ""]
    lines += [f"Made in {about.seconds / 60:.1f} minutes with `--seed {about.seed}`.", ""]
    return "\n".join(lines)


def _heading(measure: Measure) -> str:
    return f"{measure.in_words}, {measure.unit}" if measure.unit else measure.in_words


def headline(judged: Judged, checkpoint: Path) -> str:
    """What to do, in one line."""
    if judged.advice == CANDIDATE:
        return f"use the policy that was trained for it, --policy {checkpoint}"
    return f"use {judged.advice}"


def findings(judged: Judged) -> list[str]:
    """Why that is the advice: what was trained, what ships and the rules, each with its interval."""
    lines = []
    if judged.training is Training.JUDGED:
        lines.append(_against_rule(judged, CANDIDATE))
        if (over := judged.gain(CANDIDATE, LEARNED)) is not None:
            lines.append(f"{_compared(judged, over)}, which ships.")
        if judged.advice != CANDIDATE:
            lines.append("So what was trained is not handed out.")
    elif judged.training is Training.START_STAYED:
        ships = ", which ships" if judged.start == LEARNED else ""
        lines.append(
            f"Training found nothing better than its start, `{judged.start}`{ships}, in {judged.tried} "
            "generations: nothing to hand out."
        )
    if LEARNED in judged.means:
        lines.append(_against_rule(judged, LEARNED))
    return [*lines, *_about_rules(judged)]


def _about_rules(judged: Judged) -> list[str]:
    """Which rule, and how sure that is; nothing where another policy is the advice."""
    use, level = judged.rule_to_use, judged.level_rules
    if judged.advice != use:
        return []
    if not level:
        return [f"`{use}` is ahead of every other rule by more than chance."]
    draws = judged.means[use].n
    names = ", ".join(f"`{name}`" for name in level)
    lines = [f"{draws} draws cannot tell these rules from `{use}`: {names}."]
    if use == judged.strongest:
        lines.append(f"Of these `{use}` is the strongest rule known for this kind of work.")
    gain = judged.gain(level[0], use)
    if gain is not None and not gain.always_same:
        more = draws_to_tell(gain)
        outlook = f"about {more} draws (--seeds {more}) would" if more else f"not even {MOST_DRAWS} draws may"
        lines.append(f"{_compared(judged, gain)}; if it stays so, {outlook} tell them apart.")
    return lines


def _against_rule(judged: Judged, name: str) -> str:
    best = judged.best_rule
    gain = judged.gain(name)
    if gain is None:
        return f"`{name}` and `{best}`, the best rule, have no draw in common."
    ahead = sum(value > 0 for value in gain.values)
    which = "the rule with the best mean" if judged.level_rules else "the best rule"
    return f"{_compared(judged, gain)}, {which}; ahead in {ahead} of {len(gain.values)} draws."


def _compared(judged: Judged, gain: Difference) -> str:
    """Which of the two is ahead and by how much, or that they cannot be told apart."""
    unit = "points" if judged.measure.unit.startswith("%") else judged.measure.unit
    interval, what = (
        f"{_signed_interval(gain.estimate, digits_of(judged))} {unit}".strip(),
        judged.measure.in_words,
    )
    if not gain.significant:
        return f"`{gain.policy}` cannot be told from `{gain.baseline}` in {what}, {interval}"
    better = "ahead of" if gain.estimate.mean > 0 else "behind"
    return f"`{gain.policy}` is {better} `{gain.baseline}` in {what}, {interval}"


def _cautions(judged: Judged, about: About) -> list[str]:
    lines = list(about.cautions)
    if judged.training is Training.NOT_DONE:
        lines.append("Nothing was trained: what decides here is not what a specialist learns.")
    return lines


def with_interval(estimate: Estimate, measure: Measure, digits: int = _DIGITS) -> str:
    """A mean, how sure it is, and its unit."""
    half = "" if estimate.half is None else f" ± {number(estimate.half, digits)}"
    return f"{number(estimate.mean, digits)}{half} {measure.unit}".strip()


def digits_of(judged: Judged) -> int:
    """Behind the point: more where all that was measured is small."""
    largest = max(abs(mean.mean) for mean in judged.means.values())
    return _DIGITS if largest >= 1 else 2 * _DIGITS


def _signed_interval(estimate: Estimate, digits: int) -> str:
    if estimate.low is None or estimate.high is None:
        return signed(estimate.mean, digits)
    return (
        f"{signed(estimate.mean, digits)} ({signed(estimate.low, digits)} to {signed(estimate.high, digits)})"
    )


def as_json(judged: Judged, about: About) -> Mapping[str, Any]:

    def interval_of(estimate: Estimate | None) -> Mapping[str, Any] | None:
        return (
            None if estimate is None else {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
        )

    gains: Sequence[tuple[str, Difference | None]] = [(name, judged.gain(name)) for name in judged.means]
    return {
        "scenario": about.scenario,
        "measure": judged.measure.name,
        "advice": judged.advice,
        "best_rule": judged.best_rule,
        "level_rules": list(judged.level_rules),
        "training": judged.training.value,
        "checkpoint": str(about.checkpoint) if judged.advice == CANDIDATE else None,
        "means": {name: interval_of(mean) for name, mean in judged.means.items()},
        "gains": {name: interval_of(gain.estimate) for name, gain in gains if gain is not None},
    }
