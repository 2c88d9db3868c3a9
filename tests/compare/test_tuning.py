"""What `tune` says follows from what was measured, and nothing that is no better is handed out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from proreus.compare.trials import TrialResult
from proreus.compare.tuning import CANDIDATE, Judged, Wish, headline, page
from proreus.model.errors import UsageError
from proreus.model.measure import Measure
from proreus.workers.processes import Workers
from proreus.worlds import world

ROOM = Measure("room", "%", "higher", "room")
LEFT_OUT = Measure("left_out", "pods", "lower", "pods left out")
EVEN = (0.0, 0.1, -0.1, 0.05)


def judged(means: Mapping[str, float], *, measure: Measure = ROOM, noise: Sequence[float] = EVEN) -> Judged:
    """Four draws: each policy has its mean, and `candidate` that and some noise."""
    results = tuple(
        TrialResult("work", name, seed, {measure.name: mean + (shift if name == CANDIDATE else 0.0)}, None)
        for name, mean in means.items()
        for seed, shift in enumerate(noise)
    )
    rules = tuple(name for name in means if name not in (CANDIDATE, "learned"))
    return Judged(measure, results, rules, trained=CANDIDATE in means)


def wish(folder: Path = Path("out")) -> Wish:
    return Wish(world("pods").flags().chosen("gpu"), 1.0, 4, folder, Workers(1))


def test_what_is_ahead_of_every_rule_is_handed_out() -> None:
    found = judged({"fgd": 90.0, "kube": 91.0, "learned": 92.0, CANDIDATE: 93.0})
    assert (found.best_rule, found.advice) == ("kube", CANDIDATE)
    text = page(found, wish(), 60.0)
    assert "use the policy that was trained for it, --policy out/candidate" in text
    assert "+2.01 (+1.88 to +2.15) points better than `kube`" in text
    assert "Against `learned`, which ships: +1.01" in text


def test_what_is_behind_what_ships_is_not() -> None:
    found = judged({"fgd": 90.0, "learned": 92.0, CANDIDATE: 91.0})
    assert headline(found, wish()) == "use learned"
    assert "What was trained is not ahead of that by more than chance" in page(found, wish(), 60.0)


def test_what_cannot_be_told_from_what_ships_is_not_either() -> None:
    found = judged({"fgd": 90.0, "learned": 92.0, CANDIDATE: 92.01})
    assert found.is_ahead(CANDIDATE) and found.advice == "learned"


def test_a_lead_that_may_be_chance_is_none() -> None:
    found = judged({"fgd": 90.0, "learned": 89.0, CANDIDATE: 90.5}, noise=(-3.0, 3.0, -2.0, 2.0))
    assert found.advice == "fgd"
    assert "Nothing beats the rule `fgd` here. Neither what was trained" in page(found, wish(), 60.0)


def test_less_is_better_where_the_measure_says_so() -> None:
    found = judged({"fgd": 50.0, "kube": 40.0, "learned": 45.0}, measure=LEFT_OUT)
    assert (found.best_rule, found.advice, list(found.means)) == ("kube", "kube", ["kube", "learned", "fgd"])
    gain = found.gain("fgd")
    assert gain is not None and gain.estimate.mean == -10.0
    assert "Nothing was trained" in page(found, wish(), 60.0)


@pytest.mark.parametrize(("minutes", "seeds"), [(0.0, 4), (math.nan, 4), (1.0, 1)])
def test_senseless_wishes_are_refused(minutes: float, seeds: int) -> None:
    with pytest.raises(UsageError, match=r"--minutes|--seeds"):
        Wish(world("pods").flags().chosen("gpu"), minutes, seeds, Path("out"), Workers(1))
