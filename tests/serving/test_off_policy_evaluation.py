"""The gate in a world whose truth is known: it lets better models through and stops worse ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.model.experience import Experience
from proreus.serving.online.off_policy_evaluation import GateSettings, judge, worth
from proreus.worlds.pods.policies.vector.model import (
    VectorModel,
    VectorScorer,
    Weights,
    fresh_scorer,
    model_of,
)
from proreus.worlds.pods.policies.vector.scorer import part
from proreus.worlds.pods.training.vector.recorded_ppo import improve
from tests.serving.serving_cases import ACTIONS, an_experience, played, true_worth

LEARN = {"learning_rate": 3e-3, "target_kl": 0.05, "threads": 1}


def improved(model: VectorModel, rounds: int, seed: int = 0) -> VectorModel:
    """A model after some updates from decisions of its own."""
    weights = Weights(model.kind, model.tensors)
    for k in range(rounds):
        now = model_of(weights.kind, weights.tensors, None)  # type: ignore[arg-type]
        weights = improve(weights, [played(now, 1000 * seed + k, 512)], LEARN).parameters
    return model_of(weights.kind, weights.tensors, None)  # type: ignore[arg-type]


def with_bids(model: VectorModel, factor: float) -> VectorModel:
    """The same model with its bids for nodes multiplied: below 0 it prefers what it avoided."""
    parameters = model.tensors["parameters"].copy()
    part(parameters, "place")[:] *= factor
    return VectorScorer(parameters)


def replay(model: VectorModel, seed: int = 500) -> list[Experience]:
    return [played(model, seed + k, 64) for k in range(16)]


def test_an_improved_candidate_is_let_through_and_a_sabotaged_one_is_not() -> None:
    live = improved(fresh_scorer(0), 4)
    better = improved(live, 1, seed=7)
    assert true_worth(better) > true_worth(live) + 0.1
    verdict = judge(live, better, replay(live), GateSettings())
    assert verdict.accepted, verdict.reason
    assert verdict.low > 0.0 and verdict.reason.startswith("better")
    bad = with_bids(live, -1.0)
    assert true_worth(bad) < true_worth(live) - 0.1
    verdict = judge(live, bad, replay(live), GateSettings())
    assert not verdict.accepted and verdict.reason.startswith("worse") and verdict.high < 0.0


def test_the_estimate_agrees_with_the_truth() -> None:
    """Over many replays, the difference is about that of playing both, and inside the interval mostly."""
    live = improved(fresh_scorer(1), 3)
    other = improved(live, 1, seed=3)
    truth = true_worth(other, 40_000) - true_worth(live, 40_000)
    verdicts = [judge(live, other, replay(live, 10_000 + 100 * k), GateSettings()) for k in range(12)]
    mean = float(np.mean([verdict.difference for verdict in verdicts]))
    assert mean == pytest.approx(truth, abs=0.1)
    inside = sum(verdict.low - 0.06 <= truth <= verdict.high + 0.06 for verdict in verdicts)
    assert inside >= 10


def test_a_model_earns_what_it_earns_which_is_no_reason_to_publish_it() -> None:
    live = improved(fresh_scorer(0), 2)
    verdict = judge(live, live, replay(live), GateSettings())
    assert not verdict.accepted and verdict.reason.startswith("not told apart")
    assert verdict.difference == verdict.low == verdict.high == 0.0


def test_what_the_replay_cannot_judge_is_not_accepted() -> None:
    live = improved(fresh_scorer(0), 2)
    verdict = judge(live, live, [replay(live)[0]], GateSettings(least_decisions=65))
    assert not verdict.accepted and "only 64 held-out decisions" in verdict.reason
    greedy = [replace(stretch, greedy=np.ones(64, dtype=np.bool_)) for stretch in replay(live)]
    unknown = [replace(stretch, log_probs=np.full(64, np.nan)) for stretch in replay(live)]
    for stretches in (greedy, unknown, []):
        assert judge(live, live, stretches, GateSettings()).decisions == 0
    live = improved(fresh_scorer(0), 8)
    far = judge(with_bids(live, -1.0), with_bids(live, 5.0), replay(with_bids(live, -1.0)), GateSettings())
    assert not far.accepted and "cannot judge" in far.reason and far.effective < 0.1 * far.decisions


def test_worth_is_discounted_up_to_the_end_of_an_episode() -> None:
    some = replace(
        an_experience(0, 4),
        rewards=np.array([1.0, 2.0, 4.0, 8.0]),
        dones=np.array([False, True, False, False]),
    )
    assert worth(some, 0.5).tolist() == [2.0, 2.0, 8.0, 8.0]
    assert some.actions_dim == ACTIONS
