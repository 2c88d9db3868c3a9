"""SPANE's constants to the last digit; VMAgent's table with and without release, within its noise."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from proreus.worlds.vms.model import DoubleRule
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.scenarios import parse_vm_scenario, trace_of
from proreus.worlds.vms.simulation.columns import VmWork
from proreus.worlds.vms.simulation.outcome import trimmed_mean
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import VmsOptions, compile_trace, with_servers
from tests.real_data import real_data

EXACT = {"first_fit": (89_822.5225, 362_634.624), "balance_fit": (86_009.90875, 336_486.767)}
BY_SIZE = {
    # servers: first fit, balance fit, as published (whole seconds)
    2: (53_867, 38_611),
    3: (52_483, 38_832),
    4: (44_461, 37_829),
    6: (67_177, 62_644),
    7: (129_370, 118_267),
    8: (182_133, 176_529),
    9: (201_329, 181_042),
}


def total_waits(servers: int, policy: str) -> NDArray[np.float64]:
    """From SPANE's 1,000 test starts."""
    scenario = parse_vm_scenario(f"huawei/waiting@{servers}", real_data("vms"))
    figures, _ = play_runs(replace(scenario, starts=1_000).load(0), make_vm_policy(policy))
    return np.array([run.wait for run in figures])


@pytest.mark.parametrize("policy", sorted(EXACT))
def test_spanes_constants_are_met_exactly(policy: str) -> None:
    waits = total_waits(5, policy)
    trimmed, mean = EXACT[policy]
    assert trimmed_mean(waits) == pytest.approx(trimmed, abs=1e-6)
    assert waits.mean() == pytest.approx(mean, abs=1e-6)


def test_the_shipped_scorer_waits_less_than_the_best_published_one() -> None:
    """It was trained on rows up to 50,000 and chosen on rows up to 70,000; these starts lie beyond."""
    assert trimmed_mean(total_waits(5, "learned")) < 63_697


@pytest.mark.golden
@pytest.mark.parametrize("servers", sorted(BY_SIZE))
def test_one_scorer_beats_the_rules_at_every_size(servers: int) -> None:
    assert trimmed_mean(total_waits(servers, "learned")) < min(BY_SIZE[servers])


@pytest.mark.golden
@pytest.mark.parametrize("servers", sorted(BY_SIZE))
def test_spanes_table_by_size_is_met_exactly(servers: int) -> None:
    first, balance = BY_SIZE[servers]
    assert round(trimmed_mean(total_waits(servers, "first_fit"))) == first
    assert round(trimmed_mean(total_waits(servers, "balance_fit"))) == balance


@lru_cache(maxsize=2)
def work_of(double: DoubleRule) -> VmWork:
    """The trace, made once for each rule."""
    scenario = parse_vm_scenario("huawei/recovering", real_data("vms"))
    assert scenario.file is not None
    return compile_trace(trace_of(scenario.file), double)


# servers, release, double rule, policy: the lowest and highest mean of the fact sheet's measurements (two
# rounds of 100, 12 to 60 or 8 to 30 starts at random); one run varies by 20 to 60 % of the mean, so a mean of
# n by that over the root of n.
TABLE = [
    (5, False, 32, "first_fit", 245, 255, 100),
    (5, False, 32, "vmagent_best_fit", 230, 236, 100),
    (5, False, 32, "random", 254, 254, 100),
    (5, False, 32, "best_fit", 255, 255, 100),
    (5, False, 10, "first_fit", 244, 244, 100),
    (5, False, 10, "vmagent_best_fit", 243, 243, 100),
    (5, True, 10, "first_fit", 484, 485, 100),
    (5, True, 10, "vmagent_best_fit", 465, 468, 100),
    (5, True, 10, "random", 467, 467, 100),
    (5, True, 10, "best_fit", 471, 471, 100),
    (20, False, 32, "first_fit", 958, 986, 30),
    (20, False, 32, "vmagent_best_fit", 757, 779, 30),
    (20, False, 32, "random", 900, 900, 30),
    (20, False, 32, "best_fit", 958, 958, 30),
    (20, False, 10, "first_fit", 987, 987, 30),
    (20, False, 10, "vmagent_best_fit", 878, 878, 30),
    (20, True, 10, "first_fit", 3_338, 3_543, 30),
    (20, True, 10, "vmagent_best_fit", 1_552, 1_633, 30),
    (20, True, 10, "random", 1_766, 1_766, 30),
    (20, True, 10, "best_fit", 3_337, 3_337, 30),
    (50, False, 10, "first_fit", 2_370, 2_370, 8),
    (50, False, 10, "vmagent_best_fit", 1_554, 1_554, 8),
    (50, True, 10, "vmagent_best_fit", 3_139, 3_139, 8),
]


def placements(servers: int, release: bool, threshold: float, policy: str) -> NDArray[np.float64]:
    """Machines placed from 400 random starts among the first ten thousand event rows."""
    rule = DoubleRule("mem", ">", threshold)
    options = with_servers(VmsOptions(double=rule, release=release), servers)
    work = work_of(rule)
    rows = np.random.default_rng(7).integers(1_000, 9_999, 400 if servers < 50 else 60)
    # A row of events stands for the first machine that is created from there on.
    starts = np.searchsorted(work.created, rows)
    figures, _ = play_runs(planned_runs(work, options, starts, 60_000), make_vm_policy(policy))
    return np.array([float(run.placed) for run in figures])


@pytest.mark.golden
@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join(map(str, row[:4])))
def test_the_table_with_and_without_release(row: tuple[int, bool, float, str, float, float, int]) -> None:
    servers, release, threshold, policy, low, high, starts = row
    placed = placements(servers, release, threshold, policy)
    # Both means are of random starts: theirs of few, ours of many.
    noise = 2.5 * placed.std() * (1 / np.sqrt(starts) + 1 / np.sqrt(placed.size))
    assert low - noise <= placed.mean() <= high + noise
    assert noise < 0.8 * placed.mean()


@pytest.mark.golden
def test_fifty_servers_with_release_hardly_ever_fill_up_under_first_fit() -> None:
    placed = placements(50, True, 10.0, "first_fit")
    assert np.mean(placed >= 59_700) >= 0.4


@pytest.mark.golden
def test_without_release_a_small_cluster_tells_no_policy_from_another() -> None:
    """The original's training ground has no headroom: whoever places at random does as well."""
    means = {name: placements(5, False, 32.0, name).mean() for name in ("first_fit", "best_fit", "random")}
    assert max(means.values()) < 1.03 * min(means.values())
    apart = {name: placements(20, True, 10.0, name).mean() for name in ("first_fit", "random")}
    assert apart["first_fit"] > 1.5 * apart["random"]
