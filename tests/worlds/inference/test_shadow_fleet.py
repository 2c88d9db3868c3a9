"""What a controller in the shadow would have held: reckoned beside another one, and true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.worlds.inference.model.decision import ScaleSteps
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.state.observation import Ability, InferenceObservation, PoolSeen, Traffic
from proreus.worlds.inference.state.shadow_fleet import ShadowFleet, ShadowTally
from tests.worlds.inference.shadow_study import shadowed

ABILITY = Ability(10_000.0, 2_000.0, 100_000.0)


def seen(now: float, active: int = 4, rate: float = 10.0, met: float = 1.0) -> InferenceObservation:
    """A service of one pool with prompts of 1,000 tokens and 100 to generate: 0.15 of a replica a request."""
    traffic = Traffic(rate, 1_000.0 * rate, 100.0 * rate, round(10 * rate), 0.2, 0.0, met, 0.5, 0.5)
    return InferenceObservation(
        now=now,
        interval=10.0,
        pools=(PoolSeen("mixed", active, (), 0, 0, 20, 20, 0.3, 0.5),),
        traffic=traffic,
        history=np.array([[rate, 1_000.0 * rate, 100.0 * rate]]),
        at_router=0,
        total=active,
        limits=Limits(1, 16, 16),
        start_seconds=60.0,
        abilities=(ABILITY,),
        steps=ScaleSteps(("mixed",), 5, 0),
    )


def followed(fleet: ShadowFleet, until: float, **real: float) -> InferenceObservation:
    own = fleet.follow(seen(0.0, **real))  # type: ignore[arg-type]
    for step in range(1, round(until / 10.0) + 1):
        own = fleet.follow(seen(10.0 * step, **real))  # type: ignore[arg-type]
    return own


def test_whoever_does_the_same_saves_nothing() -> None:
    fleet = ShadowFleet()
    own = followed(fleet, 100.0, active=4)
    tally = fleet.tally
    assert (tally.seconds, tally.real) == (100.0, 400.0)
    assert tally.would == pytest.approx(400.0)
    assert tally.would_met == tally.modelled_met
    assert own.pools[0].active == 4
    assert tally.since(tally) == ShadowTally()


def test_replicas_of_the_shadow_start_and_go() -> None:
    fleet = ShadowFleet()
    fleet.follow(seen(0.0))
    fleet.scale({"mixed": 6})
    own = fleet.follow(seen(10.0))
    assert (own.pools[0].active, own.pools[0].starting) == (4, (50.0, 50.0))
    fleet.scale({"mixed": 5})  # one that starts is given up before one that serves
    own = fleet.follow(seen(70.0))
    assert (own.pools[0].active, own.pools[0].starting, own.total) == (5, (), 5)
    fleet.scale({"mixed": 2})
    own = fleet.follow(seen(80.0))
    assert (own.pools[0].coming, own.total) == (2, 2)
    held = 60.0 + 6 * 10.0 + 5 * 60.0 + 3 * 10.0 + 2 * 10.0
    assert fleet.tally.would == pytest.approx(held - 60.0)


def test_too_few_of_them_let_requests_wait() -> None:
    fleet = ShadowFleet()
    fleet.follow(seen(0.0, rate=20.0))
    fleet.scale({"mixed": 1})
    for step in range(1, 10):
        own = fleet.follow(seen(10.0 * step, rate=20.0))
    assert own.traffic.met < 0.1
    assert own.traffic.wait > 10.0
    assert own.pools[0].waiting > 100
    assert own.pools[0].pending_tokens > 100_000
    tally = fleet.tally
    assert tally.would_met < 0.2 * tally.requests
    assert tally.modelled_met > 0.95 * tally.requests  # of the four that there really are
    assert (tally.met, tally.ended) == (9 * 200.0, 9 * 200.0)


def test_what_nobody_saw_is_not_compared() -> None:
    fleet = ShadowFleet()
    fleet.follow(seen(0.0))
    fleet.follow(seen(10.0))
    fleet.follow(seen(4_000.0))
    fleet.follow(seen(4_010.0))
    assert fleet.tally.seconds == 20.0
    assert fleet.tally.real == 80.0


def test_where_starts_are_not_seen_they_are_paid_for() -> None:
    held = []
    for sees_starts in (True, False):
        fleet = ShadowFleet(sees_starts=sees_starts)
        fleet.follow(seen(0.0, active=2))
        fleet.follow(seen(10.0, active=5))
        held.append(fleet.tally.real)
    assert held == [50.0, 50.0 + 3 * 60.0]


@pytest.mark.parametrize("rate", [0.0, 1e12])
def test_absurd_loads_are_survived(rate: float) -> None:
    fleet = ShadowFleet()
    own = followed(fleet, 50.0, active=0, rate=rate)
    assert np.isfinite([own.traffic.met, own.traffic.wait, own.pools[0].pending_tokens]).all()
    assert POLICIES.make("learned", seed=0).decide(own) is not None


@pytest.mark.parametrize("name", ["surge", "colocated"])
def test_what_is_predicted_comes_true(name: str) -> None:
    base = PRESETS[name]
    scenario = replace(base, load_=replace(base.load_, seconds=1_200.0))
    real, shadow = POLICIES.make("predictive", seed=0), POLICIES.make("learned", seed=0)
    prediction = shadowed(scenario, 3000, real, shadow)
    predicted, really = prediction.saving
    assert predicted == pytest.approx(really, abs=4.0)
    assert really > 10.0
    assert prediction.shadow_kept == pytest.approx(prediction.would_kept, abs=2.0)
    assert prediction.modelled_kept == pytest.approx(prediction.real_kept, abs=1.0)
