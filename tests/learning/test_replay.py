"""Replay against plain Python: sums over lists in place of trees, sums over rewards in place of windows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.learning.replay import (
    NStepWindow,
    PrioritisedReplay,
    Transition,
    discounted_sum,
    tree_find,
    tree_sample,
    tree_set,
)


def observed(number: float) -> dict[str, np.typing.NDArray[np.float32]]:
    """An observation that can be recognised."""
    return {"x": np.array([number, -number], dtype=np.float32)}


def transition(number: int) -> Transition:
    """A transition that can be recognised."""
    return Transition(observed(number), number, float(number), observed(number + 0.5), 0.9)


# Sum tree


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 31), st.floats(0, 1e6)), min_size=1, max_size=60),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=10),
)
def test_the_tree_finds_what_a_running_sum_finds(
    depth: int, writes: list[tuple[int, float]], draws: list[float]
) -> None:
    leaves = 2**depth
    tree, plain = np.zeros(2 * leaves), [0.0] * leaves
    for leaf, value in writes:
        tree_set(tree, leaves + leaf % leaves, value)
        plain[leaf % leaves] = value
    assert tree[1] == pytest.approx(sum(plain))
    if tree[1] == 0.0:
        return
    for draw in draws:
        drawn = int(tree_find(tree, draw * tree[1])) - leaves
        assert plain[drawn] > 0.0
        before = sum(plain[:drawn])
        slack = 1e-9 * sum(plain)
        assert before - slack <= draw * sum(plain) <= before + plain[drawn] + slack


def test_whole_numbers_are_found_exactly() -> None:
    tree = np.zeros(8)
    for leaf, value in enumerate((3.0, 0.0, 2.0, 1.0)):
        tree_set(tree, 4 + leaf, value)
    assert [int(tree_find(tree, mass)) - 4 for mass in (0.0, 2.9, 3.0, 4.9, 5.0, 5.9)] == [0, 0, 2, 2, 3, 3]


def test_draws_are_spread_over_equal_parts_of_the_sum() -> None:
    tree = np.zeros(8)
    for leaf in range(4):
        tree_set(tree, 4 + leaf, 1.0)
    draws = np.random.default_rng(0).random(4)
    assert (tree_sample(tree, draws) - 4).tolist() == [0, 1, 2, 3]


# n-step returns


@given(
    st.integers(1, 5),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["on", "on", "on", "ends", "cut"])), max_size=40),
)
def test_n_step_transitions_are_what_the_definition_says(
    steps: int, discount: float, story: list[tuple[int, str]]
) -> None:
    window = NStepWindow(steps, discount)
    made: list[Transition] = []
    for i, (reward, how) in enumerate(story):
        ends = (how == "ends", how == "cut")
        made += window.push(observed(i), i, float(reward), observed(i + 0.5), ends)

    expected = []
    for i in range(len(story)):
        stretch = story[i : i + steps]
        stop = next((k for k, (_, how) in enumerate(stretch) if how != "on"), None)
        length = len(stretch) if stop is None else stop + 1
        if stop is None and length < steps:
            continue  # still pending when the story ends
        total = sum(discount**k * stretch[k][0] for k in range(length))
        onward = 0.0 if stretch[length - 1][1] == "ends" else discount**length
        expected.append((i, total, i + length - 0.5, onward))
    actual = [(t.action, t.reward, float(t.following["x"][0]), t.discount) for t in made]
    assert actual == expected  # the numbers are sums of powers of two, so exact
    assert [float(t.observation["x"][0]) for t in made] == [row[0] for row in expected]


def test_discounted_sum() -> None:
    assert discounted_sum([1.0, 2.0, 4.0], 0.5) == 3.0
    assert discounted_sum([], 0.5) == 0.0


# Prioritised replay


def test_a_full_replay_forgets_the_oldest() -> None:
    replay = PrioritisedReplay(3, 1.0, observed(0))
    for number in range(5):
        replay.add(transition(number))
    assert len(replay) == 3
    batch = replay.sample(200, 0.5, np.random.default_rng(0))
    assert set(batch.action.tolist()) == {2, 3, 4}
    np.testing.assert_array_equal(batch.observation["x"][:, 0], batch.action)
    np.testing.assert_array_equal(batch.following["x"][:, 0], batch.action + 0.5)
    np.testing.assert_array_equal(batch.reward, batch.action)
    assert set(batch.discount.tolist()) == {np.float32(0.9)}


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_transitions_come_in_proportion_to_their_priority(exponent: float) -> None:
    replay = PrioritisedReplay(4, exponent, observed(0))
    for number in range(4):
        replay.add(transition(number))
    errors = np.array([1.0, -4.0, 9.0, 0.0])
    replay.set_priorities(np.arange(4), errors)
    batch = replay.sample(60_000, 1.0, np.random.default_rng(1))
    chance = (np.abs(errors) + 1e-6) ** exponent
    chance /= chance.sum()
    frequency = np.bincount(batch.places, minlength=4) / 60_000
    np.testing.assert_allclose(frequency, chance, atol=2e-3)


@pytest.mark.parametrize("correction", [0.0, 0.4, 1.0])
def test_importance_weights_follow_the_paper(correction: float) -> None:
    replay = PrioritisedReplay(8, 1.0, observed(0))
    for number in range(3):
        replay.add(transition(number))
    replay.set_priorities(np.arange(3), np.array([1.0, 2.0, 5.0]))
    batch = replay.sample(64, correction, np.random.default_rng(2))
    raw = [(3 * chance) ** -correction for chance in (1 / 8, 2 / 8, 5 / 8)]
    expected = np.array([raw[place] for place in batch.places])
    np.testing.assert_allclose(batch.weights, expected / expected.max(), rtol=1e-5)


def test_new_transitions_have_the_largest_priority_so_far() -> None:
    replay = PrioritisedReplay(4, 1.0, observed(0))
    replay.add(transition(0))
    replay.set_priorities(np.array([0]), np.array([7.0]))
    replay.set_priorities(np.array([0]), np.array([1.0]))
    replay.add(transition(1))
    frequency = np.bincount(replay.sample(8_000, 1.0, np.random.default_rng(3)).places, minlength=2) / 8_000
    np.testing.assert_allclose(frequency, [1 / 8, 7 / 8], atol=5e-3)


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 25), st.integers(1, 25))
def test_a_restored_replay_goes_on_as_the_first(capacity: int, before: int, after: int) -> None:
    first = PrioritisedReplay(capacity, 0.6, observed(0))
    for number in range(before):
        first.add(transition(number))
    first.set_priorities(np.array([0]), np.array([3.0]))
    second = PrioritisedReplay(capacity, 0.6, observed(0))
    second.restore(first.capture())
    for replay, number in itertools.product((first, second), range(after)):
        replay.add(transition(100 + number))
    a, b = (replay.sample(16, 0.5, np.random.default_rng(4)) for replay in (first, second))
    np.testing.assert_array_equal(a.places, b.places)
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.observation["x"], b.observation["x"])
    np.testing.assert_array_equal(a.following["x"], b.following["x"])


def test_what_was_captured_does_not_change_afterwards() -> None:
    replay = PrioritisedReplay(4, 1.0, observed(0))
    replay.add(transition(1))
    captured = replay.capture()
    replay.add(transition(2))
    assert captured["action"].tolist() == [1]
    assert captured["counts"].tolist() == [1, 1]
