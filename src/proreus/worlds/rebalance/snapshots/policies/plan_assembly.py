"""A plan out of changes of machines: as many of a kind come as leave, within the budget, for most pieces.

The changes are those that prices called forth (`prices`), so a program with one column for each is small and
nearly whole already: HiGHS mostly solves it without a branch, whatever the size of the cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.model.errors import WorkError
from proreus.workers.highs import new_solver, run_solver
from proreus.worlds.rebalance.snapshots.model import CPU
from proreus.worlds.rebalance.snapshots.policies.dual_bound import Candidates, Priced
from proreus.worlds.rebalance.snapshots.policies.subproblem import kinds_of
from proreus.worlds.rebalance.snapshots.state import Machines

_LOSING = 0.5  # pieces that a change may be worth less than none at the prices
_MOST_COLUMNS = 10_000
_ALIKE = 10  # of changes with the same effect, so many more than the budget could pay for are kept
_FEWER_MOVES = 0.4
"""What all migrations of the budget together weigh against one piece: equal plans differ by migrations."""


@dataclass(frozen=True, eq=False)
class _Columns:
    """C changes with what they come to."""

    machine: I64  # [C]
    change: I64  # [C, 2, K]
    gain: I64  # [C] whole pieces
    net: I64  # [C, K]
    comes: I64  # [C] migrations, each counted where it ends
    worth: F64  # [C] at the prices

    def only(self, which: I64) -> _Columns:
        return _Columns(
            self.machine[which],
            self.change[which],
            self.gain[which],
            self.net[which],
            self.comes[which],
            self.worth[which],
        )


@dataclass(frozen=True)
class AssemblyEffort:
    """How much the solver may choose from, and for how long."""

    seconds: float
    breadth: int
    """Changes with the same effect that are kept: as many as so many budgets could pay for."""
    lot: int
    """Which of them, and which of equal plans."""


def assemble(highs: Any, machines: Machines, priced: Priced, budget: int, effort: AssemblyEffort) -> I64:
    """int64[P, 2, K], the change of every NUMA node in the best plan that the candidates allow."""
    _, representative = kinds_of(machines)
    columns = _few(_with_room(machines, representative, priced), budget, effort)
    solver = new_solver(highs, effort.seconds)
    solver.setOptionValue("mip_abs_gap", _FEWER_MOVES)
    solver.setOptionValue("random_seed", effort.lot)
    double = machines.double[representative]
    if solver.passModel(_program(highs, columns, double, (budget, priced.bound))) == highs.HighsStatus.kError:
        raise WorkError("the solver refuses the changes of this snapshot")
    run_solver(highs, solver)
    change = np.zeros((machines.free.shape[0], *columns.change.shape[1:]), dtype=np.int64)
    if solver.getInfo().primal_solution_status == highs.SolutionStatus.kSolutionStatusFeasible:
        chosen = np.flatnonzero(np.array(solver.getSolution().col_value) > 0.5)
        np.add.at(change, columns.machine[chosen], columns.change[chosen])
    return change


def _with_room(machines: Machines, representative: I64, priced: Priced) -> _Columns:
    """The candidates that leave no NUMA node without memory (or cores)."""
    candidates: Candidates = priced.candidates
    double, demand = machines.double[representative], machines.demand[representative]
    moved = candidates.change.copy()
    moved[:, 1] += np.where(double, candidates.change[:, 0], 0)
    before = machines.free[candidates.machine]
    after = before - moved @ demand
    size = machines.size[0]
    gain = (after[:, :, CPU] // size - before[:, :, CPU] // size).sum(axis=1)
    net, comes = candidates.change.sum(axis=1), np.maximum(candidates.change, 0).sum(axis=(1, 2))
    worth = gain - net @ priced.prices[:-1] - priced.prices[-1] * comes
    columns = _Columns(candidates.machine, candidates.change, gain, net, comes, worth)
    return columns.only(np.flatnonzero((after >= 0).all(axis=(1, 2)) & (worth >= -_LOSING)))


def _few(columns: _Columns, budget: int, effort: AssemblyEffort) -> _Columns:
    """Of many changes with the same effect only as many as a plan may need, on machines by lot."""
    effects = np.column_stack([columns.gain, columns.comes, columns.net])
    _, effect = np.unique(effects, axis=0, return_inverse=True)
    order = np.random.default_rng(effort.lot).permutation(len(columns.gain))
    order = order[np.argsort(effect.ravel()[order], kind="stable")]
    sorted_effect = effect.ravel()[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_effect, sorted_effect)
    leaves = columns.comes - columns.net.sum(axis=1)
    units = np.maximum(np.maximum(columns.comes, leaves), 1)
    kept = order[rank < (effort.breadth * budget // units + _ALIKE)[order]]
    best = kept[np.argsort(-columns.worth[kept], kind="stable")]
    return columns.only(best[:_MOST_COLUMNS])


def _program(highs: Any, columns: _Columns, double: Bool, known: tuple[int, float]) -> Any:
    """Rows: each NUMA node changes once, kinds balance, the budget, and the bound that prices gave."""
    budget, bound = known
    count, kinds = len(columns.gain), columns.net.shape[1]
    on_both = (columns.change[:, 0] != 0) @ double
    touched = columns.change.any(axis=2) | on_both[:, None]
    which, numa = np.nonzero(touched)
    nodes, node = np.unique(2 * columns.machine[which] + numa, return_inverse=True)
    first = len(nodes)
    moved, kind = np.nonzero(columns.net)
    every = np.arange(count)
    column = np.concatenate([which, moved, every, every])
    row = np.concatenate(
        [node.ravel(), first + kind, np.full(count, first + kinds), np.full(count, first + kinds + 1)]
    )
    value = np.concatenate([np.ones(len(which)), columns.net[moved, kind], columns.comes, columns.gain])
    present = np.flatnonzero(value)
    order = present[np.argsort(column[present], kind="stable")]
    lp = highs.HighsLp()
    lp.num_col_, lp.num_row_ = count, first + kinds + 2
    lp.sense_ = highs.ObjSense.kMaximize
    lp.col_cost_ = columns.gain - _FEWER_MOVES / (budget + 1) * columns.comes
    lp.col_lower_, lp.col_upper_ = np.zeros(count), np.ones(count)
    lp.integrality_ = [highs.HighsVarType.kInteger] * count
    free = -highs.kHighsInf
    lp.row_lower_ = np.concatenate([np.full(first, free), np.zeros(kinds), [free, free]])
    most = float(math.floor(bound + 1e-6))
    lp.row_upper_ = np.concatenate([np.ones(first), np.zeros(kinds), [float(budget), most]])
    lp.a_matrix_.format_ = highs.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(column[order], np.arange(count + 1)).astype(np.int32)
    lp.a_matrix_.index_ = row[order].astype(np.int32)
    lp.a_matrix_.value_ = value[order].astype(np.float64)
    return lp
