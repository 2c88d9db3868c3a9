"""A trace of one's own is played as it is: every request, in its own time, unless asked otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.scenarios import from_json
from tests.cli.runner import run_process
from tests.real_data import real_data

FIRST = 1_000.0
"""Files seldom begin at 0."""


@pytest.fixture
def arrival() -> F64:
    draw = np.random.default_rng(3)
    return FIRST + np.cumsum(draw.exponential(0.5, 400))


@pytest.fixture
def file(arrival: F64, tmp_path: Path) -> Path:
    path = tmp_path / "own.csv"
    rows = "".join(f"{at!r},{100 + place},{1 + place % 7}\n" for place, at in enumerate(arrival.tolist()))
    path.write_text(f"arrival,prompt,output\n{rows}")
    return path


@pytest.mark.parametrize("scenario", ["steady", "surge", "day", "colocated"])
def test_it_is_played_whole_whatever_the_scenario(scenario: str, file: Path, arrival: F64) -> None:
    inference_scenario = InferenceFlags(scenario=scenario, trace=file).chosen()
    for seed in (0, 7):
        trace = inference_scenario.load(seed)
        assert trace.arrival.tolist() == pytest.approx((arrival - FIRST - (arrival[0] - FIRST)).tolist())
        assert trace.prompt.tolist() == list(range(100, 500))
    span = arrival[-1] - arrival[0]
    caution = inference_scenario.caution((0, 1))
    assert f"400 requests are played over {span:,.1f} s" in caution
    assert f"out of 400 requests of the file, which spans {span:,.1f} s; every seed" in caution


def test_it_is_played_otherwise_where_asked(file: Path, arrival: F64) -> None:
    span = float(arrival[-1] - arrival[0])
    faster = InferenceFlags(trace=file, warp=4.0).chosen().load(0)
    assert len(faster) == 400 and faster.arrival[-1] == pytest.approx(span / 4.0)
    part = InferenceFlags(trace=file, trace_part="test").chosen().load(0)
    after = arrival - arrival[0] >= 0.7 * span
    assert part.prompt.tolist() == (100 + np.flatnonzero(after)).tolist()
    cut = InferenceFlags(trace=file, seconds=20.0).chosen().load(0)
    assert len(cut) == int((arrival - arrival[0] < 20.0).sum())


@pytest.mark.parametrize("rate", [0.5, 1.5, 7.0])
def test_a_rate_is_kept_and_lengths_stay_those_of_the_file(rate: float, file: Path) -> None:
    scenario = InferenceFlags(trace=file, rate=rate).chosen()
    trace = scenario.load(1)
    assert len(trace) / trace.arrival[-1] == pytest.approx(rate, rel=0.15)
    assert set(trace.prompt.tolist()) <= set(range(100, 500))
    assert scenario.load(1).arrival.tolist() == trace.arrival.tolist() != scenario.load(2).arrival.tolist()


def test_training_splits_it(file: Path) -> None:
    scenario = InferenceFlags(trace=file).chosen()
    train, test = (set(scenario.of_part(part).load(0).prompt.tolist()) for part in ("train", "test"))
    assert not train & test


def test_it_travels(file: Path) -> None:
    scenario = InferenceFlags(trace=file, warp=2.0, trace_part="valid").chosen()
    assert from_json(scenario.to_json(), None).playback == scenario.playback


@pytest.mark.parametrize("flags", [{"warp": 2.0}, {"trace_part": "test"}])
def test_flags_in_vain_are_refused(flags: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="says how --trace is played"):
        InferenceFlags(**flags).chosen()  # type: ignore[arg-type]


@pytest.mark.parametrize("flags", [{"warp": 0.0}, {"rate": -1.0}, {"seconds": float("nan")}])
def test_numbers_that_cannot_be_meant_are_refused(flags: dict[str, float], file: Path) -> None:
    with pytest.raises(UsageError):
        InferenceFlags(trace=file, **flags).chosen()  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", [("simulate",), ("compare", "--policies", "static", "--seeds", "1")])
def test_the_command_says_what_it_plays(verb: tuple[str, ...], file: Path, tmp_path: Path) -> None:
    process = run_process(verb[0], "inference", "--trace", str(file), *verb[1:], cwd=tmp_path)
    assert "400 requests are played over" in process.out


@pytest.mark.parametrize(
    ("folder", "name", "count"),
    [
        ("azure2023", "AzureLLMInferenceTrace_conv.csv", 19_366),
        ("mooncake", "conversation_trace.jsonl", 12_031),
    ],
)
def test_published_files_are_played_to_the_last_line(folder: str, name: str, count: int) -> None:
    path = real_data(f"llm/{folder}") / "llm" / folder / name
    scenario = InferenceFlags(trace=path).chosen()
    assert len(scenario.load(0)) == count
    assert f"{count:,} requests are played" in scenario.caution((0,))


def test_a_bad_file_is_one_line_that_names_file_line_and_field(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"timestamp": 0, "input_length": "many", "output_length": 2}\n')
    refused = run_process("simulate", "inference", "--trace", "bad.jsonl", cwd=tmp_path)
    assert refused.code == 2
    assert refused.err.strip().splitlines() == ["proreus: bad.jsonl:1: input_length: 'many' is not a number"]
