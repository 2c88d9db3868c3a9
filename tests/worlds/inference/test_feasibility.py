"""Requests that no controller could serve as promised are known beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.worlds.inference.datasets.recorded import Playback
from proreus.worlds.inference.datasets.timings import timings_of
from proreus.worlds.inference.model.requests import trace_of
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.simulation.feasibility import busy_instances, hopeless
from proreus.worlds.inference.state.observation import Ability


def _late(prompts: list[int]) -> list[bool]:
    scenario = PRESETS["colocated"]
    count = len(prompts)
    trace = trace_of(
        "t",
        np.arange(count, dtype=np.float64) * 60.0,
        np.array(prompts, dtype=np.int32),
        np.full(count, 5, dtype=np.int32),
    )
    spec = scenario.machines.spec()
    return [bool(late) for late in hopeless(trace, spec, timings_of(spec, None), scenario.control)]


def test_the_simulator_agrees_about_requests_that_come_alone() -> None:
    prompts = [100, 8_000, 16_000, 20_000, 24_000, 40_000]
    scenario, count = PRESETS["colocated"], len(prompts)
    kept = []
    for prompt in prompts:
        trace = trace_of("t", np.zeros(1), np.array([prompt], dtype=np.int32), np.full(1, 5, dtype=np.int32))
        measures = play(scenario, trace, POLICIES.make("static"), 0).measures
        kept.append(measures["slo_attainment"] == 100.0)
    late = _late(prompts)
    assert late == [not one for one in kept]
    assert any(late) and not all(late) and len(late) == count


def test_a_trace_says_what_nobody_could_serve(tmp_path: Path) -> None:
    place = tmp_path / "long.csv"
    rows = "\n".join(f"{second},{60_000 if second % 4 == 0 else 500},20" for second in range(40))
    place.write_text(f"arrival,prompt,output\n{rows}\n")
    scenario = replace(PRESETS["colocated"], name="own", source="file", place=place, playback=Playback())
    assert "25.0 % of the requests would be late on an idle instance" in scenario.caution([0])
    assert "more than 75.0 % as promised" in scenario.caution([0])


def test_more_than_all_instances_can_do_is_told_and_nobody_serves_it() -> None:
    surge = PRESETS["surge"]
    limited = replace(
        surge, control=replace(surge.control, limits=replace(surge.control.limits, most_in_total=6))
    )
    assert "there may be 6: no controller keeps up" in limited.caution([0])
    assert surge.caution([0]) == ""
    outcome = play(limited, limited.load(0), POLICIES.make("oracle"), 0)
    assert outcome.measures["slo_attainment"] < 60.0


def test_a_burst_that_can_be_worked_off_is_not_too_much(tmp_path: Path) -> None:
    place = tmp_path / "burst.csv"
    place.write_text("arrival,prompt,output\n" + "5,2000,300\n" * 500)
    scenario = replace(PRESETS["colocated"], name="burst", source="file", place=place, playback=Playback())
    assert "no controller" not in scenario.caution([0])


def test_a_run_without_requests_is_not_too_much() -> None:
    steady = PRESETS["steady"]
    quiet = replace(steady, load_=replace(steady.load_, rate=1e-6, seconds=60.0))
    assert quiet.caution([0]) == ""


@pytest.mark.parametrize(("seconds", "mean", "most"), [(600.0, 1.0, 1.0), (60.0, 0.2, 0.2)])
def test_busy_instances_are_reckoned_over_five_minutes_at_least(
    seconds: float, mean: float, most: float
) -> None:
    """One request a second, each of a second's work."""
    count = int(seconds) + 1
    whole = np.full(count, 1_000, dtype=np.int32)
    trace = trace_of("even", np.arange(count, dtype=np.float64), whole, np.zeros(count, dtype=np.int32) + 1)
    ability = Ability(prompt_tokens=1_000.0, output_tokens=1e9, kv_tokens=1e9)
    busy = busy_instances(trace, ability, ability)
    assert busy.mean == pytest.approx(mean, rel=0.02) and busy.most == pytest.approx(most, rel=0.02)
