"""The search and the exact solver against each other and against trying everything."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.errors import UsageError
from proreus.worlds.rebalance.snapshots.datasets.generator import generate_snapshot
from proreus.worlds.rebalance.snapshots.model import Snapshot
from proreus.worlds.rebalance.snapshots.policies.exact import solve
from proreus.worlds.rebalance.snapshots.policies.move_order import order_moves
from proreus.worlds.rebalance.snapshots.policies.search import SearchOptions, search_plan
from proreus.worlds.rebalance.snapshots.policies.search_state import whole_pieces
from proreus.worlds.rebalance.snapshots.policies.subproblem import kinds_of
from proreus.worlds.rebalance.snapshots.state import Machines, copied, machines_of, may_move, move
from tests.oracles.snapshot import PlainSnapshot, snapshots

SIZE = 8


def carried_out(machines: Machines, plan: np.typing.NDArray[np.int64]) -> int:
    """Pieces after the plan; every migration must be legal in its turn."""
    own = copied(machines)
    for v, p, numa in plan:
        assert may_move(own, v, p, numa)
        move(own, v, p, numa)
    return whole_pieces(own)


@settings(max_examples=25)
@given(snapshots(machines=3, vms=6), st.integers(1, 3), st.booleans())
def test_search_and_solver_against_trying_everything(snapshot: Snapshot, budget: int, within: bool) -> None:
    machines = machines_of(snapshot, SIZE, within_clusters=within)
    best = PlainSnapshot(snapshot, SIZE, within_clusters=within).most_pieces(budget)
    plan = search_plan(machines, budget, SearchOptions(effort=20_000, starts=2))
    assert len(plan) <= budget
    assert carried_out(machines, plan) == best
    solution = solve(machines, budget, seconds=20, start=plan)
    assert solution.optimal
    # The model leaves the order open, so its bound may be more than any order reaches, never less.
    assert solution.bound >= best
    assert solution.pieces == carried_out(machines, solution.plan) == best
    assert len(solution.plan) <= budget


@settings(max_examples=25)
@given(snapshots(machines=3, vms=6), st.integers(1, 3))
def test_the_solver_alone_gives_legal_plans_and_true_bounds(snapshot: Snapshot, budget: int) -> None:
    machines = machines_of(snapshot, SIZE, within_clusters=False)
    before = whole_pieces(machines)
    solution = solve(machines, budget, seconds=20)
    best = PlainSnapshot(snapshot, SIZE, within_clusters=False).most_pieces(budget)
    assert carried_out(machines, solution.plan) == solution.pieces
    assert before <= solution.pieces <= best <= solution.bound
    assert len(solution.plan) <= budget


def test_search_reaches_the_optimum_of_a_generated_snapshot() -> None:
    machines = machines_of(generate_snapshot("snapshot-small", 0), 16, within_clusters=False)
    plan = search_plan(machines, 12)
    solution = solve(machines, 12, seconds=60)
    assert solution.optimal and solution.gap == 0
    gained = carried_out(machines, plan) - whole_pieces(machines)
    assert gained >= 0.97 * (solution.bound - whole_pieces(machines)) > 0


def two_machines(cores: tuple[int, int]) -> Snapshot:
    """One virtual machine of the given size on each of two machines of 8 cores, and a third machine of 4."""
    total = np.zeros((3, 2, 2), dtype=np.int64)
    total[:2, 0, 0], total[2, 0, 0] = 8, 4
    free = total.copy()
    free[0, 0, 0] -= cores[0]
    free[1, 0, 0] -= cores[1]
    return Snapshot(
        name="circle",
        machines=("a", "b", "c"),
        vms=("x", "y"),
        total=total,
        free=free,
        demand=np.array([[cores[0], 0], [cores[1], 0]]),
        double=np.zeros(2, dtype=np.bool_),
        machine=np.array([0, 1]),
        numa=np.zeros(2, dtype=np.int64),
        movable=np.ones(2, dtype=np.bool_),
        group=np.zeros(3, dtype=np.int64),
    )


def ordered(snapshot: Snapshot, budget: int) -> list[list[int]]:
    """The order in which x and y change places."""
    machines = machines_of(snapshot, 8, within_clusters=False)
    kind, _ = kinds_of(machines)
    places = np.array([[kind[0], 1, 0], [kind[1], 0, 0]])
    return order_moves(machines, kind, np.array([0, 1]), places, budget).tolist()  # type: ignore[no-any-return]


def test_a_circle_is_broken_by_parking_one_on_a_third_machine() -> None:
    assert ordered(two_machines((6, 4)), budget=3) == [[1, 2, 0], [0, 1, 0], [1, 0, 0]]


def test_a_circle_that_the_budget_does_not_break_is_left_alone() -> None:
    assert ordered(two_machines((6, 4)), budget=1) == []
    assert ordered(two_machines((6, 5)), budget=9) == []  # nobody has room for either


def test_without_the_solver_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    machines = machines_of(generate_snapshot("snapshot-small", 0), 16, within_clusters=False)
    with pytest.raises(UsageError, match=r"pip install 'proreus\[solve\]'"):
        solve(machines, 3)
