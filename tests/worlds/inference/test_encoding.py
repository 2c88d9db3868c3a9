"""What a learned controller sees: bounded whatever is measured, and alike for services of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.inference.encoding import actions, pools
from proreus.worlds.inference.encoding.demand import arrivals_of, demand_of
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.state.observation import InferenceObservation
from tests.worlds.inference.sights import look_at


@pytest.mark.parametrize("name", ["steady", "colocated"])
def test_features_have_one_shape_and_are_bounded(name: str) -> None:
    seen = look_at(name)
    rows, context = pools.encode(seen)
    assert rows.shape == (len(seen.pools), pools.SIZES[0]) and context.shape == (pools.SIZES[1],)
    scored, around = actions.encode_actions(seen)
    assert scored.shape == (len(seen.steps), actions.SIZES[0]) and around.shape == (actions.SIZES[1],)
    for array in (rows, context, scored, around):
        assert array.dtype == np.float32 and np.isfinite(array).all() and np.abs(array).max() <= pools.MOST


_ABSURD = st.sampled_from([0.0, 1e-300, 1e12, np.inf, np.nan, -1.0])


@settings(max_examples=40, deadline=None)
@given(_ABSURD, _ABSURD, _ABSURD)
def test_absurd_measurements_stay_numbers(slack: float, met: float, use: float) -> None:
    seen = look_at("steady")
    absurd = replace(
        seen,
        traffic=replace(seen.traffic, ttft_slack=slack, met=met),
        pools=tuple(replace(pool, kv_use=use, busy=slack) for pool in seen.pools),
    )
    for array in pools.encode(absurd):
        assert np.isfinite(array).all() and np.abs(array).max() <= pools.MOST


def test_a_service_twice_as_large_looks_the_same() -> None:
    """Loads are in what a pool can do: twice the requests on twice the instances are no other features."""
    inference_observation = _quiet(look_at("steady"), 1)
    two = _quiet(look_at("steady"), 2)
    small, large = pools.encode(inference_observation)[0], pools.encode(two)[0]
    alike = [pools.FEATURES.index(name) for name in pools.FEATURES[:3]]
    np.testing.assert_allclose(small[:, alike], large[:, alike], rtol=1e-6)


def _quiet(seen: InferenceObservation, times: int) -> InferenceObservation:
    flat = np.tile(seen.history.mean(axis=0), (60, 1)) * times
    grown = tuple(replace(pool, active=3 * times, starting=()) for pool in seen.pools)
    return replace(seen, history=flat, pools=grown)


def _with_requests(seen: InferenceObservation, requests: list[float]) -> InferenceObservation:
    column = np.array(requests)
    return replace(seen, history=np.stack([column, 1000.0 * column, 200.0 * column], axis=1))


def test_a_jump_is_seen_in_its_first_interval_and_noise_is_not() -> None:
    seen, draw = look_at("steady"), np.random.default_rng(1)
    calm = (draw.poisson(400, 100) / 10.0).tolist()
    quiet = arrivals_of(_with_requests(seen, calm))
    assert quiet.sudden == pytest.approx(quiet.level, rel=0.05)
    jumped = arrivals_of(_with_requests(seen, [*calm, 64.0]))
    assert 58.0 < jumped.sudden <= 64.0 and jumped.level < 55.0


def test_what_an_hour_ago_followed_is_remembered() -> None:
    seen = look_at("steady")
    hour = [20.0] * 360
    assert arrivals_of(_with_requests(seen, hour)).hour_ago == pytest.approx(1.0)
    hour[9:] = [60.0] * len(hour[9:])
    assert arrivals_of(_with_requests(seen, hour)).hour_ago > 1.5
    assert arrivals_of(_with_requests(seen, hour[:100])).hour_ago == 1.0


def test_work_of_a_request_is_that_of_its_tokens() -> None:
    seen = _with_requests(look_at("steady"), [10.0] * 30)
    prompt, token = demand_of(seen, "prompt"), demand_of(seen, "token")
    assert prompt.each == pytest.approx(1000.0 / seen.ability("prompt").prompt_tokens)
    assert token.each == pytest.approx(200.0 / seen.ability("token").output_tokens)
    mixed = _with_requests(look_at("colocated"), [10.0] * 30)
    assert demand_of(mixed, "mixed").each == pytest.approx(prompt.each + token.each, rel=0.05)


def test_every_preset_can_be_seen() -> None:
    for name in PRESETS:
        assert np.isfinite(pools.encode(look_at(name))[0]).all()
