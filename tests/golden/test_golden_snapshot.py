"""The public snapshot of a cluster: its start, and the best fifty migrations."""

from __future__ import annotations

import pytest

from proreus.worlds.rebalance.snapshots.play import play
from proreus.worlds.rebalance.snapshots.policies.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshots.policies.exact import solve
from proreus.worlds.rebalance.snapshots.policies.search import search_plan
from proreus.worlds.rebalance.snapshots.policies.search_state import whole_pieces
from proreus.worlds.rebalance.snapshots.scenarios import parse_snapshot_scenario
from proreus.worlds.rebalance.snapshots.state import machines_of
from tests.real_data import real_data


@pytest.mark.golden
def test_the_search_finds_what_the_solver_proves_to_be_the_best() -> None:
    scenario = parse_snapshot_scenario("bytedance", real_data("vms"))
    snapshot = scenario.load(0)
    assert (len(snapshot.machines), len(snapshot.vms)) == (279, 2_089)
    measures = play(scenario, snapshot, make_snapshot_policy("search", 0), 0).measures
    assert measures["fragment_rate_before"] == pytest.approx(97.7, abs=0.05)
    assert measures["moves"] <= 50
    machines = machines_of(snapshot, scenario.options.fragment_size, within_clusters=False)
    solution = solve(machines, 50, seconds=120, start=search_plan(machines, 50))
    before = whole_pieces(machines)
    assert measures["whole_pieces"] - before >= 0.97 * (solution.bound - before)
