"""Learning against reports that lie or flood: one of them can neither freeze nor steer it."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.log.folder import LogFolder
from proreus.log.protocol import LogLimits, Released
from proreus.model.errors import WorkError
from proreus.model.experience import Experience
from proreus.serving.messages import Refused
from proreus.serving.online.experience_log import ExperienceLog
from proreus.serving.online.feedback import reporter_of
from proreus.serving.online.progress import read_progress
from proreus.serving.online.report_limits import Origin, Pile, RewardRange, UsualRewards, fair
from proreus.serving.online.worker import Worker
from proreus.worlds.pods.policies.vector.model import Candidate, VectorModel, Weights
from proreus.worlds.pods.training.vector.recorded_ppo import RETURNS, improve
from tests.serving.door_cases import new_service
from tests.serving.serving_cases import a_store, an_experience, experience_log, played, true_worth
from tests.serving.test_feedback import Desk, report
from tests.serving.test_online import a_job

Lie = Callable[[VectorModel], Experience]


def rewarded(model: VectorModel, reward: float, decisions: int = 256) -> Experience:
    return replace(played(model, 77, decisions), rewards=np.full(decisions, reward))


def taught(folder: Path, rounds: int, *lies: Lie, at: int = 0) -> tuple[float, int]:
    """(mean reward of the live model, rejected versions) after honest rounds, with lies before round `at`."""
    store, log = a_store(folder / "models"), experience_log(folder / "log")
    worker = Worker(a_job(folder), improve)
    rejected = 0
    for k in range(rounds):
        for lie in lies if k == at else ():
            log.append(lie(store.load("vector")))
            worker.take()
            with contextlib.suppress(
                WorkError
            ):  # a round of nothing but lies may fail; an honest one may not
                worker.learn()
        log.append(played(store.load("vector"), k, 128))
        worker.take()
        rejected += not worker.learn()["accepted"]
    log.close()
    return true_worth(store.load("vector")), rejected


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, float]:
    """(before, after forty honest rounds)."""
    folder = tmp_path_factory.mktemp("honest")
    before = true_worth(a_store(folder / "fresh").load("vector"))
    return before, taught(folder, 40)[0]


@pytest.mark.parametrize("reward", [1e12, -1e12, 1e9, 1e5, 300.0])
@pytest.mark.parametrize("at", [0, 4])
def test_forty_honest_rounds_teach_what_they_would_without_256_steps_of_an_immense_reward(
    tmp_path: Path, honest: tuple[float, float], reward: float, at: int
) -> None:
    before, after = honest
    assert after > before + 1.0
    found, _ = taught(tmp_path, 40, lambda model: rewarded(model, reward), at=at)
    assert found > before + 0.8 * (after - before)


@pytest.mark.parametrize("reward", [1e200, 1.7e308, -1e300])
def test_one_report_of_an_overflowing_reward_does_not_have_honest_rounds_rejected(
    tmp_path: Path, reward: float
) -> None:
    _, rejected = taught(tmp_path, 12, lambda model: rewarded(model, reward, 64), at=3)
    assert rejected <= 4


def test_chances_that_nobody_gave_freeze_nothing(tmp_path: Path, honest: tuple[float, float]) -> None:
    lies = [lambda model: replace(rewarded(model, -50.0, 64), log_probs=np.full(64, -40.0)) for _ in range(4)]
    before, after = honest
    found, rejected = taught(tmp_path, 40, *lies, at=2)
    assert rejected <= 14 and found > before + 0.8 * (after - before)


def test_what_a_return_was_measured_in_is_forgotten_where_it_was_of_something_else(tmp_path: Path) -> None:
    model = a_store(tmp_path).load("vector")
    spoiled = Weights(model.kind, {**model.tensors, RETURNS: np.array([1e12, 3.0, 256.0])})
    learned = improve(spoiled, [played(model, 0, 256)], {"threads": 1})
    assert abs(learned.parameters.tensors[RETURNS][0]) < 20.0
    usual = Weights(model.kind, {**model.tensors, RETURNS: np.array([9.0, 6.0, 256.0])})
    kept = improve(usual, [played(model, 0, 256)], {"threads": 1}).parameters.tensors[RETURNS]
    assert kept[2] == 512.0  # a scale that may have been these is merged, as ever


def test_the_range_of_rewards_is_that_of_most_reports() -> None:
    usual = UsualRewards()
    assert usual.range() == RewardRange(-1e9, 1e9)
    for k in range(5):
        usual.add(k, np.array([0.0, 1.0, 0.0]))
    usual.add("constant", np.zeros(4))
    for _ in range(100):
        usual.add("a lie of many records", np.array([1e8, -1e8]))
    assert usual.range() == RewardRange(-10.0, 10.0)
    rare = UsualRewards()
    for k in range(100):
        rare.add(k, np.array([1.0 if k % 10 == 0 else 0.0]))
    assert rare.range() == RewardRange(-10.0, 10.0)  # what is rare and matters is not cut off
    assert RewardRange(-1.0, 1.0).clipped(rewarded_stretch([5.0, 0.5, -7.0])).rewards.tolist() == [
        1.0,
        0.5,
        -1.0,
    ]


def rewarded_stretch(rewards: Sequence[float], reporter: int = 0) -> Experience:
    stretch = an_experience(0, len(rewards))
    return replace(stretch, rewards=np.array(rewards), reporter=reporter)


def stretches(**counts: int) -> list[tuple[Origin, Experience]]:
    """Ten decisions a stretch; the names are reporters."""
    return [
        (Origin("", k, k), rewarded_stretch([0.0] * 10, reporter_of(name)))
        for name, count in counts.items()
        for k in range(count)
    ]


def share(found: list[tuple[Origin, Experience]], name: str) -> int:
    return sum(len(stretch) for _, stretch in found if stretch.reporter == reporter_of(name))


def test_one_reporter_has_as_much_as_all_others_or_a_batch() -> None:
    found = fair(stretches(flood=1000, a=6, b=4), least=64)
    assert (share(found, "flood"), share(found, "a"), share(found, "b")) == (100, 60, 40)
    assert share(fair(stretches(flood=1000, a=1), least=64), "flood") == 70  # whole stretches
    assert share(fair(stretches(alone=1000), least=64), "alone") == 10_000
    numbers = [origin.number for origin, stretch in found if stretch.reporter == reporter_of("flood")]
    assert numbers == list(range(990, 1000))  # the newest


def test_a_flood_pushes_out_its_own_before_that_of_others() -> None:
    pile = Pile(200, 1 << 30)
    for origin, stretch in [*stretches(a=5, b=5), *stretches(flood=500)]:
        pile.add(origin, stretch)
    found = list(pile)
    assert pile.decisions == 200
    assert (share(found, "a"), share(found, "b"), share(found, "flood")) == (50, 50, 100)
    small = Pile(10_000, 3 * rewarded_stretch([0.0] * 10).states.nbytes)
    for origin, stretch in stretches(a=9):
        small.add(origin, stretch)
    assert [origin.number for origin, _ in small] == [6, 7, 8] and small.first("") == 6


def test_one_report_has_its_part_of_the_replay_however_many_records_it_has(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    worker = Worker(a_job(tmp_path), improve)
    model = store.load("vector")
    for k in range(4):
        log.append(played(model, k, 64))
    log.append(*(played(model, 100 + k, 1) for k in range(4000)))
    log.append(played(model, 5, 20_000))
    while worker.take():
        pass
    held = [(origin.report, len(stretch)) for origin, stretch in worker.held]
    for number in (4, 4004):
        assert 0 < sum(size for report_, size in held if report_ == number) <= 2048 // 8 + 16
    assert sum(size for report_, size in held if report_ < 4) == 64
    log.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path, new_service())
    yield desk
    desk.log.close()


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("rewards", 1e12, r"rewards\[1\]: 1000000000000.0 is above 1e\+09"),
        ("rewards", -1e200, r"rewards\[1\]: -1e\+200 is below -1e\+09"),
        ("rewards", float("nan"), r"rewards\[1\]: nan is not a finite number"),
        ("log_probs", -40.0, r"log_probs\[1\]: -40.0 is below -30"),
        ("log_probs", 0.5, r"log_probs\[1\]: 0.5 is above 0"),
        ("log_probs", float("-inf"), r"log_probs\[1\]: -inf is not a finite number"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_by_their_name(
    desk: Desk, column: str, value: float, says: str
) -> None:
    states = [np.full(6, 0.5)] * 2
    with pytest.raises(Refused, match=says):
        desk.feedback.take(report(states, [0, 1], **{column: [-1.0, value]}))
    assert desk.logged() == []


def test_a_report_of_alternating_lengths_is_one_append(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    appended: list[int] = []
    real = desk.log.append

    def counted(*parts: Experience) -> int:
        appended.append(len(parts))
        return real(*parts)

    monkeypatch.setattr(desk.log, "append", counted)
    states = [np.full((6, 8)[k % 2], 0.5) for k in range(2000)]
    answer = desk.feedback.take(report(states, [0] * 2000), "a client")
    assert answer.logged == 2000 and appended == [2000]
    assert {(record.reporter, record.report) for record in desk.logged()} == {(reporter_of("a client"), 0)}


def unlearnable(model: VectorModel, seed: int, decisions: int) -> Experience:
    experience = played(model, seed, decisions)
    return replace(experience, log_probs=np.full(decisions, np.nan))


def test_a_backlog_that_teaches_nothing_is_taken_in_bounded_memory_and_once(tmp_path: Path) -> None:
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log", LogLimits(1 << 20))
    record = unlearnable(store.load("vector"), 0, 2000)
    for _ in range(70):
        log.append(record)
    size = sum(path.stat().st_size for path in (tmp_path / "log").glob("*.log"))
    worker = Worker(a_job(tmp_path, batch_size=8), improve)
    tracemalloc.start()
    try:
        while worker.take():
            assert not worker.ready() and worker.queue <= 64 * 8
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 16 << 20 and peak < 6 << 20
    worker.remember()
    assert read_progress(tmp_path / "log").of("").next >= 69
    again = Worker(a_job(tmp_path, batch_size=8), improve)
    again.take()
    assert again.unusable <= 2000  # and not the 140,000 of before
    log.close()


def test_a_round_that_fails_is_not_tried_at_every_start(tmp_path: Path) -> None:
    def failing(
        weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]
    ) -> Candidate:
        raise RuntimeError("this batch cannot be learned from")

    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    log.append(played(store.load("vector"), 0, 512))
    worker = Worker(a_job(tmp_path), failing)
    worker.take()
    with pytest.raises(RuntimeError):
        worker.learn()
    again = Worker(a_job(tmp_path), improve)
    again.take()
    assert not again.ready() and again.queue == 0
    log.close()


def test_records_that_end_the_process_time_and_again_are_passed_over(tmp_path: Path) -> None:
    class Killed(BaseException):
        """What a test sees of a process that is gone."""

    def killing(
        weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]
    ) -> Candidate:
        kept = progress.read_bytes()
        tries.append(len(experiences))
        raise Killed(kept)

    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    progress, tries = tmp_path / "log" / "learner.json", list[int]()
    log.append(played(store.load("vector"), 0, 512))
    for _ in range(6):
        worker = Worker(a_job(tmp_path), killing)
        worker.take()
        if worker.ready():
            with pytest.raises(Killed) as caught:
                worker.learn()
            progress.write_bytes(caught.value.args[0])  # as it was when the process ended
    assert len(tries) == 3
    log.append(played(store.load("vector"), 1, 512))
    again = Worker(a_job(tmp_path), improve)
    again.take()
    assert again.queue == 384 and again.learn()["version"] == 2
    assert read_progress(tmp_path / "log").tries == 0
    log.close()


def test_a_learner_reads_the_logs_of_all_processes(tmp_path: Path) -> None:
    store, folder = a_store(tmp_path / "models"), tmp_path / "log"
    place = LogFolder(folder)
    learned: Released = lambda name: read_progress(folder).of(name).next  # noqa: E731
    logs = [ExperienceLog(place.open(LogLimits(), learned)) for _ in range(3)]
    assert [log.name for log in logs] == place.names() == ["", "2", "3"]
    worker = Worker(a_job(tmp_path), improve)
    model = store.load("vector")
    for k, log in enumerate(logs):
        log.append(played(model, k, 64))
    worker.take()
    assert worker.ready() and worker.queue == 3 * 48
    worker.learn()
    progress = read_progress(folder)
    assert [progress.of(name).next for name in ("", "2", "3")] == [1, 1, 1] and progress.rounds == 1
    logs[1].append(played(model, 5, 64))
    again = Worker(a_job(tmp_path), improve)
    again.take()
    assert again.queue == 48 and sum(len(stretch) for _, stretch in again.held) == 4 * 16
    for log in logs[1:]:
        log.close()
    freed = ExperienceLog(place.open(LogLimits(), learned))
    assert freed.name == "2" and freed.append(played(model, 6, 64)) == 2
    for log in (logs[0], freed):
        log.close()
