"""Observations of presets, as a controller would see them after half a minute."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from proreus.worlds.inference.model.decision import NOTHING
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario
from proreus.worlds.inference.state.observation import InferenceObservation


def brief(name: str, seconds: float = 60.0, rate: float = 10.0) -> InferenceScenario:
    """A preset with little to do."""
    inference_scenario = PRESETS[name]
    return replace(inference_scenario, load_=replace(inference_scenario.load_, seconds=seconds, rate=rate))


@lru_cache(maxsize=8)
def look_at(name: str) -> InferenceObservation:
    """The third decision of a short run."""
    scenario = brief(name)
    run = scenario.start(scenario.load(0), 0)
    for _ in range(2):
        run.apply(NOTHING)
    seen = run.next_decision()
    assert seen is not None
    return seen
