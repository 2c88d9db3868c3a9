"""The search with a clock: legal plans, true bounds, and the best plans known."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.errors import UsageError
from proreus.worlds.rebalance.bench import BEST_KNOWN, BUDGETS
from proreus.worlds.rebalance.snapshots.datasets.generator import generate_snapshot
from proreus.worlds.rebalance.snapshots.model import Snapshot
from proreus.worlds.rebalance.snapshots.policies.anytime import ProvenPlan, SnapshotTuning, find_plan
from proreus.worlds.rebalance.snapshots.policies.exact import solve
from proreus.worlds.rebalance.snapshots.policies.search_state import whole_pieces
from proreus.worlds.rebalance.snapshots.scenarios import BYTEDANCE, parse_snapshot_scenario
from proreus.worlds.rebalance.snapshots.state import Machines, copied, machines_of, may_move, move
from tests.oracles.snapshot import PlainSnapshot, snapshots
from tests.real_data import real_data

SIZE = 8
QUICK = [case for case in BEST_KNOWN if case[0] in ("snapshot-small@50", "snapshot@80", "snapshot-large@120")]
SLOW = [case for case in BEST_KNOWN if case not in QUICK]


def carried_out(machines: Machines, proven_plan: ProvenPlan) -> int:
    """Pieces after the plan; every migration must be legal in its turn."""
    own = copied(machines)
    for v, p, numa in proven_plan.plan:
        assert may_move(own, v, p, numa)
        move(own, v, p, numa)
    return whole_pieces(own)


@settings(max_examples=40)
@given(snapshots(machines=3, vms=6), st.integers(0, 3), st.booleans())
def test_plans_are_legal_and_bounds_true_against_trying_everything(
    snapshot: Snapshot, budget: int, within: bool
) -> None:
    machines = machines_of(snapshot, SIZE, within_clusters=within)
    best = PlainSnapshot(snapshot, SIZE, within_clusters=within).most_pieces(budget)
    plan = find_plan(machines, budget, seconds=2.0)
    assert len(plan.plan) <= budget
    assert plan.bound is not None
    assert carried_out(machines, plan) == plan.pieces <= best <= plan.bound
    assert not plan.proven or plan.pieces == best


def reaches_the_best_known(name: str, seed: int) -> None:
    """At least 98 % of what the best plans known gain, at every budget, and no more than the table says."""
    data = real_data("vms") if name == BYTEDANCE else None
    machines = machines_of(parse_snapshot_scenario(name, data).load(seed), 16, within_clusters=False)
    before = whole_pieces(machines)
    for budget, known in zip(BUDGETS, BEST_KNOWN[name, seed], strict=True):
        # On a busy machine the clock would judge its neighbours: the figures of the benchmark are for time.
        plan = find_plan(machines, budget, seconds=60.0)
        assert 0.98 * known <= carried_out(machines, plan) - before <= known
        assert plan.bound == before + known


@pytest.mark.parametrize(("name", "seed"), QUICK)
def test_small_snapshots_reach_the_best_known_reduction(name: str, seed: int) -> None:
    reaches_the_best_known(name, seed)


@pytest.mark.golden
@pytest.mark.parametrize(("name", "seed"), SLOW)
def test_large_snapshots_reach_the_best_known_reduction(name: str, seed: int) -> None:
    reaches_the_best_known(name, seed)


def test_prices_and_the_whole_program_agree_on_the_best_plan() -> None:
    machines = machines_of(generate_snapshot("snapshot-small", 3), 16, within_clusters=False)
    solution = solve(machines, 12, seconds=60)
    plan = find_plan(machines, 12, seconds=30.0)
    assert solution.optimal and solution.bound <= (plan.bound or 0)
    assert plan.proven and plan.pieces == solution.bound


def test_the_same_seed_gives_the_same_plan() -> None:
    machines = machines_of(generate_snapshot("snapshot", 1, 80), 16, within_clusters=False)
    first, second = (find_plan(machines, 50, seconds=60.0, seed=5) for _ in range(2))
    assert not first.by_clock and np.array_equal(first.plan, second.plan)


def test_a_plan_that_the_clock_ended_is_legal_and_says_so() -> None:
    machines = machines_of(generate_snapshot("snapshot", 3, 200), 16, within_clusters=False)
    plan = find_plan(machines, 50, seconds=1e-3)
    assert carried_out(machines, plan) == plan.pieces > whole_pieces(machines)
    assert plan.by_clock and "the clock ended it" in plan.remark(50, 1e-3)


def test_without_the_solver_the_search_goes_on_alone_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    machines = machines_of(generate_snapshot("snapshot-small", 0), 16, within_clusters=False)
    plan = find_plan(machines, 12, seconds=30.0)
    assert carried_out(machines, plan) == plan.pieces > whole_pieces(machines)
    assert plan.bound is None and not plan.proven
    assert "pip install 'proreus[solve]'" in plan.remark(12, 30.0)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_seconds_that_are_none_are_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="--seconds"):
        SnapshotTuning(seconds)
