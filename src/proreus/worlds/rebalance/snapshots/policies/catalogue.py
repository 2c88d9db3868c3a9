"""Every policy that reschedules snapshots, by name, in one literal."""

from __future__ import annotations

from collections.abc import Callable

from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError
from proreus.policies.catalogue import Catalogue, Rule
from proreus.workers.highs import needed_highs
from proreus.worlds.rebalance.snapshots.policies.anytime import ProvenPlan, SnapshotTuning, find_plan
from proreus.worlds.rebalance.snapshots.policies.exact import solve
from proreus.worlds.rebalance.snapshots.policies.policy import (
    Choose,
    SnapshotPlanner,
    SnapshotPolicy,
    SnapshotRule,
    any_migration,
    fitting,
    greedy,
    hottest,
    nothing,
)
from proreus.worlds.rebalance.snapshots.policies.rules import BEST_FIT, FIRST_FIT
from proreus.worlds.rebalance.snapshots.state import Machines

_EXACT_SECONDS = 60.0
"""What `exact` may take where the name says nothing: exact@600 gives it ten minutes."""


def _rule(what: str, chooser: Callable[[int], Choose]) -> Rule:
    return Rule(what, lambda name, options, seed: SnapshotRule(name, chooser, seed))


def _searching(name: str, options: SnapshotTuning, seed: int) -> SnapshotPolicy:
    def plan(machines: Machines, budget: int, seed: int) -> tuple[I64, str]:
        proven_plan = find_plan(machines, budget, seconds=options.seconds, seed=seed)
        return proven_plan.plan, proven_plan.remark(budget, options.seconds)

    return SnapshotPlanner(name, plan, seed)


def _exact(name: str, options: SnapshotTuning, seed: int) -> SnapshotPolicy:
    text = name.partition("@")[2]
    try:
        seconds = float(text) if text else _EXACT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < 1e6:
        raise UsageError(f"policy {name!r}: after @ come seconds, such as exact@600")

    def plan(machines: Machines, budget: int, seed: int) -> tuple[I64, str]:
        needed_highs()
        proven_plan = find_plan(machines, budget, seconds=min(seconds, options.seconds), seed=seed)
        if proven_plan.bound is not None and not proven_plan.proven:
            solved = solve(machines, budget, seconds=seconds, start=proven_plan.plan)
            bound = min(solved.bound, proven_plan.bound)
            proven_plan = ProvenPlan(solved.plan, solved.pieces, bound, by_clock=not solved.optimal)
        return proven_plan.plan, proven_plan.remark(budget, seconds)

    return SnapshotPlanner(name, plan, seed)


SNAPSHOT_POLICIES = Catalogue(
    world="rebalance",
    what="snapshots",
    rules={
        "nothing": _rule("migrates nothing", nothing),
        "random": _rule("any legal migration, by lot", any_migration),
        "hotspot": _rule("the largest of the fullest machine goes to the emptiest", hottest),
        "first_fit": _rule("from the machine that gains most to the first that fits", fitting(FIRST_FIT)),
        "best_fit": _rule("from the machine that gains most to the tightest fit", fitting(BEST_FIT)),
        "greedy_fragment": _rule("the migration that shrinks the fragments most", greedy),
        "search": Rule("annealing, then the solver, for --seconds; says what is proven", _searching),
        "exact": Rule(
            "mixed-integer programming; exact@600: for 600 seconds", _exact, takes="seconds for the solver"
        ),
    },
    main=("search", "hotspot", "greedy_fragment"),
    options=SnapshotTuning,
)


def make_snapshot_policy(name: str, seed: int = 0) -> SnapshotPolicy:
    """The policy of that name, as `Catalogue.make` finds it."""
    return SNAPSHOT_POLICIES.make(name, None, seed)
