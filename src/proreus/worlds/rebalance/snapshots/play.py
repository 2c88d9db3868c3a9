"""How policies reschedule a snapshot: one migration after the other; the time is that of deciding alone."""

from __future__ import annotations

import time
from functools import lru_cache

from proreus.contract.play import for_two_runs, recorded, with_measure
from proreus.contract.simulation import Outcome
from proreus.contract.world import Hear, Played
from proreus.model.errors import IllegalDecision
from proreus.policies.protocol import remark_of
from proreus.worlds.rebalance.snapshots.datasets.generator import generate_snapshot
from proreus.worlds.rebalance.snapshots.model import Snapshot
from proreus.worlds.rebalance.snapshots.policies.catalogue import SNAPSHOT_POLICIES, make_snapshot_policy
from proreus.worlds.rebalance.snapshots.policies.policy import SnapshotPolicy
from proreus.worlds.rebalance.snapshots.scenarios import SnapshotScenario
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotOptions, SnapshotWorld


@lru_cache(maxsize=64)
def warm_up_policy(name: str) -> None:
    """Load the policy's machine code once in a process, so that times are those of deciding alone."""
    if name.partition("@")[0] in SNAPSHOT_POLICIES.rules:
        tiny = generate_snapshot("snapshot-small", 0, 2)
        play_snapshot(SnapshotWorld(tiny, SnapshotOptions(budget=1)), make_snapshot_policy(name))


def play_snapshot(world: SnapshotWorld, policy: SnapshotPolicy) -> Outcome:
    """Migrate until the policy stops or the budget is spent."""
    seconds = 0.0
    while True:
        begin = time.perf_counter()
        observation = world.next_decision()
        if observation is None:
            return with_measure(world.outcome(), "plan_seconds", seconds)
        decision = policy.decide(observation)
        seconds += time.perf_counter() - begin
        try:
            world.apply(decision)
        except IllegalDecision as error:
            raise IllegalDecision(f"policy {policy.name}: {error}") from error


def play(
    scenario: SnapshotScenario,
    work: Snapshot,
    policy: SnapshotPolicy,
    seed: int,
    *,
    hear: Hear | None = None,
    picture: bool = False,
) -> Played:
    """All migrations of the policy, as `contract.world.Play` says."""
    warm_up_policy(policy.name)
    first, again = for_two_runs(policy, seed)
    outcome = play_snapshot(SnapshotWorld(work, scenario.options), first)
    drawn = recorded(SnapshotWorld(work, scenario.options), again()) if picture else None
    remarks = (f"note: {work.mended}" if work.mended else "", remark_of(first))
    return Played(outcome, drawn, "\n".join(filter(None, remarks)))
