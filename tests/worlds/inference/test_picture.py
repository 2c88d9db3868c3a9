"""What is drawn of a run is what the run is: pools, states, loads; on a screen and in a replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.contract.play import recorded
from proreus.contract.replay import ABSENT, FULL
from proreus.worlds.inference.model.decision import NOTHING, Scale
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.rendering import STATES
from proreus.worlds.inference.world import WORLD


def small(name: str = "steady") -> InferenceScenario:
    """A few minutes of a preset."""
    scenario = PRESETS[name]
    return replace(scenario, load_=replace(scenario.load_, seconds=200.0, day_seconds=200.0))


def test_a_replay_shows_every_server_in_its_pool_and_state() -> None:
    scenario = small()
    run = scenario.start(scenario.load(0), 0)
    run.apply(Scale(prompt=2, token=-1))
    stage, look = run.stage(), run.look()
    assert stage.groups == ("prompt pool", "token pool") and look.levels.shape == (24, 1, stage.depth)
    fleet = run.cluster.run.fleet
    there = ~np.isin(fleet[:, c.STATUS], (c.ABSENT, c.STOPPED))
    assert np.array_equal(look.levels[:, 0, 0] != ABSENT, there)
    shown = look.levels[there, 0]
    assert np.array_equal(shown[:, -2], fleet[there, c.TAG])
    starting = shown[:, -1] == STATES.index("starting")
    assert starting.sum() == 2 and not shown[starting, : len(stage.gauges)].any()
    kv = (fleet[:, c.MEMORY] - fleet[:, c.WEIGHTS]) / np.maximum(
        fleet[:, c.CAPACITY] - fleet[:, c.WEIGHTS], 1
    )
    serving = there & (fleet[:, c.STATUS] == c.ACTIVE)
    assert look.levels[serving, 0, 0] == pytest.approx(np.rint(FULL * kv[serving]))
    assert [move.item for move in look.moves] == ["instance 6", "instance 7"]
    run.apply(NOTHING)
    assert run.look().moves == (), "told once"


def test_pools_of_two_models_are_told_apart() -> None:
    scenario = small("two-models")
    run = scenario.start(scenario.load(0), 0)
    assert run.stage().groups == (
        *("llama3-70b, prompt pool", "llama3-70b, token pool"),
        *("llama3-8b, prompt pool", "llama3-8b, token pool"),
    )
    levels = run.look().levels[:6, 0]
    assert levels[:, -2].tolist() == [0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("name", ["steady", "colocated"])
def test_timelines_have_the_series_of_the_pools(name: str) -> None:
    scenario = small(name)
    picture = recorded(scenario.start(scenario.load(0), 0), POLICIES.make("apa"))
    assert picture is not None and picture.replay is not None
    series = picture.recording.series
    keys = {layer.key for strip in WORLD.timeline for layer in strip.layers}
    roles = {"steady": {"prompt", "token"}, "colocated": {"mixed"}}[name]
    mine = {key for key in keys if key.split()[0] in roles or " " not in key}
    assert mine <= set(series) and keys - mine == keys - set(series)
    active = sum(values for key, values in series.items() if key.endswith(" active"))
    assert np.array_equal(active, series["instances"])
    assert picture.recording.time.size == 20, "one moment a decision"


def test_a_screen_has_a_line_for_every_instance() -> None:
    scenario = small()
    run = scenario.start(scenario.load(0), 0)
    run.apply(Scale(token=1))
    head, *lines = run.screen()
    assert "6 active, 1 starting, 0 draining" in head
    assert len(lines) == 7 and lines[-1].split()[:3] == ["6", "token", "provisioning"]
    assert max(map(len, [head, *lines])) <= 80
