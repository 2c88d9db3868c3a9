"""Trace > exporter > scaler > autoscaler > replicas, on one clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.keda.closed_loop import Moment, metadata_of, outcome, play
from proreus.worlds.inference.exporter.autoscaler import hpa_replicas
from proreus.worlds.inference.exporter.fleet import SimulatedFleet
from proreus.worlds.inference.exporter.server import ExporterServer
from proreus.worlds.inference.model.start_up import Limits, starting_within
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario

BASE = PRESETS["colocated"]
SCENARIO = replace(
    BASE,
    load_=replace(BASE.load_, seconds=240.0, rate=40.0, urgent=1.0),
    machines=replace(BASE.machines, mixed=1),
    control=replace(BASE.control, start=starting_within(40.0), limits=Limits(1, most_in_total=8)),
)


def closed(scenario: InferenceScenario, policy: str) -> tuple[list[Moment], dict[str, float]]:
    exporter = ExporterServer(SimulatedFleet(scenario, scenario.load(0)))
    exporter.start()
    try:
        history = play(scenario, metadata_of(scenario, exporter, policy), exporter)
        return history, outcome(exporter.fleet, scenario)
    finally:
        exporter.stop()


def test_the_loop_closes() -> None:
    history, measured = closed(SCENARIO, "threshold")
    alone, unscaled = closed(SCENARIO, "static")
    assert {moment.replicas for moment in alone} == {1}
    assert max(moment.replicas for moment in history) > 1
    assert all(1 <= moment.replicas <= 8 and moment.replicas == moment.wanted for moment in history)
    # Replicas serve when they have started, and not before.
    first = next(moment.time for moment in history if moment.replicas > 1)
    served = next(moment.time for moment in history if moment.serving > 1)
    assert first + 40.0 <= served <= first + 40.0 + 15.0
    assert measured["slo_attainment"] > unscaled["slo_attainment"]
    assert measured["gpu_hours"] > unscaled["gpu_hours"]


@pytest.mark.parametrize(
    ("amount", "current", "tolerance", "then"),
    [(12.0, 11, 0.1, 11), (12.0, 11, 0.0, 12), (13.0, 11, 0.1, 13), (2.5, 1, 0.0, 3), (3.0, 0, 0.1, 3)],
)
def test_the_tolerance_of_the_autoscaler_hides_small_steps(
    amount: float, current: int, tolerance: float, then: int
) -> None:
    assert hpa_replicas(amount, 1.0, current, tolerance) == then
