"""The best migrations of a snapshot by mixed-integer programming (HiGHS, the extra `solve`).

Equal virtual machines are counted, not named: per machine, NUMA node and kind there is one whole number of
those that leave and one of those that come. Pieces per NUMA node are whole numbers bounded by its free
cores after all that. So the model has a few thousand columns where one column per (virtual machine,
machine) would have hundreds of thousands, and the solver is not lost among equal solutions. The order of
migrations is left out of the model, so its bound holds for every order; the plan is put in order afterwards
and counted as it then stands.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proreus.kernels.arrays import I64
from proreus.model.errors import WorkError
from proreus.workers.highs import needed_highs, new_solver, run_solver
from proreus.worlds.rebalance.snapshots.model import CPU, MEMORY
from proreus.worlds.rebalance.snapshots.policies.plans import best_part, ordered_plan
from proreus.worlds.rebalance.snapshots.policies.subproblem import kinds_of
from proreus.worlds.rebalance.snapshots.state import Machines, copied, free_cores, move

_PARTS = 2


@dataclass(frozen=True, eq=False)
class Solution:
    """What the solver found within its time."""

    plan: I64
    """int64[n, 3]: virtual machine, machine, NUMA node, each with room in its turn."""
    pieces: int
    """Whole pieces once the plan is carried out."""
    bound: int
    """No plan within the budget, in whatever order, has more pieces than this."""
    optimal: bool
    """Whether the solver closed the gap before its time was up."""
    seconds: float
    columns: int
    """Size of the model."""

    @property
    def gap(self) -> float:
        """How far the plan may be from the best one, as a share of the bound."""
        return (self.bound - self.pieces) / max(self.bound, 1)


@dataclass
class _Model:
    """Columns and rows as they are collected."""

    upper: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    rows: list[tuple[float, float, list[int], list[int]]] = field(default_factory=list)
    """Lower bound, upper bound, columns, coefficients."""

    def column(self, upper: int, cost: int = 0) -> int:
        """A new whole number from 0 to `upper`."""
        self.upper.append(upper)
        self.cost.append(cost)
        return len(self.upper) - 1


@dataclass(frozen=True, eq=False)
class _Counting:
    """Where the columns of leaving and coming units stand: (kind, machine, NUMA node) -> column."""

    leave: dict[tuple[int, int, int], int]
    come: dict[tuple[int, int, int], int]
    moved: list[int]
    """Kind -> column of all that leave."""
    at: dict[tuple[int, int, int], list[int]]
    """Who is there: virtual machines."""


def solve(machines: Machines, budget: int, *, seconds: float = 60.0, start: I64 | None = None) -> Solution:
    """The best plan of at most `budget` migrations that HiGHS finds in time; `start` is a plan to improve."""
    highs = needed_highs()
    begin = time.perf_counter()
    kind, representative = kinds_of(machines)
    model, counting = _build(machines, kind, representative, budget)
    solver = new_solver(highs, seconds)
    if solver.passModel(_as_lp(highs, model)) == highs.HighsStatus.kError:
        raise WorkError("the solver refuses the model of this snapshot")
    if start is not None and len(start):
        solver.setSolution(_as_solution(highs, machines, model, (counting, kind), start))
    run_solver(highs, solver)
    info = solver.getInfo()
    if info.primal_solution_status != highs.SolutionStatus.kSolutionStatusFeasible:
        values = np.zeros(len(model.upper), dtype=np.int64)  # nothing found in time: move nothing
    else:
        values = np.rint(np.array(solver.getSolution().col_value)).astype(np.int64)
    bound = math.floor(min(info.mip_dual_bound, float(free_cores(machines))) + 1e-6)
    plan, pieces = _ordered(machines, kind, counting, values, budget)
    if start is not None:
        # The solver's own solution may lose by being put in order; what it started from had an order.
        again, had = best_part(machines, start)
        if had > pieces:
            plan, pieces = again, had
    return Solution(
        plan=plan,
        pieces=pieces,
        bound=max(bound, pieces),
        optimal=solver.getModelStatus() == highs.HighsModelStatus.kOptimal,
        seconds=time.perf_counter() - begin,
        columns=len(model.upper),
    )


def _build(machines: Machines, kind: I64, representative: I64, budget: int) -> tuple[_Model, _Counting]:
    at: dict[tuple[int, int, int], list[int]] = {}
    for v in range(kind.shape[0]):
        at.setdefault((int(kind[v]), int(machines.machine[v]), int(machines.numa[v])), []).append(v)
    model, counting = _Model(), _Counting({}, {}, [], at)
    groups = [machines.group[machines.machine[v]] for v in representative]
    used = machines.free.copy()
    for (k, p, numa), units in at.items():
        for part in _parts(machines, int(representative[k]), numa):
            used[p, part] += machines.demand[representative[k]] * len(units)
    for p in range(machines.free.shape[0]):
        terms: list[list[tuple[int, int]]] = [[], []]
        for k, v in enumerate(map(int, representative)):
            if machines.movable[v] and groups[k] == machines.group[p]:
                _add_units(machines, model, counting, (k, v, p), (terms, used[p]))
        for numa in range(_PARTS):
            _add_room(machines, model, terms[numa], (p, numa), (representative, used[p, numa]))
    _add_balance(model, counting, len(representative), budget)
    return model, counting


def _parts(machines: Machines, v: int, numa: int) -> tuple[int, ...]:
    return (0, 1) if machines.double[v] else (numa,)


def _add_units(
    machines: Machines,
    model: _Model,
    counting: _Counting,
    unit: tuple[int, int, int],
    into: tuple[list[list[tuple[int, int]]], I64],
) -> None:
    """Columns for units of kind k that leave machine p and come to it; into = (terms per NUMA node,
    capacity)."""
    (k, v, p), (terms, capacity) = unit, into
    for numa in (0,) if machines.double[v] else (0, 1):
        parts = _parts(machines, v, numa)
        present = len(counting.at.get((k, p, numa), ()))
        if present:
            column = model.column(present)
            counting.leave[k, p, numa] = column
            for part in parts:
                terms[part].append((column, v))
        most = min(
            int(capacity[part, resource]) // int(machines.demand[v, resource])
            for part in parts
            for resource in (CPU, MEMORY)
            if machines.demand[v, resource]
        )
        if most:
            column = model.column(most)
            counting.come[k, p, numa] = column
            for part in parts:
                terms[part].append((column, -v - 1))


def _add_room(
    machines: Machines,
    model: _Model,
    terms: list[tuple[int, int]],
    place: tuple[int, int],
    known: tuple[I64, I64],
) -> None:
    """Free cores hold the whole pieces; memory is enough. A term is (column, v) for leaving, (column, -v-1)
    for coming; known = (one virtual machine of each kind, capacity of this NUMA node)."""
    free, size = machines.free[place], int(machines.size[0])
    capacity = known[1]
    pieces = model.column(int(capacity[CPU]) // size, cost=1)
    for resource in (CPU, MEMORY):
        columns, coefficients = [], []
        for column, v in terms:
            amount = int(machines.demand[v, resource] if v >= 0 else -machines.demand[-v - 1, resource])
            if amount:
                columns.append(column)
                coefficients.append(amount)
        if resource == CPU:
            columns.append(pieces)
            coefficients.append(-size)
        else:
            worst = sum(model.upper[c] * a for c, a in zip(columns, coefficients, strict=True) if a < 0)
            if free[MEMORY] + worst >= 0:
                continue  # memory can never run out here
        model.rows.append((-float(free[resource]), math.inf, columns, coefficients))


def _add_balance(model: _Model, counting: _Counting, kinds: int, budget: int) -> None:
    """As many of a kind come as leave, and at most `budget` migrations are made in all.

    Who only changes its NUMA node has to go by way of another machine: that is two migrations.
    """
    moved = counting.moved
    moved.extend(model.column(budget) for _ in range(kinds))
    leaving: list[list[int]] = [[] for _ in range(kinds)]
    coming: list[list[int]] = [[] for _ in range(kinds)]
    touched: dict[tuple[int, int], list[int]] = {}
    for (k, p, _), column in counting.leave.items():
        leaving[k].append(column)
        touched.setdefault((k, p), []).append(column)
    for (k, p, _), column in counting.come.items():
        coming[k].append(column)
        if (k, p) in touched:
            touched[k, p].append(column)
    for k in range(kinds):
        for columns in (leaving[k], coming[k]):
            model.rows.append((0.0, 0.0, [*columns, moved[k]], [1] * len(columns) + [-1]))
    detours = []
    for (k, _), columns in touched.items():
        # Hall's condition: those that leave a machine and those that come to it find partners elsewhere.
        detours.append(model.column(budget // 2))
        columns = [moved[k], detours[-1], *columns]
        model.rows.append((0.0, math.inf, columns, [1, 1] + [-1] * (len(columns) - 2)))
    paid = [*moved, *detours]
    model.rows.append((0.0, float(budget), paid, [1] * len(paid)))


def _as_lp(highs: Any, model: _Model) -> Any:
    lp = highs.HighsLp()
    lp.num_col_, lp.num_row_ = len(model.upper), len(model.rows)
    lp.sense_ = highs.ObjSense.kMaximize
    lp.col_cost_ = np.array(model.cost, dtype=np.float64)
    lp.col_lower_ = np.zeros(len(model.upper))
    lp.col_upper_ = np.array(model.upper, dtype=np.float64)
    lp.integrality_ = [highs.HighsVarType.kInteger] * len(model.upper)
    lp.row_lower_ = np.array([row[0] for row in model.rows])
    lp.row_upper_ = np.array([row[1] if math.isfinite(row[1]) else highs.kHighsInf for row in model.rows])
    lp.a_matrix_.format_ = highs.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0] + [len(row[2]) for row in model.rows]).astype(np.int32)
    lp.a_matrix_.index_ = np.array([c for row in model.rows for c in row[2]], dtype=np.int32)
    lp.a_matrix_.value_ = np.array([a for row in model.rows for a in row[3]], dtype=np.float64)
    return lp


def _as_solution(
    highs: Any, machines: Machines, model: _Model, counted: tuple[_Counting, I64], plan: I64
) -> Any:
    """A plan as values of the columns."""
    counting, kind = counted
    after = copied(machines)
    for v, p, numa in plan:
        move(after, v, p, numa)
    values = np.zeros(len(model.upper))
    for v in np.flatnonzero((after.machine != machines.machine) | (after.numa != machines.numa)):
        values[counting.leave[int(kind[v]), int(machines.machine[v]), int(machines.numa[v])]] += 1
        values[counting.come[int(kind[v]), int(after.machine[v]), int(after.numa[v])]] += 1
    for k in range(int(kind.max()) + 1):
        values[counting.moved[k]] = sum(
            values[column] for key, column in counting.leave.items() if key[0] == k
        )
    pieces = [column for column, cost in enumerate(model.cost) if cost]
    values[pieces] = (after.free[:, :, CPU] // machines.size[0]).ravel()
    solution = highs.HighsSolution()
    solution.col_value = list(values)
    return solution


def _ordered(machines: Machines, kind: I64, counting: _Counting, values: I64, budget: int) -> tuple[I64, int]:
    """The solver's counts as a plan in order, and the pieces it really leads to."""
    change = np.zeros((machines.free.shape[0], _PARTS, int(kind.max(initial=-1)) + 1), dtype=np.int64)
    for columns, sign in ((counting.come, 1), (counting.leave, -1)):
        for (k, p, numa), column in columns.items():
            change[p, numa, k] += sign * int(values[column])
    return ordered_plan(machines, kind, change, budget)
