"""Every policy that reschedules snapshots, by name, in one literal."""

from __future__ import annotations

from collections.abc import Callable

from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.rebalance.snapshots.policies.policy import (
    SnapshotPlanner,
    SnapshotPolicy,
    fitting_rule,
    greedy_rule,
    hotspot_rule,
    nothing_rule,
    random_rule,
)
from proreus.worlds.rebalance.snapshots.policies.rules import BEST_FIT, FIRST_FIT
from proreus.worlds.rebalance.snapshots.policies.search import SearchOptions, search_plan
from proreus.worlds.rebalance.snapshots.state import Machines

_EXACT_SECONDS = 60.0
"""What `exact` may take where the name says nothing: exact@600 gives it ten minutes."""

SNAPSHOT_POLICIES: dict[str, Callable[[str, int], SnapshotPolicy]] = {
    "nothing": lambda name, seed: nothing_rule(name),
    "random": random_rule,
    "hotspot": lambda name, seed: hotspot_rule(name),
    "first_fit": lambda name, seed: fitting_rule(name, FIRST_FIT),
    "best_fit": lambda name, seed: fitting_rule(name, BEST_FIT),
    "greedy_fragment": lambda name, seed: greedy_rule(name),
    "search": lambda name, seed: _searching(name, seed),  # annealing over whole plans
    "exact": lambda name, seed: _exact(name, seed),  # mixed-integer programming; exact@600: for 600 seconds
}


def make_snapshot_policy(name: str, seed: int = 0) -> SnapshotPolicy:
    """The policy of that name; a UsageError names the nearest one known."""
    plain = name.partition("@")[0]
    if plain not in SNAPSHOT_POLICIES or (plain != name and plain != "exact"):
        raise unknown_name("policy", name, SNAPSHOT_POLICIES)
    return SNAPSHOT_POLICIES[plain](name, seed)


def _searching(name: str, seed: int) -> SnapshotPolicy:
    options = SearchOptions(seed=seed)
    return SnapshotPlanner(name, lambda machines, budget: (search_plan(machines, budget, options), ""))


def _exact(name: str, seed: int) -> SnapshotPolicy:
    text = name.partition("@")[2]
    try:
        seconds = float(text) if text else _EXACT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < 1e6:
        raise UsageError(f"policy {name!r}: after @ come seconds, such as exact@600")

    def plan(machines: Machines, budget: int) -> tuple[I64, str]:
        from proreus.worlds.rebalance.snapshots.policies.exact import (
            solve,  # the solver comes with the extra `solve`
        )

        start = search_plan(machines, budget, SearchOptions(seed=seed))
        found = solve(machines, budget, seconds=seconds, start=start)
        if found.pieces == found.bound:
            return (
                found.plan,
                f"proven: no plan of {budget} migrations leaves more than {found.bound:,} pieces",
            )
        return found.plan, (
            f"{found.pieces:,} pieces; no plan leaves more than {found.bound:,}, so the gap is at most "
            f"{100 * found.gap:.2f} % after {seconds:g} s (exact@600 gives it ten minutes)"
        )

    return SnapshotPlanner(name, plan)
