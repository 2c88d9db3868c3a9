"""The best plan for a snapshot within some seconds, and what is proven of it.

First a short annealing. Then, with the extra `solve`, prices give a bound on every plan, and the changes they
call forth, the annealing's own among them, go to the solver where the bound leaves more to gain. Where that
still leaves something, longer annealings follow until the time is up. The same seed gives the same plan,
unless the clock had to end something; what is said of the plan then says so.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError, needs_extra
from proreus.workers.highs import highs_module
from proreus.worlds.rebalance.snapshots.policies.dual_bound import Market, lowest_bound
from proreus.worlds.rebalance.snapshots.policies.plan_assembly import AssemblyEffort, assemble
from proreus.worlds.rebalance.snapshots.policies.plans import best_part, change_of, ordered_plan
from proreus.worlds.rebalance.snapshots.policies.search import SearchOptions, search_plan
from proreus.worlds.rebalance.snapshots.policies.search_state import whole_pieces
from proreus.worlds.rebalance.snapshots.policies.subproblem import contents_of, kinds_of
from proreus.worlds.rebalance.snapshots.state import Machines

_FIRST_EFFORT, _FIRST_PROPOSALS = 200, 400_000  # per virtual machine, and in all: a small share of the time
_ROUNDS = 5  # each round of annealing tries twice as much as the one before
_FOR_PRICES = 0.6  # share of the time that is left after the first round
_TRIES = (1, 8, 1, 2, 4)
"""How many changes of the same effect each call of the solver may choose from, in budgets. Its plan may lose
by being put in order, or the best one may need another change: the next call chooses from others, by lot."""


@dataclass(frozen=True)
class SnapshotTuning:
    """How long a plan may take."""

    seconds: float = 4.0
    """Of snapshots: seconds that `search` may take; it ends sooner where its plan is proven the best."""

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < 1e6:
            raise UsageError(f"--seconds {self.seconds:g}: a number of seconds above 0")


@dataclass(frozen=True, eq=False)
class ProvenPlan:
    """A plan and what is known of it."""

    plan: I64
    """int64[n, 3]: virtual machine, machine, NUMA node, each with room in its turn."""
    pieces: int
    """Whole pieces once it is carried out."""
    bound: int | None
    """No plan within the budget has more pieces; None: nobody knows (the extra `solve` is not there)."""
    by_clock: bool
    """Whether the clock ended something, so that another run may find another plan."""

    @property
    def proven(self) -> bool:
        """Whether no plan is better."""
        return self.pieces == self.bound

    def remark(self, budget: int, seconds: float) -> str:
        """What is proven, in a sentence."""
        if self.bound is None:
            message = (
                f"{self.pieces:,} pieces by annealing alone; to know how many there could be "
                f"{needs_extra('solve')}"
            )
        elif self.proven:
            message = f"proven: no plan of {budget} migrations leaves more than {self.bound:,} pieces"
        else:
            message = (
                f"{self.pieces:,} pieces; no plan leaves more than {self.bound:,}, so the gap is at most "
                f"{100 * (self.bound - self.pieces) / self.bound:.2f} % after {seconds:g} s"
            )
        return f"{message}; the clock ended it, another run may differ" if self.by_clock else message


def find_plan(machines: Machines, budget: int, *, seconds: float, seed: int = 0) -> ProvenPlan:
    """The best plan of at most `budget` migrations that these seconds find."""
    if budget < 1 or not machines.machine.shape[0]:
        pieces = whole_pieces(machines)
        return ProvenPlan(np.empty((0, 3), dtype=np.int64), pieces, pieces, by_clock=False)
    begin = time.perf_counter()
    deadline = begin + seconds
    proven_plan = ProvenPlan(*_annealed(machines, budget, seed, 0), bound=None, by_clock=False)
    took = time.perf_counter() - begin
    proven_plan = _with_solver(machines, budget, proven_plan, deadline)
    for again in range(1, _ROUNDS):
        took *= 2
        if proven_plan.proven:
            break
        if time.perf_counter() + took > deadline:
            return ProvenPlan(proven_plan.plan, proven_plan.pieces, proven_plan.bound, by_clock=True)
        began = time.perf_counter()
        plan, pieces = _annealed(machines, budget, seed, again)
        took = time.perf_counter() - began
        if pieces > proven_plan.pieces:
            proven_plan = ProvenPlan(plan, pieces, proven_plan.bound, proven_plan.by_clock)
    return proven_plan


def _annealed(machines: Machines, budget: int, seed: int, again: int) -> tuple[I64, int]:
    effort = max(min(_FIRST_EFFORT, _FIRST_PROPOSALS // machines.machine.shape[0]), 1) * 2**again
    options = SearchOptions(effort=effort, starts=2, seed=seed * _ROUNDS + again)
    return best_part(machines, search_plan(machines, budget, options))


def _with_solver(machines: Machines, budget: int, proven_plan: ProvenPlan, deadline: float) -> ProvenPlan:
    """The same or a better plan, with a bound on all of them."""
    highs = highs_module()
    if highs is None:
        return proven_plan
    begin = time.perf_counter()
    kind, representative = kinds_of(machines)
    market = Market(*contents_of(machines, kind, representative), budget)
    own = change_of(machines, kind, proven_plan.plan)
    changed = np.flatnonzero(own.any(axis=(1, 2)))
    market.keep(changed, own[changed])
    enough = begin + _FOR_PRICES * (deadline - begin)
    priced = lowest_bound(highs, market, enough)
    by_clock = time.perf_counter() > enough
    plan, pieces = proven_plan.plan, proven_plan.pieces
    bound = max(whole_pieces(machines) + math.floor(priced.bound + 1e-6), pieces)
    for lot, breadth in enumerate(_TRIES):
        left = deadline - time.perf_counter()
        if pieces == bound or left <= 0:
            break
        change = assemble(highs, machines, priced, budget, AssemblyEffort(left, breadth, lot))
        other, reached = ordered_plan(machines, kind, change, budget)
        by_clock = by_clock or time.perf_counter() > deadline
        if reached > pieces:
            plan, pieces = other, reached
    return ProvenPlan(plan, pieces, bound, by_clock)
