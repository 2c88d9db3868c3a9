"""What `tune` says follows from what was measured, and nothing that is no better is handed out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from proreus.compare.advice import CANDIDATE, Judged, Training, draws_to_tell
from proreus.compare.statistics import Difference
from proreus.compare.trials import TrialResult
from proreus.compare.tune import Wish
from proreus.compare.tune_page import About, headline, page
from proreus.model.errors import UsageError
from proreus.model.estimate import student_t_quantile
from proreus.model.measure import Measure
from proreus.workers.processes import Workers
from proreus.worlds import world

ROOM = Measure("room", "%", "higher", "room")
LEFT_OUT = Measure("left_out", "pods", "lower", "pods left out")
EVEN = (0.0, 0.1, -0.1, 0.05)


def judged(means: Mapping[str, float], *, measure: Measure = ROOM, noise: Sequence[float] = EVEN) -> Judged:
    """Four draws: each policy has its mean, and `candidate` that and some noise."""
    return judged_with(means, {CANDIDATE: noise}, measure)


def judged_with(
    means: Mapping[str, float], shifts: Mapping[str, Sequence[float]], measure: Measure = ROOM
) -> Judged:
    """Four draws: each policy has its mean, and the shifts that it has."""
    results = tuple(
        TrialResult("work", name, seed, {measure.name: mean + shift}, None)
        for name, mean in means.items()
        for seed, shift in enumerate(shifts.get(name, (0.0,) * 4))
    )
    rules = tuple(name for name in means if name not in (CANDIDATE, "learned"))
    return Judged(measure, results, rules, Training.JUDGED if CANDIDATE in means else Training.NOT_DONE)


def significant_with(gain: Difference, draws: int) -> bool:
    """Whether so many draws of that mean and spread leave out zero."""
    deviation = statistics.stdev(gain.values)
    half = student_t_quantile(0.975, draws - 1) * deviation / math.sqrt(draws)
    return half < abs(gain.estimate.mean)


ABOUT = About("work", Path("out/candidate"), 60.0, seed=0)


def report_of(judgement: Judged) -> str:
    return page(judgement, ABOUT)


def test_what_is_ahead_of_every_rule_and_of_what_ships_is_handed_out() -> None:
    judgement = judged({"fgd": 90.0, "kube": 91.0, "learned": 92.0, CANDIDATE: 93.0})
    assert (judgement.best_rule, judgement.advice) == ("kube", CANDIDATE)
    assert "use the policy that was trained for it, --policy out/candidate" in report_of(judgement)
    assert (
        "`candidate` is ahead of `kube` in room, +2.01 (+1.88 to +2.15) points, the best rule"
        in report_of(judgement)
    )
    assert "`candidate` is ahead of `learned` in room, +1.01 (+0.88 to +1.15) points" in report_of(judgement)
    assert "`learned` is ahead of `kube` in room, +1.00" in report_of(judgement)


def test_what_is_behind_what_ships_is_not() -> None:
    judgement = judged({"fgd": 90.0, "learned": 92.0, CANDIDATE: 91.0})
    assert headline(judgement, ABOUT.checkpoint) == "use learned"
    assert "`candidate` is behind `learned`" in report_of(judgement) and "is not handed out" in report_of(
        judgement
    )


def test_what_cannot_be_told_from_what_ships_is_not_either() -> None:
    judgement = judged({"fgd": 90.0, "learned": 92.0, CANDIDATE: 92.01})
    assert judgement.is_ahead(CANDIDATE) and judgement.advice == "learned"
    assert "`candidate` cannot be told from `learned`" in report_of(judgement)


def test_nor_where_what_ships_is_not_surely_ahead_itself() -> None:
    shifts = {"learned": (0.9, -1.3, 0.5, -0.6), CANDIDATE: EVEN}
    judgement = judged_with({"fgd": 90.0, "learned": 91.0, CANDIDATE: 91.1}, shifts)
    assert judgement.is_ahead(CANDIDATE) and not judgement.is_ahead("learned")
    assert judgement.advice == "learned"
    assert "`learned` cannot be told from `fgd`" in report_of(judgement)


def test_what_is_small_has_more_digits() -> None:
    small = judged({"fgd": 0.004, "kube": 0.01}, measure=LEFT_OUT)
    assert "| fgd | 0.0040 ± 0.0000 pods |" in report_of(small) and "−0.0060" in report_of(small)


def test_what_stands_beside_the_measure_and_what_to_watch_are_the_worlds() -> None:
    results = judged({"fgd": 90.0, "kube": 80.0}).results
    both = tuple(
        replace(trial_result, measures={**trial_result.measures, "left_out": 3.0}) for trial_result in results
    )
    judgement = replace(judged({"fgd": 90.0, "kube": 80.0}), results=both)
    text = page(judgement, replace(ABOUT, beside=(LEFT_OUT,), cautions=("Mind the gap.",)))
    assert "| policy | room, % | against fgd | pods left out, pods |" in text
    assert "| kube | 80.00 ± 0.00 % | −10.00 (−10.00 to −10.00) | 3 |" in text
    assert "- Mind the gap." in text


def test_a_start_that_is_a_rule_is_called_so() -> None:
    judgement = replace(judged({"fgd": 90.0, "learned": 92.0}), training=Training.START_STAYED, start="fgd")
    assert (
        "Training found nothing better than its start, `fgd`, in 0 generations: nothing to hand out."
        in report_of(judgement)
    )


def test_a_start_that_no_generation_beat_is_not_handed_out() -> None:
    judgement = replace(judged({"fgd": 90.0, "learned": 92.0}), training=Training.START_STAYED)
    assert judgement.advice == "learned"
    assert "Training found nothing better than its start, `learned`" in report_of(judgement)


def test_a_lead_that_may_be_chance_is_none() -> None:
    judgement = judged({"fgd": 90.0, "learned": 89.0, CANDIDATE: 90.5}, noise=(-3.0, 3.0, -2.0, 2.0))
    assert judgement.advice == "fgd"
    assert "`candidate` cannot be told from `fgd`" in report_of(judgement)
    assert "`fgd` is ahead of every other rule" in report_of(judgement)


def test_among_rules_that_cannot_be_told_apart_it_is_the_strongest_known() -> None:
    shifts = {"gpu_clustering": (3.0, -3.0, 2.0, -2.0)}
    judgement = judged_with({"fgd": 90.0, "gpu_clustering": 91.0, "kube": 70.0}, shifts)
    judgement = replace(judgement, strongest="fgd")
    assert (judgement.best_rule, judgement.advice, judgement.level_rules) == (
        "gpu_clustering",
        "fgd",
        ("gpu_clustering",),
    )
    assert "4 draws cannot tell these rules from `fgd`: `gpu_clustering`." in report_of(judgement)
    assert "`fgd` is the strongest rule known for this kind of work" in report_of(judgement)
    gain = judgement.gain("gpu_clustering", "fgd")
    assert gain is not None
    draws = draws_to_tell(gain)
    assert draws is not None and f"about {draws} draws (--seeds {draws}) would tell them apart" in report_of(
        judgement
    )
    assert significant_with(gain, draws) and not significant_with(gain, draws - 4)


def test_a_rule_that_is_surely_ahead_of_the_strongest_known_is_the_one() -> None:
    judgement = replace(judged({"fgd": 90.0, "kube": 91.0}), strongest="fgd")
    assert judgement.advice == "kube"


def test_what_no_number_of_draws_tells_apart() -> None:
    judgement = judged_with({"fgd": 90.0, "kube": 90.01}, {"kube": (3.0, -3.0, 2.0, -2.0)})
    gain = judgement.gain("kube", "fgd")
    assert gain is not None and draws_to_tell(gain) is None
    assert "not even 1000 draws may tell them apart" in report_of(judgement)


def test_less_is_better_where_the_measure_says_so() -> None:
    judgement = judged({"fgd": 50.0, "kube": 40.0, "learned": 45.0}, measure=LEFT_OUT)
    assert (judgement.best_rule, judgement.advice, list(judgement.means)) == (
        "kube",
        "kube",
        ["kube", "learned", "fgd"],
    )
    gain = judgement.gain("fgd")
    assert gain is not None and gain.estimate.mean == -10.0
    assert "Nothing was trained" in report_of(judgement)


@pytest.mark.parametrize(("minutes", "seeds"), [(0.0, 5), (math.nan, 5), (1.0, 4)])
def test_senseless_wishes_are_refused(minutes: float, seeds: int) -> None:
    with pytest.raises(UsageError, match=r"--minutes|--seeds"):
        Wish(world("pods").flags().chosen("gpu"), minutes, seeds, Path("out"), Workers(1))
