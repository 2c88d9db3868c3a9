"""`proreus bench rebalance`: time and worth of 50 migrations beside what a mixed-integer program finds.

With data the public ByteDance snapshot, otherwise a generated one of the same size. The program starts from
the search's own plan, so what it finds is never less; its bound says how much more there could be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from proreus.contract.claim import BenchRow, claim
from proreus.worlds.rebalance.snapshots.model import Snapshot
from proreus.worlds.rebalance.snapshots.play import warm_up_policy
from proreus.worlds.rebalance.snapshots.policies.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshots.policies.exact import solve
from proreus.worlds.rebalance.snapshots.policies.search import search_plan
from proreus.worlds.rebalance.snapshots.scenarios import BYTEDANCE, parse_snapshot_scenario
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotOptions, SnapshotWorld
from proreus.worlds.rebalance.snapshots.state import (
    Machines,
    copied,
    fragment_cores,
    fragment_rate,
    free_cores,
    machines_of,
    move,
)

SHARE_GOAL, SECONDS_GOAL = 97.0, 5.0
SOLVER_SECONDS = 120.0
_BUDGET = 50


def bench_rebalance(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """Fifty migrations by the search, the greedy rule and the solver on one snapshot."""
    scenario = parse_snapshot_scenario("snapshot" if data is None else BYTEDANCE, data)
    snapshot = scenario.load(0)
    tell("compiling kernels")
    for policy in ("greedy_fragment", "search"):
        warm_up_policy(policy)
    machines = machines_of(snapshot, SnapshotOptions().fragment_size, within_clusters=False)
    before = fragment_rate(machines)
    tell("the search")
    begin = time.perf_counter()
    plan = search_plan(machines, _BUDGET)
    seconds = time.perf_counter() - begin
    found = before - _rate_after(machines, plan.tolist())
    tell("the greedy rule")
    greedy = before - _greedy_rate(scenario.load(0))
    tell(f"the solver, {SOLVER_SECONDS:.0f} s")
    solution = solve(machines, _BUDGET, seconds=SOLVER_SECONDS, start=plan)
    exact = before - _rate_after(machines, solution.plan.tolist())
    free = free_cores(machines)
    bound = before - (free - solution.bound * SnapshotOptions().fragment_size) / free
    what = f"{scenario.name}, {_BUDGET} migrations"
    solver = f"solver, {SOLVER_SECONDS:.0f} s, gap {100 * solution.gap:.2f} %"
    yield claim(
        f"{what}: share of the solver's reduction",
        "%",
        100 * found / max(exact, 1e-12),
        goal=SHARE_GOAL,
        peer=(100.0, solver),
    )
    yield claim(
        f"{what}: time", "s", seconds, goal=SECONDS_GOAL, better="lower", peer=(solution.seconds, solver)
    )
    yield claim(f"{what}: fragment rate before", "%", 100 * before)
    yield claim(
        f"{what}: reduction of the fragment rate", "points", 100 * found, peer=(100 * greedy, "greedy rule")
    )
    yield claim(f"{what}: reduction that no plan exceeds", "points", 100 * bound)


def _rate_after(machines: Machines, plan: list[list[int]]) -> float:
    own = copied(machines)
    for vm, machine, numa in plan:
        move(own, vm, machine, numa)
    return float(fragment_cores(own) / free_cores(own))


def _greedy_rate(snapshot: Snapshot) -> float:

    world, policy = SnapshotWorld(snapshot), make_snapshot_policy("greedy_fragment")
    while (observation := world.next_decision()) is not None:
        world.apply(policy.decide(observation))
    return fragment_rate(world.machines)
