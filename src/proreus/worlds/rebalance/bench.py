"""`proreus bench rebalance`: what the search reaches of the best plans known, and how long it takes.

With data the public ByteDance snapshot, otherwise generated ones of 50 to 1,200 machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

from proreus.contract.benchmark import BenchRow, claim
from proreus.worlds.rebalance.snapshots.model import Snapshot
from proreus.worlds.rebalance.snapshots.play import warm_up_policy
from proreus.worlds.rebalance.snapshots.policies.anytime import ProvenPlan, SnapshotTuning, find_plan
from proreus.worlds.rebalance.snapshots.policies.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshots.policies.search_state import whole_pieces
from proreus.worlds.rebalance.snapshots.scenarios import BYTEDANCE, parse_snapshot_scenario
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotOptions, SnapshotWorld
from proreus.worlds.rebalance.snapshots.state import Machines, machines_of

SHARE_GOAL, SECONDS_GOAL = 98.0, 5.0
BUDGETS = (25, 50, 100)
BEST_KNOWN: MappingProxyType[tuple[str, int], tuple[int, int, int]] = MappingProxyType(
    {
        (BYTEDANCE, 0): (22, 35, 60),
        ("snapshot-small@50", 0): (22, 25, 25),
        ("snapshot@80", 1): (18, 24, 24),
        ("snapshot-large@120", 2): (26, 42, 58),
        ("snapshot@200", 3): (27, 46, 63),
        ("snapshot@280", 0): (28, 53, 76),
        ("snapshot-small@400", 4): (30, 55, 105),
        ("snapshot-large@600", 5): (32, 57, 107),
        ("snapshot@800", 6): (30, 55, 105),
        ("snapshot-large@1176", 0): (37, 62, 112),
        ("snapshot@1200", 7): (33, 58, 108),
    }
)
"""Scenario and seed -> the most whole pieces that plans of 25, 50 and 100 migrations gain. All are proven: no
plan gains more, by the bound that prices give (`policies/dual_bound.py`)."""


def bench_rebalance(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """Plans of 25, 50 and 100 migrations by the search beside the best ones known."""
    tell("compiling kernels")
    for policy in ("greedy_fragment", "search"):
        warm_up_policy(policy)
    for (name, seed), best in BEST_KNOWN.items():
        if (name == BYTEDANCE) == (data is not None):
            snapshot = parse_snapshot_scenario(name, data).load(seed)
            tell(name)
            for budget, known in zip(BUDGETS, best, strict=True):
                yield from _rows(f"{name}, {budget} migrations", snapshot, budget, known)


def _rows(what: str, snapshot: Snapshot, budget: int, known: int) -> Iterator[BenchRow]:
    machines = machines_of(snapshot, SnapshotOptions().fragment_size, within_clusters=False)
    begin = time.perf_counter()
    plan = find_plan(machines, budget, seconds=SnapshotTuning().seconds)
    seconds = time.perf_counter() - begin
    gained = plan.pieces - whole_pieces(machines)
    greedy = _greedy_pieces(snapshot, budget) - whole_pieces(machines)
    yield claim(
        f"{what}: share of the best known reduction",
        "%",
        100 * gained / known,
        goal=SHARE_GOAL,
        peer=(100 * greedy / known, "greedy rule"),
    )
    yield claim(f"{what}: time", "s", seconds, goal=SECONDS_GOAL, better="lower")
    if plan.bound is not None:
        yield claim(f"{what}: share that is proven", "%", _proven(machines, plan))


def _proven(machines: Machines, proven_plan: ProvenPlan) -> float:
    """What the plan gains, in percent of what no plan exceeds."""
    before = whole_pieces(machines)
    return 100 * (proven_plan.pieces - before) / max((proven_plan.bound or 0) - before, 1)


def _greedy_pieces(snapshot: Snapshot, budget: int) -> int:
    world, policy = SnapshotWorld(snapshot, SnapshotOptions(budget)), make_snapshot_policy("greedy_fragment")
    while (observation := world.next_decision()) is not None:
        world.apply(policy.decide(observation))
    return whole_pieces(world.machines)
