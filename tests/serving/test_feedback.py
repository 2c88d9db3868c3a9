"""Reports of experience: completed from what was decided, on disk before they are acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from proreus.model.experience import Experience
from proreus.serving.decision_service import DecisionService, Question
from proreus.serving.messages import Refused, UpdateRequest
from proreus.serving.online.feedback import Feedback
from proreus.serving.online.learner import LearnerStatus
from tests.serving.door_cases import DIMENSIONS, new_service
from tests.serving.serving_cases import experience_log, experience_reader

rng = np.random.default_rng(0)


class Desk:
    """A service with a log and a learner that a test moves."""

    def __init__(self, folder: Path, service: DecisionService) -> None:
        self.service, self.folder = service, folder
        self.status = LearnerStatus()
        self.log = experience_log(folder)
        self.feedback = Feedback(service, self.log, lambda: self.status, lambda version: version in (1, 2))

    def logged(self) -> list[Experience]:
        return [record for _, record in experience_reader(self.folder).poll()]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path, new_service())
    yield desk
    desk.log.close()


def report(states: list[np.ndarray], actions: list[int], **more: object) -> UpdateRequest:
    count = len(actions)
    columns = {"rewards": [1.0] * count, "dones": [False] * count, **more}
    return UpdateRequest([state.tolist() for state in states], actions, **columns)  # type: ignore[arg-type]


def test_what_the_service_decided_is_completed_from_memory(desk: Desk) -> None:
    states = [rng.random(6) for _ in range(5)]
    mask = np.array([True] * 4 + [False] * 4)
    answers = [
        desk.service.predict(Question(state, mask=mask if i == 2 else None), "test")
        for i, state in enumerate(states)
    ]
    answer = desk.feedback.take(report(states, [a.action for a in answers], dones=[False] * 4 + [True]))
    assert (answer.status, answer.logged, answer.learnable) == ("buffering", 5, 5)
    (record,) = desk.logged()
    assert record.log_probs.tolist() == [a.log_prob for a in answers]
    assert record.model_version == 1 and record.actions_dim == DIMENSIONS.actions
    assert not record.greedy.any() and record.dones.tolist() == [False] * 4 + [True]
    assert record.masks is not None
    assert record.masks[2].tolist() == mask.tolist() and record.masks[1].all()
    assert np.array_equal(record.states, np.stack(states))


def test_greedy_decisions_and_those_of_the_rule_are_logged_and_not_learned_from(desk: Desk) -> None:
    greedy, hurried = rng.random(6), rng.random(6)
    first = desk.service.predict(Question(greedy, deterministic=True), "test")
    second = desk.service.predict(Question(hurried, seconds_left=0.0), "test")
    answer = desk.feedback.take(report([greedy, hurried], [first.action, second.action]))
    assert (answer.logged, answer.learnable) == (2, 0)
    (record,) = desk.logged()
    assert record.greedy.all()


def test_what_nobody_remembers_is_logged_without_a_probability(desk: Desk) -> None:
    answer = desk.feedback.take(report([rng.random(6)], [3]))
    assert (answer.logged, answer.learnable) == (1, 0)
    (record,) = desk.logged()
    assert np.isnan(record.log_probs).all() and record.model_version == 0


def test_given_probabilities_and_versions_are_taken(desk: Desk) -> None:
    answer = desk.feedback.take(report([rng.random(6)], [3], log_probs=[-1.25], model_version=2))
    assert answer.learnable == 1
    (record,) = desk.logged()
    assert record.log_probs.tolist() == [-1.25] and record.model_version == 2
    with pytest.raises(Refused, match="model_version: there is no version 3"):
        desk.feedback.take(report([rng.random(6)], [3], model_version=3))


def test_steps_of_two_versions_and_lengths_keep_their_order(desk: Desk) -> None:
    states = [rng.random(6), rng.random(6), rng.random(8)]
    actions = [desk.service.predict(Question(states[0]), "test").action]
    desk.service.swap(2, desk.service._live.model)
    actions += [desk.service.predict(Question(state), "test").action for state in states[1:]]
    desk.feedback.take(report(states, actions))
    records = desk.logged()
    assert [record.model_version for record in records] == [1, 2, 2]
    assert [record.states.shape[1] for record in records] == [6, 6, 8]
    assert [int(action) for record in records for action in record.actions] == actions


def test_a_finished_round_is_told_once(desk: Desk) -> None:
    step = report([rng.random(6)], [0])
    assert desk.feedback.take(step).status == "buffering"
    desk.status = LearnerStatus(rounds=1, queue=12)
    answer = desk.feedback.take(step)
    assert (answer.status, answer.buffered) == ("updated", 12)
    assert desk.feedback.take(step).status == "buffering"


def test_nothing_of_a_refused_report_is_logged(desk: Desk) -> None:
    with pytest.raises(Refused):
        desk.feedback.take(report([rng.random(6), rng.random(5)], [0, 0]))
    assert desk.logged() == []
