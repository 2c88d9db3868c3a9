"""What the search for a reserve plays: the fluid model fitted to a scenario, and warped recordings."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.state.fluid import SERVICE
from proreus.worlds.inference.training.fluid_calibration import (
    SimulatedRun,
    fitted_speed,
    kept_along,
    simulated,
)
from proreus.worlds.inference.training.fluid_curriculum import fluid_of, warped
from tests.oracles.fluid_service import kept_by_hand

SURGE = PRESETS["surge"].of_part("train")


@pytest.mark.parametrize("speed", [0.75, 0.9, 1.1])
def test_the_speed_is_that_at_which_as_many_promises_are_kept(speed: float) -> None:
    loads = [fluid_of(SURGE, seed).load for seed in range(3)]

    def runs(held: float) -> list[SimulatedRun]:
        active = np.full(180, held)
        return [SimulatedRun(0.0, kept_along(load, active, 5, speed, SERVICE), active, 4.0) for load in loads]

    found = fitted_speed(loads, runs(9.0), [runs(6.0), runs(12.0)], 10.0)
    assert found == pytest.approx(speed, rel=0.03)


def test_the_kernel_keeps_what_plain_python_keeps() -> None:
    load = fluid_of(SURGE, 1).load
    active = np.array([4.0, 9.0, 2.0, 7.0])
    assert kept_along(load, active, 5, 0.9, SERVICE) == pytest.approx(
        kept_by_hand(load, active, 5, 0.9, SERVICE), rel=1e-12
    )


@pytest.mark.parametrize("name", ["steady", "colocated", "two-models"])
def test_fitted_it_misses_what_the_simulator_misses(name: str) -> None:
    scenario, seeds = PRESETS[name].of_part("train"), range(4)
    loads = [fluid_of(scenario, seed).load for seed in seeds]
    of_rules = [
        [simulated(scenario, seed, POLICIES.make(rule)) for seed in seeds]
        for rule in ("predictive", "tokenscale")
    ]
    speed = fitted_speed(loads, of_rules[0], of_rules[1:], 10.0)
    runs = [run for part in of_rules for run in part]
    fluid = [
        kept_along(load, run.active, 5, speed, SERVICE) for load, run in zip(loads * 2, runs, strict=True)
    ]
    assert np.mean(fluid) == pytest.approx(np.mean([run.kept for run in runs]), abs=0.02)
    assert all(3.9 <= run.gpus <= 4.6 if name != "two-models" else 1.0 < run.gpus < 4.0 for run in runs)


def test_a_warped_part_has_the_load_of_its_recording_at_another_height() -> None:
    draw = np.random.default_rng(3)
    whole = fluid_of(SURGE, 0)
    rate = whole.load.work.mean() / whole.load.requests.mean()
    heights = []
    for _ in range(40):
        part = warped(whole, draw)
        assert part.group == "surge, warped"
        assert part.load.work.size == part.load.requests.size == part.load.urgent.size > 50
        assert (part.load.work >= 0.0).all() and (part.load.urgent <= 1.0 + 1e-9).all()
        assert 30.0 <= part.setting.start_seconds <= 600.0
        assert part.load.work.sum() / part.load.requests.sum() == pytest.approx(rate, rel=0.15)
        heights.append(part.load.work.mean() / whole.load.work.mean())
    assert min(heights) < 0.7 and max(heights) > 1.4


def test_the_same_draws_warp_alike_and_others_do_not() -> None:
    whole = fluid_of(SURGE, 0)
    one, same, other = (warped(whole, np.random.default_rng(seed)).load.work for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert one.size != other.size or not np.array_equal(one, other)
