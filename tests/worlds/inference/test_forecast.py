"""Forecasts of series whose future is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from proreus.worlds.inference.state.forecast import (
    DayProfile,
    Doubt,
    Smoothing,
    autoregressive,
    error_of,
    forecast,
    profile_of,
    seasonal,
    smoothed,
)


def test_a_constant_load_stays() -> None:
    found = forecast(np.full((100, 3), 7.0), 12)
    assert found.expected == pytest.approx([7.0] * 3) and found.likely_most == pytest.approx([7.0] * 3)
    assert autoregressive(np.full(100, 7.0), 12) == pytest.approx(7.0)


def test_a_straight_line_goes_on_where_trends_do_not_end() -> None:
    line = 10.0 + 2.0 * np.arange(300.0)[:, None]
    found = forecast(line, 12, smoothing=Smoothing(0.5, 0.2, 1.0))
    assert found.expected[0] == pytest.approx(line[-1, 0] + 24.0, rel=1e-6)
    assert line[-1, 0] < forecast(line, 12).expected[0] < line[-1, 0] + 24.0, "damped"


def test_smoothing_is_holts_recursion() -> None:
    series = np.random.default_rng(0).random((50, 2))
    levels, trends = smoothed(series, 0.3, 0.1, 0.9)
    level, trend = series[0].copy(), np.zeros(2)
    for row in range(1, 50):
        before = level
        level = 0.3 * series[row] + 0.7 * (level + 0.9 * trend)
        trend = 0.1 * (level - before) + 0.9 * 0.9 * trend
        assert levels[row] == pytest.approx(level) and trends[row] == pytest.approx(trend)


def test_the_bound_is_exceeded_as_rarely_as_asked_for() -> None:
    noise = np.random.default_rng(1).normal(100.0, 10.0, (2_000, 1))
    for quantile in (0.5, 0.9):
        above = [
            noise[end + 11, 0] > forecast(noise[end - 200 : end], 12, quantile).likely_most[0]
            for end in range(200, 1_900, 7)
        ]
        assert np.mean(above) == pytest.approx(1.0 - quantile, abs=0.06)


def test_errors_are_those_that_were_made_and_a_prior_before_any() -> None:
    draw, smoothing, doubt = np.random.default_rng(3), Smoothing(0.05, 0.0, 0.9), Doubt(0.5, 12.0, 200.0)
    noise = np.exp(draw.normal(0.0, 0.2, (800, 1)))
    assert error_of(noise[:12], 12, smoothing, doubt) == pytest.approx([0.5]), "nothing was forecast yet"
    assert error_of(noise, 12, smoothing, doubt)[0] == pytest.approx(0.2, abs=0.05)
    falling = np.linspace(100.0, 1.0, 300)[:, None]
    assert error_of(falling, 12, smoothing, doubt)[0] < 0.2, "too much was forecast, which is no danger"


def test_a_burst_passes_where_bursts_pass() -> None:
    draw, level, series = np.random.default_rng(2), 0.0, []
    for _ in range(360):
        level = 0.9 * level + draw.normal(0.0, 5.0)
        series.append(100.0 + level)
    burst = np.append(np.array(series), [100.0 + 40.0 * 0.9**-step for step in range(4, -1, -1)])
    assert 100.0 < autoregressive(burst, 12, order=1) < 120.0
    assert forecast(burst[:, None], 12).expected[0] > 115.0, "a trend does not know that"


def test_an_autoregression_repeats_what_it_was_made_of() -> None:
    wave = 50.0 + 20.0 * np.sin(np.arange(300) * 2 * np.pi / 24)
    then = 50.0 + 20.0 * np.sin(311 * 2 * np.pi / 24)
    assert autoregressive(wave, 12) == pytest.approx(then, abs=2.0)


def test_a_day_is_carried_along_its_profile() -> None:
    moments = np.arange(0.0, 1_800.0, 10.0)
    loads = 40.0 + 20.0 * np.sin(moments / 1_800.0 * 2 * np.pi)
    assert profile_of(moments[:90], loads[:90], 30, 1_800.0) is None, "half a day is no day"
    profile = profile_of(moments, loads, 30, 1_800.0)
    assert profile is not None
    assert profile.at(455.0) == pytest.approx(60.0, abs=0.5)
    tomorrow = seasonal(profile, 1_800.0, 450.0, 80.0)
    assert tomorrow == pytest.approx(80.0 * profile.at(450.0) / profile.at(0.0))
    assert DayProfile(np.array([1.0, 3.0]), 100.0).at(0.0) == pytest.approx(2.0), (
        "midnight is between two parts"
    )


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 60), st.just(3)), elements=st.floats(0.0, 1e6)),
    st.integers(1, 40),
)
def test_forecasts_are_finite_and_not_below_nothing(history: np.ndarray, steps: int) -> None:
    found = forecast(history, steps)
    assert np.isfinite(found.expected).all() and np.isfinite(found.likely_most).all()
    assert (found.expected >= 0.0).all() and (found.likely_most >= found.expected).all()
    assert 0.0 <= autoregressive(history[:, 0], steps) <= 2.0 * history[:, 0].max() + 1e-9
