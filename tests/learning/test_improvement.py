"""What a run says of its best checkpoint, and what it hands out where that is no better than the start."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.learning.degenerate import refuse_where_all_score_alike
from proreus.learning.improvement import Improvement, improvement, same_weights
from proreus.model.errors import WorkError

START = {"a": np.array([0.0, 1.0, 2.0]), "b": np.array([1.0, 1.0, 1.0])}


def test_it_is_paired_by_episode_over_all_scenarios() -> None:
    best = {"a": START["a"] + [1.0, 2.0, 3.0], "b": START["b"] + [1.0, 0.0, -1.0]}
    result = improvement(START, best)
    assert result.better is not None and result.better.n == 3
    assert result.better.mean == pytest.approx(1.0) and result.better.low == pytest.approx(1.0)
    assert result.gains["a"].mean == pytest.approx(3.0)
    assert "best is 1.00 better than its start (95 % interval +1.00 to +1.00)" in result.words
    assert "on 3 held-out episodes of each of 2 scenarios that it was not chosen on" in result.words
    assert "chance" not in result.words
    assert Improvement.from_json(result.to_json()) == result


def test_what_may_be_chance_is_said_to_be() -> None:
    result = improvement({"a": np.zeros(3)}, {"a": np.array([3.0, -1.0, -1.0])})
    assert result.better is not None and "may be chance" in result.words


@pytest.mark.parametrize("worse", [0.0, -0.5])
def test_what_is_no_better_is_not_handed_out(worse: float) -> None:
    result = improvement(START, {name: gains + worse for name, gains in START.items()})
    assert result.better is None
    assert result.words == "nothing better than the start was found: best is the start"
    assert Improvement.from_json(result.to_json()) == result


def test_checkpoints_are_told_apart_by_every_weight() -> None:
    weights = {"weights": np.zeros(3)}
    assert same_weights(weights, {"weights": np.zeros(3)})
    assert not same_weights(weights, {"weights": np.array([0.0, 0.0, 1e-9])})
    assert not same_weights(weights, {"other": np.zeros(3)})


def test_one_policy_that_scores_otherwise_is_enough_to_train() -> None:
    asked = []

    def judge(tensors: dict[str, np.ndarray]) -> dict[str, float]:
        asked.append(tensors["weights"])
        return {"calm": 0.0 if len(asked) < 2 else 0.1}

    refuse_where_all_score_alike({"weights": np.zeros(4, dtype=np.float32)}, {"calm": 0.0}, judge)
    assert len(asked) == 2 and asked[0].dtype == np.float32 and (asked[0] != asked[1]).all()
    with pytest.raises(WorkError, match="nothing to learn on calm: every candidate scores alike"):
        refuse_where_all_score_alike({"weights": np.zeros(4)}, {"calm": 0.0}, lambda _: {"calm": 0.0})
