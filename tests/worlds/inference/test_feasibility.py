"""Requests that no controller could serve as promised are known beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from proreus.worlds.inference.datasets.recorded import Playback
from proreus.worlds.inference.datasets.timings import timings_of
from proreus.worlds.inference.model.requests import trace_of
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.simulation.feasibility import hopeless


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
