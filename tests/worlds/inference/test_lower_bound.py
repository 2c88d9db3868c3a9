"""Nobody goes below the lower bound, and it is no empty one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.worlds.inference.datasets.timings import timings_of
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario
from proreus.worlds.inference.simulation.lower_bound import LowerBound, gpu_seconds, lower_bound

pytest.importorskip("highspy", reason="the extra `solve` is not installed")


def _bound(scenario: InferenceScenario, seed: int) -> LowerBound:
    spec = scenario.machines.spec()
    return lower_bound(scenario.load(seed), spec, timings_of(spec, scenario.table), scenario.control)


def _short(name: str) -> InferenceScenario:
    scenario = PRESETS[name]
    return replace(scenario, load_=replace(scenario.load_, seconds=400.0, day_seconds=400.0))


@pytest.mark.parametrize(
    "name", ["steady", "surge", "colocated", "conversations", "spot", "hetero", "two-models"]
)
def test_nobody_goes_below(name: str) -> None:
    scenario = _short(name)
    bound = _bound(scenario, 0)
    assert 0.0 < bound.weighed_gpu_hours <= bound.gpu_hours + 1e-9
    for policy in ("oracle", "learned", "static", "chiron", "threshold"):
        measures = play(scenario, scenario.load(0), POLICIES.make(policy), 0).measures
        assert measures["weighed_gpu_hours"] >= bound.weighed_gpu_hours, policy


def test_it_is_more_than_the_work_alone() -> None:
    """Instances at the beginning, the least of each pool and starts cost something too."""
    scenario = _short("surge")
    spec, trace = scenario.machines.spec(), scenario.load(0)
    work = gpu_seconds(trace, spec, timings_of(spec, scenario.table))
    kept = np.sort(work)[: int(0.99 * len(work))].sum() / 3_600.0
    assert _bound(scenario, 0).gpu_hours > kept


def test_a_longer_start_costs_no_less() -> None:
    from proreus.worlds.inference.model.start_up import starting_within

    scenario = _short("surge")
    hours = [
        _bound(replace(scenario, control=replace(scenario.control, start=starting_within(seconds))), 0)
        for seconds in (10.0, 60.0, 120.0)
    ]
    assert hours[0].gpu_hours <= hours[1].gpu_hours + 1e-9 <= hours[2].gpu_hours + 2e-9
