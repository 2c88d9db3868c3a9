"""No controller raises, whatever comes: gaps of hours, nothing at all, one request, a thousandfold burst."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.arrays import F64
from proreus.learning.initial_weights import preferring
from proreus.learning.ppo import PPOConfig
from proreus.policies.networks.bidder import bidder_of
from proreus.worlds.inference.encoding.pools import encode
from proreus.worlds.inference.encoding.residual import SIZES
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.model.requests import RequestTrace, trace_of
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.rules.controller import Controller
from proreus.worlds.inference.policies.steered_rule import Residual, first_rule
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario
from tests.worlds.inference.looks import pool, seen

HOUR = 360
"""Intervals."""


def _falls(high: float) -> list[float]:
    """A trend that falls goes on below nothing."""
    return [*np.linspace(0.0, high, 60).tolist(), *np.linspace(high, 0.0, 20).tolist(), *[0.0] * 60]


HISTORIES: dict[str, list[float]] = {
    "nothing": [0.0] * 400,
    "one request": [0.1, *[0.0] * 400],
    "one request an hour ago": [*[0.0] * 3, 0.1, *[0.0] * (HOUR + 3)],
    "a gap of an hour": [10.0] * 20 + [0.0] * HOUR + [10.0] * 20,
    "a burst of a thousandfold": [*[0.1] * 50, *[100.0] * 3, *[0.1] * 50],
    "a burst out of nothing": [*[0.0] * 50, 1e5, *[0.0] * 50],
    "every other": [0.0, 1_000.0] * 100,
    "falls": _falls(500.0),
    "falls from much": _falls(1e6),
    "hardly anything": [1e-12] * 100,
}
SHAPES = {"one pool": (pool("mixed"),), "two pools": (pool("prompt"), pool("token"))}


def _rows(rates: list[float]) -> F64:
    """Tokens are still generated when no request comes any more."""
    outputs = np.convolve(np.array(rates), np.full(30, 200.0 / 30.0))[: len(rates)]
    return np.stack([np.array(rates), 1_000.0 * np.array(rates), outputs], axis=1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [*POLICIES.names, "residual-0", "residual-1"])
@pytest.mark.parametrize("start_seconds", [10.0, 120.0])
def test_histories(name: str, shape: str, start_seconds: float) -> None:
    for what, rates in HISTORIES.items():
        rule, rows = CONTROLLERS[name](), _rows(rates)
        for step in [1, 2, *range(11, len(rates), 29), len(rates)]:
            looked = seen(*SHAPES[shape], now=10.0 * step)
            history = rows[max(step - HOUR, 0) : step]
            look = replace(looked, history=history, start_seconds=start_seconds)
            change = rule.decide(look)
            assert isinstance(change, Scale), what
            assert look.refusal(change) == "", what


@pytest.mark.parametrize("what", HISTORIES)
def test_features_are_finite_numbers(what: str) -> None:
    rows = _rows(HISTORIES[what])
    for step in range(1, len(rows) + 1, 5):
        look = replace(seen(*SHAPES["two pools"], now=10.0 * step), history=rows[max(step - HOUR, 0) : step])
        features, context = encode(look)
        assert np.isfinite(features).all() and np.isfinite(context).all()


def test_one_long_answer_does_not_need_every_instance() -> None:
    """Tokens of a request that came long ago are not divided by none."""
    rates = np.zeros((HOUR, 3))
    rates[0] = (0.1, 100.0, 0.0)
    rates[:, 2] = 20.0
    idle = pool("mixed", running=1, waiting=0, pending_tokens=1, kv_use=0.01, busy=1.0)
    rule = POLICIES.make("plan")
    for step in range(100, HOUR, 10):
        look = replace(seen(idle, now=10.0 * step), history=rates[:step])
        change = rule.decide(look)
        assert isinstance(change, Scale) and change.mixed <= 0


TRACES: dict[str, tuple[list[float], int]] = {
    "one request": ([0.0], 1),
    "one request, late": ([3_600.0], 1),
    "all at one moment": ([120.0] * 500, 1),
    "pairs at equal moments, hours apart": ([0.0, 0.0, 7_200.0, 7_200.0], 1),
    "prompts that no instance can hold": ([0.0, 30.0, 60.0, 90.0], 1_000_000),
    "two, three hours apart": ([0.0, 7_200.0], 1),
    "a thousand at once": ([0.0, *[300.0] * 1_000, 900.0], 1),
    "a burst of a thousandfold": ([*range(0, 600, 60), *np.linspace(600.0, 660.0, 1_000)], 1),
    "one huge prompt": ([0.0, 60.0], 400),
}


def _trace(what: str) -> RequestTrace:
    arrivals, longer = TRACES[what]
    count = len(arrivals)
    return trace_of(
        what, np.array(arrivals, dtype=float), np.full(count, 300 * longer // 10 + 1), np.full(count, 40)
    )


@pytest.mark.parametrize("what", TRACES)
@pytest.mark.parametrize("scenario", ["steady", "colocated"])
def test_traces_are_played_to_the_end_within_limits(scenario: str, what: str) -> None:
    trace = _trace(what)
    assert all(before <= after for before, after in pairwise(trace.arrival))
    for name, make in CONTROLLERS.items():
        _play(PRESETS[scenario], trace, make(), name)


@settings(max_examples=8, deadline=None)
@given(
    gaps=st.lists(st.sampled_from([0.0, 0.0, 1e-9, 0.01, 1.0, 60.0, 3_600.0]), min_size=1, max_size=60),
    prompts=st.sampled_from([1, 300, 8_000, 500_000]),
    scenario=st.sampled_from(["steady", "colocated", "spot", "hetero", "two-models"]),
)
def test_any_trace(gaps: list[float], prompts: int, scenario: str) -> None:
    """None raises, none breaks a limit, and every request ends."""
    arrival = np.minimum(np.cumsum(gaps), 10_000.0)
    trace = trace_of("any", arrival, np.full(len(gaps), prompts), np.full(len(gaps), 20))
    for name, make in CONTROLLERS.items():
        _play(PRESETS[scenario], trace, make(), name)


def _play(scenario: InferenceScenario, trace: RequestTrace, policy: Controller, name: str) -> None:
    run, limits = scenario.start(trace, 0), scenario.control.limits
    while (seen := run.next_decision()) is not None:
        change = policy.decide(seen)
        assert seen.refusal(change) == "", name
        run.apply(change)
        assert run.manager.total() <= limits.most_in_total, name
    assert run.cluster.ended == len(trace), name


def _residual(seed: int) -> Controller:
    """A learned controller of no sense, which shifts its rule about."""
    draw = np.random.default_rng(seed)
    weights = preferring(PPOConfig(hidden=4, seed=seed), SIZES, 0, 0.0)
    noise = {
        name: np.asarray(draw.normal(0.0, 1.0, array.shape), np.float32) for name, array in weights.items()
    }
    return Residual("any", first_rule(), bidder_of("actor", noise, SIZES))


def _rule(name: str) -> Callable[[], Controller]:
    return lambda: cast(Controller, POLICIES.make(name))


CONTROLLERS: dict[str, Callable[[], Controller]] = {
    **{name: _rule(name) for name in POLICIES.names},
    **{f"residual-{seed}": partial(_residual, seed) for seed in range(2)},
}
