"""The gate against reports that lie: what cannot be compared never passes, and one report decides nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.model.experience import Experience
from proreus.serving.online.off_policy_evaluation import GateSettings, judge
from proreus.worlds.pods.policies.vector.model import VectorModel, fresh_scorer
from tests.serving.serving_cases import played
from tests.serving.test_off_policy_evaluation import improved, replay, with_bids

SETTINGS = GateSettings()


@pytest.fixture(scope="module")
def models() -> tuple[VectorModel, VectorModel, VectorModel]:
    """(live, a better one, a worse one)."""
    live = improved(fresh_scorer(0), 4)
    return live, improved(live, 1, seed=7), with_bids(live, -1.0)


def rewarded(model: VectorModel, reward: float, decisions: int, **columns: object) -> Experience:
    """A report of a model's decisions, all with this reward."""
    experience = played(model, 7, decisions)
    return replace(experience, rewards=np.full(decisions, reward), **columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("reward", [1.7e308, -1.7e308, 1e300, 1e200])
def test_two_steps_of_an_immense_reward_let_nothing_through(
    models: tuple[VectorModel, VectorModel, VectorModel], reward: float
) -> None:
    live, _, bad = models
    lie = rewarded(live, reward, 2, dones=np.array([False, True]))
    for stretches in ([*replay(live), lie], [lie, *replay(live)[:2]]):
        verdict = judge(live, bad, stretches, SETTINGS)
        assert not verdict.accepted, verdict.reason
        assert np.isfinite(verdict.difference)


def test_an_infinite_or_missing_comparison_is_no_permission(
    models: tuple[VectorModel, VectorModel, VectorModel],
) -> None:
    live, better, _ = models
    for reward in (1.7e308, np.inf, np.nan):
        lies = [rewarded(live, reward, 64) for _ in range(8)]
        verdict = judge(live, better, lies, SETTINGS)
        assert not verdict.accepted and "cannot be compared" in verdict.reason


def favouring(chosen: VectorModel, other: VectorModel, live: VectorModel, size: float) -> Experience:
    """A report that praises what one model would do more often than the other."""
    experience = played(live, 8, 64)
    gains = [
        chosen.chances(state, experience.actions_dim, None)[action]
        > other.chances(state, experience.actions_dim, None)[action]
        for state, action in zip(experience.states, experience.actions, strict=True)
    ]
    return replace(experience, rewards=np.where(gains, size, -size))


@pytest.mark.parametrize("others", [2, 3, 8, 16])
def test_one_report_does_not_carry_a_worse_candidate(
    models: tuple[VectorModel, VectorModel, VectorModel], others: int
) -> None:
    live, _, bad = models
    honest = replay(live)[:others]
    assert not judge(live, bad, honest, SETTINGS).accepted
    lie = favouring(bad, live, live, 1e4)
    verdict = judge(live, bad, [*honest, lie], SETTINGS)
    assert not verdict.accepted, verdict.reason


def test_one_report_does_not_stop_a_better_candidate(
    models: tuple[VectorModel, VectorModel, VectorModel],
) -> None:
    live, better, _ = models
    for lie in (favouring(live, better, live, 1e4), rewarded(live, 1e9, 64), rewarded(live, -1e9, 64)):
        verdict = judge(live, better, [*replay(live), lie], SETTINGS)
        assert verdict.accepted, verdict.reason


def test_a_report_of_many_stretches_is_one_report(
    models: tuple[VectorModel, VectorModel, VectorModel],
) -> None:
    live, _, bad = models
    lies = [favouring(bad, live, live, 1e4)] * 3
    stretches = [*replay(live), *lies]
    reports = [*range(16), 99, 99, 99]
    assert not judge(live, bad, stretches, SETTINGS, reports).accepted


@pytest.mark.parametrize("log_prob", [-40.0, -29.0])
def test_chances_that_nobody_can_have_given_leave_the_verdict_to_the_others(
    models: tuple[VectorModel, VectorModel, VectorModel], log_prob: float
) -> None:
    live, better, _ = models
    lies = [rewarded(live, -5.0, 64, log_probs=np.full(64, log_prob)) for _ in range(6)]
    verdict = judge(live, better, [*replay(live), *lies], SETTINGS)
    assert verdict.accepted, verdict.reason
    assert not judge(live, better, lies, SETTINGS).accepted


def test_what_was_sound_stays_sound(models: tuple[VectorModel, VectorModel, VectorModel]) -> None:
    live, better, bad = models
    verdicts = [judge(live, model, replay(live), SETTINGS) for model in (better, live, bad)]
    assert [verdict.accepted for verdict in verdicts] == [True, False, False]
    reasons = [verdict.reason.partition(":")[0] for verdict in verdicts]
    assert reasons == ["better", "not told apart", "worse"]  # a model that earns the same is no news
