"""Where requests come from: the generator's distributions, readers and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.model.errors import InputError, UsageError
from proreus.worlds.functions.datasets.generator import scaled_rates
from proreus.worlds.functions.datasets.profiles import (
    draw_cold,
    draw_cold_median,
    draw_gaps,
    draw_memory,
    draw_profile,
    draw_standard,
)
from proreus.worlds.functions.datasets.readers import read_azure_2019, read_recording
from proreus.worlds.functions.datasets.rows import RowTerms, demand_of_rows
from proreus.worlds.functions.model import Demand, Function, FunctionsTerms, NodeKind, nodes_like
from proreus.worlds.functions.scenarios import SCENARIOS, parse_scenario
from tests.real_data import real_data


def test_functions_are_as_they_were_published() -> None:
    """Shares at the points that the papers' figures are read off at."""
    draw = np.random.default_rng(0)
    memory = np.array([draw_memory(draw) for _ in range(4_000)])
    for most, share in ((140.0, 0.50), (200.0, 0.80), (400.0, 0.96)):
        assert (memory <= most).mean() == pytest.approx(share, abs=0.03)
    standard = np.array([draw_standard(draw) for _ in range(4_000)])
    for most, share in ((1.0, 0.56), (10.0, 0.87)):
        assert (standard <= most).mean() == pytest.approx(share, abs=0.03)
    cold = np.concatenate([draw_cold(draw, draw_cold_median(draw), 1) for _ in range(4_000)])
    assert np.median(cold) == pytest.approx(1.35, rel=0.1)
    assert np.log(cold).std() == pytest.approx(1.326, abs=0.06)


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_gaps_have_the_spread_of_their_class(spread: float) -> None:
    gaps = draw_gaps(np.random.default_rng(1), 2.0, spread, 60_000)
    assert gaps.mean() == pytest.approx(0.5, rel=0.1)
    assert gaps.std() / gaps.mean() == pytest.approx(spread, rel=0.1)


def test_rates_are_heavy_tailed() -> None:
    draw = np.random.default_rng(2)
    rates = np.sort([draw_profile(draw, number, 1e-5).rate for number in range(2_000)])[::-1]
    assert rates[:40].sum() > 0.5 * rates.sum(), "two in a hundred functions are most of the requests"
    for rate, share in ((1 / 3_600, 0.63), (1 / 60, 0.92)):
        assert (rates <= rate).mean() == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_load_that_it_says(name: str) -> None:
    scenario = SCENARIOS[name]
    shares = []
    for seed in range(12):
        demand = scenario.demand(seed)
        use = np.array([function.cpu_use for function in demand.functions])[demand.function] * demand.seconds
        shares.append(use.sum() / (scenario.terms.column("cpu").sum() * demand.horizon))
    assert np.mean(shares) == pytest.approx(scenario.load_share, rel=0.25)


def test_no_function_is_more_than_its_share() -> None:
    rates = scaled_rates(np.array([100.0, 1.0, 0.1, 0.01]), np.ones(4), 10.0)
    assert rates.max() <= 0.375 * 10.0 * (1 + 1e-9) and (rates > 0.0).all()


def test_rows_become_requests() -> None:
    rows: list[dict[str, Any]] = [
        {
            "cpu_request": 0.5,
            "mem_request": 1.0,
            "io_network": 20,
            "requests": 3,
            "arrival": 2.0,
            "duration": 1.0,
        },
        {"cpu_request": 1.0, "mem_request": 2.0, "function": "video", "cold": 0.5, "arrival": 0.0},
    ]
    demand = demand_of_rows(rows, RowTerms(5, 1.0), np.random.default_rng(0))
    assert demand.arrival.tolist() == [0.0, 2.0, 3.0, 4.0] and demand.function.tolist() == [1, 0, 0, 0]
    first, second = demand.functions
    assert (first.cpu, first.memory, first.concurrency, first.net) == (500, 1_024, 3, round(20_000 / 3))
    assert second.name == "video/1" and demand.cold[0] == 0.5


def test_what_is_no_demand_is_refused() -> None:
    function = Function("f", 100, 100, 100, 0, 0, 1, 1.0)
    one, none = np.ones(1), np.zeros(1, dtype=np.int32)
    for arrival, kind, horizon, says in (
        (-one, none, 2.0, "in order of arrival"),
        (one, none + 1, 2.0, "no function that is known"),
        (one, none, 0.5, "end before the last request"),
        (np.zeros(0), none[:0], 2.0, "1 to"),
    ):
        with pytest.raises(UsageError, match=says):
            Demand((function,), arrival, kind, one[: arrival.size], one[: arrival.size], horizon)
    for text in ("", "4x2", "4x2/8/x", "0x2/8/1", "4x1.1.1/8/1"):
        with pytest.raises(UsageError, match="nodes"):
            NodeKind.parse(text)
    assert FunctionsTerms(nodes=NodeKind.parse("4x2/8/0.086+1x8/32/0.344")).count == 5
    assert sum(kind.count for kind in nodes_like(23)) == 23


def test_recordings_of_azure() -> None:
    data = real_data("functions")
    folder = data / "functions"
    sample = read_recording(folder / "azure2021_sample" / "Azure2021_200.csv")
    assert sample.arrival.size == 199 and (sample.seconds >= 0.0).all()
    day = read_azure_2019(folder / "azure2019_example")
    assert day.length == 60.0 * day.minutes.shape[1] <= 86_400.0
    window = day.window(60.0, 180.0, np.random.default_rng(0))
    assert len(window) == day.minutes[:, 1:3].sum() and window.horizon == 120.0
    for name in ("azure2021/recorded@120", "azure2019/recorded@60"):
        scenario = parse_scenario(name, data)
        load = scenario.load(1)
        assert len(load.demand) > 0
        spans = [scenario.of_part(part).demand(0) for part in ("train", "valid", "test")]
        assert len({span.arrival.tobytes() for span in spans}) == 3


def test_a_broken_recording_is_told_by_its_cell(tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    for text, says in (
        ("arrival,function,duration\n1,a,x\n", "duration"),
        ("arrival,function\n1,a\n", "duration"),
        ("arrival,function,duration\n", "no row"),
        ("", "empty"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=says):
            read_recording(file)
