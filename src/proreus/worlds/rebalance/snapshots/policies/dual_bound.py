"""The prices at which machines, each for itself, are worth least together: the lowest bound on all plans.

The sum over machines is convex in the prices, and each question to `best_changes` gives its value and its
slope. So a small linear program over all slopes seen so far proposes the next prices, never far from the
best ones yet (a trust region: far from where slopes were taken they say little).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.workers.cores import available_cores
from proreus.workers.highs import new_solver, run_solver
from proreus.worlds.rebalance.snapshots.policies.subproblem import (
    Changes,
    Contents,
    best_changes,
    no_changes,
)

_MOST_QUESTIONS = 200
_CLOSE = 1e-3  # pieces that the next prices could still lower the bound by
_RADIUS = 0.5
_ENOUGH, _GOOD = 0.1, 0.7  # shares of the decrease that was foreseen
_SHRINK, _GROW = 0.7, 2.0
_NEARLY = -0.75
"""A change of a whole machine is kept even if it is worth so little more than none at these prices."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """C changes that some prices called forth."""

    machine: I64
    """[C]"""
    change: I64
    """[C, 2, K] more (+) or fewer (-) of a kind at a NUMA node; those on both nodes at the first."""


@dataclass(frozen=True, eq=False)
class Priced:
    """What the questions have come to."""

    prices: F64
    """[K + 1] of each kind, and of a migration."""
    bound: float
    """No plan within the budget gains more pieces."""
    candidates: Candidates


class Market:
    """Machines that answer to prices, and all changes that they have answered with."""

    def __init__(self, contents: Contents, alike: I64, budget: int) -> None:
        self.contents, self._alike, self._budget = contents, alike, budget
        self._changes = no_changes(contents)
        kinds = contents.cpu.shape[0]
        # A change is told from others by a number: equal ones have equal numbers, others nearly never.
        self._marks = np.random.default_rng(0).integers(1, 2**62, size=(2, kinds), dtype=np.int64)
        self._seen: set[int] = set()
        self._kept: list[tuple[I64, I64]] = []

    def ask(self, prices: F64, pool: ThreadPoolExecutor) -> tuple[float, F64]:
        """(bound at these prices, its slope)."""
        cuts = np.linspace(0, self.contents.free.shape[0], available_cores() + 1).astype(int).tolist()
        list(pool.map(lambda span: best_changes(self.contents, prices, span, self._changes), pairwise(cuts)))
        distinct, alike = self._changes, self._alike
        changes = Changes(
            distinct.node[alike],
            distinct.node_worth[alike],
            distinct.machine[alike],
            distinct.machine_worth[alike],
        )
        alone = changes.node_worth.sum(axis=1)
        together = changes.machine_worth > alone
        bound = prices[-1] * self._budget + np.where(together, changes.machine_worth, alone).sum()
        made = np.where(together[:, None, None], changes.machine, changes.node)
        slope = np.append(-made.sum(axis=(0, 1)), self._budget - np.maximum(made, 0).sum())
        self._keep_answers(changes)
        return float(bound), slope.astype(np.float64)

    def _keep_answers(self, changes: Changes) -> None:
        for numa in (0, 1):
            which = np.flatnonzero(changes.node[:, numa].any(axis=1))
            on_node = np.zeros((len(which), *changes.node.shape[1:]), dtype=np.int64)
            on_node[:, numa] = changes.node[which, numa]
            self.keep(which, on_node)
        which = np.flatnonzero(changes.machine_worth > _NEARLY)
        self.keep(which, changes.machine[which])

    def keep(self, which: I64, changes: I64) -> None:
        """Remember the changes of these machines; which: int64[n], changes: int64[n, 2, K]."""
        marks = (changes * self._marks).sum(axis=(1, 2)) ^ (which + 1) * self._marks[0, 0]
        new = [at for at, mark in enumerate(marks.tolist()) if mark not in self._seen]
        if new:
            self._seen.update(marks[new].tolist())
            self._kept.append((which[new], changes[new]))

    def candidates(self) -> Candidates:
        """All changes so far."""
        kinds = self.contents.cpu.shape[0]
        none = (np.empty(0, dtype=np.int64), np.empty((0, 2, kinds), dtype=np.int64))
        machines, changes = zip(*(self._kept or [none]), strict=True)
        return Candidates(np.concatenate(machines), np.concatenate(changes))


def lowest_bound(highs: Any, market: Market, deadline: float) -> Priced:
    """Prices with a bound as low as questions until `deadline` (of time.perf_counter) find."""
    contents = market.contents
    kinds = contents.cpu.shape[0]
    # A unit is never worth more than all pieces it could fill on two NUMA nodes, and a few migrations.
    widest = 2.0 * float(contents.most[0] // contents.size[0] + 2)
    lowest, highest = np.full(kinds + 1, -widest), np.full(kinds + 1, widest)
    lowest[-1] = 0.0
    program = _Slopes(highs, lowest, highest)
    best, radius = np.append(np.full(kinds, -0.5), 0.5), _RADIUS
    with ThreadPoolExecutor(max_workers=available_cores()) as pool:
        bound, slope = market.ask(best, pool)
        program.add(best, bound, slope)
        for _ in range(_MOST_QUESTIONS):
            prices, foreseen = program.lowest(best, radius)
            if bound - foreseen < _CLOSE or time.perf_counter() > deadline:
                break
            new_bound, slope = market.ask(prices, pool)
            program.add(prices, new_bound, slope)
            share = (bound - new_bound) / (bound - foreseen)
            if share <= _ENOUGH:
                radius *= _SHRINK
                continue
            if share > _GOOD and np.abs(prices - best).max() > 0.99 * radius:
                radius *= _GROW
            best, bound = prices, new_bound
    return Priced(best, bound, market.candidates())


class _Slopes:
    """The linear program over all slopes: prices, and a last column for the bound that they promise."""

    def __init__(self, highs: Any, lowest: F64, highest: F64) -> None:
        self._highs, self._solver = highs, new_solver(highs, np.inf)
        self._lowest, self._highest = lowest, highest
        self._columns = np.arange(lowest.shape[0] + 1, dtype=np.int32)
        for low, high in zip(lowest.tolist(), highest.tolist(), strict=True):
            self._solver.addVar(low, high)
        self._solver.addVar(-highs.kHighsInf, highs.kHighsInf)
        self._solver.changeColCost(lowest.shape[0], 1.0)

    def add(self, prices: F64, bound: float, slope: F64) -> None:
        """At `prices` the bound was `bound`, and rises so."""
        row = np.append(-slope, 1.0)
        least = bound - float(slope @ prices)
        self._solver.addRow(least, self._highs.kHighsInf, len(row), self._columns, row)

    def lowest(self, around: F64, radius: float) -> tuple[F64, float]:
        """(prices, the bound that they promise) within `radius` of some prices."""
        low = np.maximum(around - radius, self._lowest)
        high = np.minimum(around + radius, self._highest)
        self._solver.changeColsBounds(len(around), self._columns[:-1], low, high)
        run_solver(self._highs, self._solver)
        values = np.array(self._solver.getSolution().col_value)
        return values[:-1], float(values[-1])
