"""Imitation: what a teacher shows, what a pupil makes of it, and that its run goes on bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra learn")

from proreus.learning.gradient_run import GradientRun
from proreus.learning.run import Task, descend
from proreus.learning.run_folder import read_journal
from proreus.model.errors import UsageError, WorkError
from proreus.policies.checkpoint import load_checkpoint
from proreus.workers.processes import Workers
from proreus.worlds.pods.encoding.pair import DEVICE_LEFT, ORDER, VERSION
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.adaptive import rule_weights
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.rules.policy import LinearScorer
from proreus.worlds.pods.scenarios import Generated, PodScenario
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.devices import LEVEL, LEVELS
from proreus.worlds.pods.training.demonstrations import (
    SHARES_GPU,
    DemonstrationRecorder,
    Demonstrations,
    Taking,
    show,
)
from proreus.worlds.pods.training.imitation import (
    IMITATE,
    ImitationConfig,
    ImitationLessons,
    fitted,
    policy_of,
    starting_scorer,
)

SCENARIO = PodScenario(Generated("gpu", 8), PodsOptions(drop_failures=True))
CONFIG = ImitationConfig(steps=400, round_steps=100, futures=1, candidates=8)
LESSONS = ImitationLessons(train_seeds=2, validation_seeds=2, confirm_seeds=2)
WHOLE = Taking(1.0, 8)


@pytest.fixture(scope="module")
def work() -> Compiled:
    """A small cluster with GPUs."""
    return SCENARIO.load(3)


def rule() -> LinearScorer:
    """FGD as a pupil."""
    return LinearScorer(rule_weights(gpus=True), np.zeros((4, 4, 28)), np.zeros(4))


def shown_by(
    teacher: str, work: Compiled, player: LinearScorer | None = None, taking: Taking = WHOLE
) -> Demonstrations:
    """What a teacher shows in one run."""
    world = PodsWorld(work, SCENARIO.options)
    recorder = DemonstrationRecorder(world, rule(), taking, np.random.default_rng(0))
    return show(world, recorder, make_policy(teacher), None if player is None else policy_of(player))


def likes(shown: Demonstrations, scorer: LinearScorer) -> float:
    """Share of the choices in which the pupil scores highest what the teacher chose."""
    scores = np.einsum("dkf,df->dk", shown.rows.astype(np.float64), scorer.weights[shown.kind])
    if scorer.gaps.size:
        before, after = shown.levels()
        scores += scorer.gaps[after] - scorer.gaps[before]
    scores[np.arange(scores.shape[1]) >= shown.count[:, None]] = -np.inf
    return float((scores[:, 0] >= scores[:, 1:].max(axis=1)).mean())


def test_a_teacher_shows_what_it_chose_among(work: Compiled) -> None:
    shown = shown_by("worst_fit", work)
    decided = simulate(work, make_policy("worst_fit"), SCENARIO.options).measures["decisions"]
    assert 20 < len(shown) <= decided
    assert (shown.count >= 2).all() and (shown.count <= 8).all()
    assert set(shown.kind) == {0, 1, 2, 3} or SHARES_GPU in shown.kind
    assert ((shown.milli > 0) == (shown.kind == SHARES_GPU)).all()
    first = shown.rows[:, 0, :]
    for k in range(1, 8):
        there = shown.count > k
        assert (np.abs(first - shown.rows[:, k])[there].max(axis=1) > 0).all()  # no copy of what was chosen
    before, after = shown.levels()
    shared = shown.milli > 0
    left = shown.rows[shared, 0, DEVICE_LEFT]
    assert after[shared, 0] * LEVEL == pytest.approx(1000 * left, abs=LEVEL)
    assert ((before - after)[shared, 0] * LEVEL).tolist() == pytest.approx(shown.milli[shared], abs=LEVEL)
    assert not before[~shared].any() and not after[~shared].any()


def test_a_teacher_that_chooses_as_the_pupil_is_agreed_with(work: Compiled) -> None:
    """What is recorded is what the scorer would see: recording and playing use one encoding."""
    pupil = rule()
    world = PodsWorld(work, SCENARIO.options)
    shown = show(
        world, DemonstrationRecorder(world, pupil, WHOLE, np.random.default_rng(0)), policy_of(pupil), None
    )
    assert len(shown) > 20 and likes(shown, pupil) == 1.0


def test_the_pupil_may_play_while_the_teacher_says_what_it_would_do(work: Compiled) -> None:
    spread, packed = shown_by("worst_fit", work), shown_by("worst_fit", work, rule())
    rows = [shown.rows[:, 0, ORDER].tolist() for shown in (spread, packed)]
    assert rows[0] != rows[1]
    assert likes(packed, rule()) < 0.9  # the choices are the teacher's, not the player's


def test_fewer_decisions_are_noted_where_fewer_are_asked_for(work: Compiled) -> None:
    whole, part = shown_by("fgd", work), shown_by("fgd", work, taking=Taking(0.3, 8))
    assert 0 < len(part) < 0.6 * len(whole)


def test_a_pupil_learns_another_rule(work: Compiled) -> None:
    shown = shown_by("worst_fit", work)
    before = likes(shown, rule())
    linear_scorer, figures = fitted(rule(), shown, CONFIG)
    assert before < 0.5 and likes(shown, linear_scorer) > 0.9
    assert figures["agreement"] == pytest.approx(likes(shown, linear_scorer), abs=0.02)
    assert figures["start_agreement"] == pytest.approx(before, abs=0.02)


def test_a_pupil_that_is_always_right_stays_as_it_is(work: Compiled) -> None:
    shown = shown_by("fgd", work)
    agreeing = shown.some(
        np.flatnonzero([likes(shown.some(np.array([d])), rule()) for d in range(len(shown))])
    )
    linear_scorer, _ = fitted(rule(), agreeing, CONFIG)
    for kind in set(agreeing.kind.tolist()):
        ours, theirs = linear_scorer.weights[kind], rule().weights[kind]
        assert ours @ theirs > 0.99 * np.linalg.norm(ours) * np.linalg.norm(theirs)


def by_gaps(worth: np.ndarray, count: int = 400) -> Demonstrations:
    """A teacher to whom nothing counts but what is left on a device, which no weight of it says."""
    random = np.random.default_rng(0)
    rows = np.zeros((count, 4, 28), dtype=np.float32)
    after = random.integers(0, 7, (count, 4)) * 100
    lost = worth[(after + 300) // LEVEL] - worth[after // LEVEL]
    after = np.take_along_axis(after, np.argsort(lost, axis=1, kind="stable"), axis=1)
    rows[:, :, DEVICE_LEFT] = after / 1000
    same = np.full(count, 300), np.full(count, SHARES_GPU)
    return Demonstrations(rows, np.full(count, 4), same[1], same[0])


def test_a_pupil_learns_what_gaps_are_worth() -> None:
    worth = np.random.default_rng(2).normal(size=LEVELS)
    shown = by_gaps(worth)
    linear_scorer, _ = fitted(rule(), shown, CONFIG)
    assert likes(shown, linear_scorer) > 0.95
    assert likes(shown, replace(linear_scorer, gaps=np.zeros(0))) < 0.8
    without, _ = fitted(rule(), shown, replace(CONFIG, gaps=False))
    assert without.gaps.size == 0 and likes(shown, without) < 0.8
    kept, _ = fitted(replace(rule(), gaps=linear_scorer.gaps), shown, replace(CONFIG, gaps=False))
    assert likes(shown, kept) > 0.95  # those of the start stay


def test_gaps_change_who_is_chosen_and_the_kernel_counts_as_the_fit_does(work: Compiled) -> None:
    worth = 50.0 * np.random.default_rng(1).normal(size=LEVELS)
    knowing = replace(rule(), gaps=worth)
    plain, other = (
        simulate(work, policy_of(linear_scorer), SCENARIO.options).measures
        for linear_scorer in (rule(), knowing)
    )
    assert plain["gpu_allocation_peak"] != other["gpu_allocation_peak"]
    world = PodsWorld(work, SCENARIO.options)
    recorder = DemonstrationRecorder(world, knowing, WHOLE, np.random.default_rng(0))
    shown = show(world, recorder, policy_of(knowing), None)
    assert (shown.kind == SHARES_GPU).sum() > 10 and likes(shown, knowing) == 1.0


def trained(
    folder: Path, *, stop_after: int = 0, resume: bool = False, config: ImitationConfig = CONFIG
) -> None:
    """A run, as `proreus train` makes one."""
    configs = (config, LESSONS)
    task = Task((SCENARIO,), configs, Workers(1), folder, resume=resume)
    with closing(GradientRun(folder, IMITATE.identity((SCENARIO,), configs), resume=resume)) as run:
        heard: list[int] = []
        reports: Iterator[object] = descend(
            IMITATE, task, run, lambda: bool(stop_after) and len(heard) + 1 >= stop_after
        )
        for _ in reports:
            heard.append(1)


@pytest.mark.parametrize("how", ["interrupted", "extended"])
def test_a_resumed_run_is_the_unbroken_one_bit_for_bit(how: str, tmp_path: Path) -> None:
    trained(tmp_path / "whole")
    if how == "interrupted":
        trained(tmp_path / "broken", stop_after=2)
    else:
        trained(tmp_path / "broken", config=replace(CONFIG, steps=200))
    assert [entry["steps"] for entry in read_journal(tmp_path / "broken")] == [0, 100, 200]
    trained(tmp_path / "broken", resume=True)
    journals = [read_journal(tmp_path / name) for name in ("whole", "broken")]
    untimed = [[{**entry, "seconds": 0, "steps_per_second": 0} for entry in journal] for journal in journals]
    assert untimed[0] == untimed[1]
    assert [entry["steps"] for entry in journals[0]] == [0, 100, 200, 300, 400]
    for which in ("best", "last"):
        ours, theirs = (
            load_checkpoint(tmp_path / name / which, VERSION).tensors for name in ("whole", "broken")
        )
        assert ours.keys() == theirs.keys()
        assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


def test_its_checkpoint_is_a_policy_and_a_start_for_others(tmp_path: Path) -> None:
    trained(tmp_path / "run", config=replace(CONFIG, teacher="learned", steps=100))
    kept = load_checkpoint(tmp_path / "run" / "last", VERSION)
    assert kept.tensors["gaps"].shape == (LEVELS,) and kept.card.kind == "linear"
    again = starting_scorer([SCENARIO.of_part("train")], str(tmp_path / "run" / "last"))
    assert again.gaps.tolist() == kept.tensors["gaps"].tolist()
    outcome = simulate(SCENARIO.load(9), make_policy(str(tmp_path / "run" / "last")), SCENARIO.options)
    assert outcome.measures["gpu_allocation_peak"] > 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": 1}, "candidates: 1 leaves nothing to choose from"),
        ({"pupil_share": 1.5}, r"pupil_share: 1\.5 is not between 0 and 1"),
        ({"decay": -1.0}, r"decay: -1\.0 is negative"),
        ({"round_steps": 0}, "round_steps: 0 is not at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(CONFIG, **change)  # type: ignore[arg-type]


def test_a_teacher_that_nobody_knows_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="socrates"):
        trained(tmp_path / "run", config=replace(CONFIG, teacher="socrates"))
    assert not (tmp_path / "run").exists()


def test_where_there_is_never_a_choice_the_run_says_so(tmp_path: Path) -> None:
    configs = (CONFIG, LESSONS)
    alone = PodScenario(Generated("gpu", 1), PodsOptions(drop_failures=True))
    with pytest.raises(WorkError, match="planner never had several nodes to choose from"):
        next(islice(IMITATE.train((alone,), configs, Workers(1), None), 1))
