"""The core alone: what it refuses, who decides, which version an answer belongs to."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from proreus.model.errors import UsageError
from proreus.serving.decision_service import Question, StateBatch
from proreus.serving.messages import Refusal, Refused
from proreus.serving.pending_decisions import PendingDecision, RecentDecisions
from proreus.serving.validation import Dimensions, as_mask
from proreus.worlds.pods.policies.vector.model import FULL, draw_of, draws_of, fresh_scorer, fullest_with_room
from tests.serving.door_cases import DIMENSIONS, NODES, Scripted, new_service

STATE = np.full(2 * NODES, 0.25)
shares = st.floats(0.0, 1.2, allow_nan=False)


def refusal(question: Question) -> Refused:
    with pytest.raises(Refused) as caught:
        new_service(Scripted()).predict(question, "test")
    return caught.value


@pytest.mark.parametrize(
    ("state_dim", "action_dim", "says"),
    [
        (14, 15, "--action_dim 15"),
        (14, 2, "--action_dim 2"),
        (13, 16, "--state_dim 13"),
        (18, 16, "14 or 16 numbers"),
        (0, 0, "--action_dim 0"),
    ],
)
def test_dimensions_that_belong_to_no_cluster_are_refused(state_dim: int, action_dim: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Dimensions(state_dim, action_dim)


@pytest.mark.parametrize("length", [0, 1, 5, 7, 9, 100])
def test_a_state_of_another_length_is_refused_with_both_lengths_named(length: int) -> None:
    refused = refusal(Question(np.zeros(length)))
    assert refused.refusal is Refusal.INVALID and refused.field == "state"
    assert f"has {length} numbers; 3 nodes have 6, or 8" in str(refused)


@pytest.mark.parametrize("length", [2 * NODES, 2 * NODES + 2])
def test_both_lengths_are_understood(length: int) -> None:
    assert new_service().predict(Question(np.full(length, 0.1)), "test").decided_by == "model"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("index", [0, 3, 5])
def test_what_is_not_finite_is_refused_by_index(bad: float, index: int) -> None:
    state = STATE.copy()
    state[index] = bad
    assert refusal(Question(state)).field == f"state[{index}]"


@pytest.mark.parametrize("top_k", [0, -1, 9])
def test_top_k_has_a_range(top_k: int) -> None:
    assert refusal(Question(STATE, top_k=top_k)).field == "top_k"


def test_masks_have_one_entry_per_action_and_allow_something() -> None:
    with pytest.raises(Refused, match="mask: has 3 entries, there are 8 actions"):
        as_mask([True] * 3, DIMENSIONS)
    with pytest.raises(Refused, match="mask: allows no action"):
        as_mask([False] * 8, DIMENSIONS)


def test_the_best_actions_come_in_order_and_respect_the_mask() -> None:
    mask = np.array([True, True, False, True, False, True, True, False])
    answer = new_service().predict(Question(STATE, mask=mask, top_k=8), "test")
    assert answer.top is not None
    probabilities = [choice.probability for choice in answer.top]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1.0)
    assert {choice.action for choice in answer.top} <= set(np.flatnonzero(mask).tolist())


@given(arrays(np.float64, 2 * NODES, elements=shares), st.booleans())
def test_the_log_probability_is_that_of_the_action(state: np.ndarray, deterministic: bool) -> None:
    service = new_service()
    answer = service.predict(Question(state, deterministic=deterministic), "test")
    chances = fresh_scorer(0).chances(state, DIMENSIONS.actions, None)
    assert math.exp(answer.log_prob) == pytest.approx(chances[answer.action], rel=1e-4)
    if deterministic:
        assert chances[answer.action] == chances.max()


@given(arrays(np.float64, (5, 2 * NODES), elements=shares), st.booleans())
def test_a_batch_decides_as_one_by_one(states: np.ndarray, deterministic: bool) -> None:
    service = new_service()
    batch = service.predict_batch(StateBatch(states, deterministic=deterministic), "test")
    single = [service.predict(Question(state, deterministic=deterministic), "test") for state in states]
    assert batch.actions.tolist() == [answer.action for answer in single]
    assert batch.log_probs.tolist() == pytest.approx([answer.log_prob for answer in single], abs=1e-6)


@given(arrays(np.float64, (4, 6), elements=shares), st.integers(0, 9), st.integers(0, 9))
def test_draws_of_rows_are_those_of_each(states: np.ndarray, seed: int, version: int) -> None:
    expected = [draw_of(seed, version, state) for state in states]
    assert draws_of(seed, version, states).tolist() == expected
    assert all(0 <= draw < 1 for draw in expected)


def test_a_node_that_refused_is_not_named_again_and_experience_says_why() -> None:
    service = new_service(mind_refusals=True, deterministic=True)
    empty = np.zeros(2 * NODES)
    first = service.predict(Question(empty, client="a"), "test").action
    assert first < 2 * NODES, "it names a node"
    named = first % NODES
    elsewhere = empty.copy()
    elsewhere[2 * ((named + 1) % NODES)] = 0.25
    answer = service.predict(Question(elsewhere, client="a", top_k=2 * NODES + 2), "test")
    assert answer.action % NODES != named
    assert answer.top is not None and named not in {
        choice.action % NODES for choice in answer.top if choice.action < 2 * NODES
    }
    remembered = service.recent.find(elsewhere, answer.action, "a")
    assert remembered is not None and remembered.mask is not None
    assert np.flatnonzero(~remembered.mask).tolist() == [named, NODES + named]
    everywhere = np.ones(2 * NODES + 2, dtype=np.bool_)
    predict_answer = service.predict(Question(elsewhere, everywhere, client="a"), "test")
    other = service.predict(Question(elsewhere, client="b"), "test")
    assert predict_answer.action == other.action, (
        "a mask comes from who knows better; another client's nodes are others"
    )


def test_draws_follow_the_probabilities() -> None:
    service = new_service()
    rng = np.random.default_rng(0)
    drawn = np.zeros(DIMENSIONS.actions)
    expected = np.zeros(DIMENSIONS.actions)
    for _ in range(4000):
        state = rng.random(2 * NODES)
        drawn[service.predict(Question(state), "test").action] += 1
        expected += fresh_scorer(0).chances(state, DIMENSIONS.actions, None)
    assert np.abs(drawn - expected).max() < 5 * np.sqrt(expected.max())


def test_a_model_that_fails_leaves_the_decision_to_the_rule() -> None:
    model = Scripted()
    service = new_service(model)
    model.error = RuntimeError("broken")
    state = np.array([0.1, 0.1, 0.8, 0.5, 0.2, 0.2])
    answer = service.predict(Question(state, top_k=3), "test")
    assert (answer.action, answer.decided_by, answer.log_prob) == (1, "rule", 0.0)
    assert answer.top is not None and [choice.action for choice in answer.top] == [1]
    assert service.measurements.counted("proreus_fallbacks", reason="error") == 1
    batch = service.predict_batch(StateBatch(np.stack([state, state[::-1].copy()])), "test")
    assert batch.decided_by == "rule" and batch.actions.tolist() == [1, 1]


@pytest.mark.parametrize(("choice", "log_prob"), [(8, -1.0), (-1, -1.0), (0, math.nan), (0, -math.inf)])
def test_an_answer_that_makes_no_sense_leaves_it_to_the_rule(choice: int, log_prob: float) -> None:
    model = Scripted()
    service = new_service(model)
    model.choice, model.log_prob = choice, log_prob
    assert service.predict(Question(STATE), "test").decided_by == "rule"


def test_a_forbidden_answer_leaves_it_to_the_rule() -> None:
    service = new_service(Scripted(choice=2))
    mask = np.ones(8, dtype=np.bool_)
    mask[2] = False
    answer = service.predict(Question(STATE, mask=mask), "test")
    assert answer.decided_by == "rule" and mask[answer.action]


def test_a_slow_model_leaves_it_to_the_rule_within_the_deadline() -> None:
    model = Scripted()
    service = new_service(model, deadline_seconds=0.05)
    model.seconds = 0.5
    service.predict(Question(STATE), "test")  # from this one on it is known that the model may be slow
    model.seconds = 60.0
    begin = time.monotonic()
    assert [service.predict(Question(STATE), "test").decided_by for _ in range(3)] == ["rule"] * 3
    assert time.monotonic() - begin < 30.0, "nobody waited for the model"
    assert service.measurements.counted("proreus_fallbacks", reason="deadline") >= 3


def test_a_model_that_is_fast_again_decides_again() -> None:
    model = Scripted(seconds=0.02)
    service = new_service(model, deadline_seconds=0.01)
    while service.predict(Question(STATE), "test").decided_by == "model":
        pass
    model.seconds = 0.0
    deadline = time.monotonic() + 60
    while service.predict(Question(STATE), "test").decided_by == "rule":
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_client_in_a_hurry_is_answered_by_the_rule() -> None:
    assert new_service().predict(Question(STATE, seconds_left=0.0), "test").decided_by == "rule"


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            arrays(np.float64, 2 * n, elements=shares),
            arrays(np.bool_, 2 * n + 2).filter(lambda mask: bool(mask.any())),
        )
    )
)
def test_the_rule_takes_the_fullest_node_with_room(case: tuple[np.ndarray, np.ndarray]) -> None:
    state, mask = case
    n = len(state) // 2
    action = fullest_with_room(state, mask)
    assert mask[action]
    room = [i for i in range(n) if mask[i] and state[2 * i] < FULL and state[2 * i + 1] < FULL]
    used = [state[2 * i] + state[2 * i + 1] for i in range(n)]
    if room:
        assert action == max(room, key=lambda i: (used[i], -i))
    elif mask[2 * n]:
        assert action == 2 * n
    elif mask[:n].any():
        assert action == min((i for i in range(n) if mask[i]), key=lambda i: (used[i], i))
    elif mask[n : 2 * n].any():
        assert action == n + int(np.argmax(mask[n : 2 * n]))
    else:
        assert action == 2 * n + 1


def test_an_answer_belongs_to_one_version_while_versions_change() -> None:
    service = new_service(Scripted(choice=1), version=1)
    stop = threading.Event()

    def swap() -> None:
        version = 1
        while not stop.is_set():
            version += 1
            service.swap(version, Scripted(choice=version % 8))

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    for _ in range(3000):
        answer = service.predict(Question(STATE), "test")
        assert answer.action == answer.model_version % 8
        seen.add(answer.model_version)
    stop.set()
    thread.join()
    assert len(seen) > 1


def test_recent_decisions_are_bounded_and_the_newest_counts() -> None:
    recent = RecentDecisions(3)
    states = [np.full(2, float(i)) for i in range(5)]
    for i, state in enumerate(states):
        recent.add(state, 0, PendingDecision(-float(i), i, True, None))
    assert len(recent) == 3
    assert recent.find(states[1], 0) is None
    assert recent.find(states[2], 1) is None
    recent.add(states[2], 0, PendingDecision(-9.0, 9, False, None))
    recent.add(np.zeros(1), 0, PendingDecision(0.0, 0, True, None))
    found = recent.find(states[2], 0)
    assert found is not None and found.version == 9
    assert recent.find(states[3], 0) is None


def test_what_is_told_beside_a_decision_has_its_deadline_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted()
    service = new_service(model, deadline_seconds=0.1)

    def slow(*_: object) -> None:
        time.sleep(2.0)
        raise RuntimeError("no idea")

    monkeypatch.setattr(model, "chances", slow)
    begin = time.monotonic()
    answer = service.predict(Question(STATE, mask=np.ones(8, dtype=np.bool_), top_k=3), "test")
    assert time.monotonic() - begin < 1.0
    assert answer.top is not None and [choice.action for choice in answer.top] == [answer.action]
