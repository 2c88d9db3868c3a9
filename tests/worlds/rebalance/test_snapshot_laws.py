"""Laws of rescheduling snapshots, against a count from first principles."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.rng import seeded
from proreus.model.errors import IllegalDecision
from proreus.worlds.rebalance.decision import Migrate, Stop
from proreus.worlds.rebalance.snapshots.model import Snapshot
from proreus.worlds.rebalance.snapshots.policies.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshots.policies.policy import SnapshotPlanner, SnapshotPolicy
from proreus.worlds.rebalance.snapshots.policies.rules import greedy_move, random_move
from proreus.worlds.rebalance.snapshots.policies.search import SearchOptions, search_plan
from proreus.worlds.rebalance.snapshots.policies.search_state import whole_pieces
from proreus.worlds.rebalance.snapshots.policies.subproblem import kinds_of
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotOptions, SnapshotWorld
from proreus.worlds.rebalance.snapshots.state import (
    fragment_cores,
    fragment_drop,
    fragment_rate,
    free_cores,
)
from tests.oracles.snapshot import PlainSnapshot, snapshots

SIZE = 8


def policies(seed: int) -> list[SnapshotPolicy]:
    """One of each, new."""
    quick = SearchOptions(effort=1, starts=1, seed=seed)
    names = ("nothing", "random", "first_fit", "best_fit", "hotspot", "greedy_fragment")
    return [
        *(make_snapshot_policy(name, seed) for name in names),
        SnapshotPlanner("search", lambda machines, budget, _: (search_plan(machines, budget, quick), "")),
    ]


@settings(max_examples=60)
@given(snapshots(), st.booleans(), st.integers(0, 99))
def test_masks_gains_and_fragments_are_those_of_a_recount(
    snapshot: Snapshot, within: bool, seed: int
) -> None:
    world = SnapshotWorld(snapshot, SnapshotOptions(5, SIZE, within_clusters=within))
    plain = PlainSnapshot(snapshot, SIZE, within_clusters=within)
    rng = seeded(seed)
    while (observation := world.next_decision()) is not None:
        machines = observation.machines
        legal = plain.moves()
        masks = np.array([observation.targets(v) for v in range(len(snapshot.vms))]).reshape(
            -1, len(snapshot.machines), 2
        )
        assert [tuple(move) for move in np.argwhere(masks).tolist()] == legal
        assert fragment_cores(machines) == plain.fragments()
        assert whole_pieces(machines) == plain.pieces()
        for move in legal:
            before, fragments = plain.places[move[0]], plain.fragments()
            plain.carry_out(move)
            assert fragment_drop(machines, *move) == fragments - plain.fragments()
            plain.places[move[0]] = before
        chosen = random_move(machines, rng)
        if chosen[0] < 0:
            assert not legal
            world.apply(Stop())
        else:
            world.apply(Migrate(*chosen))
            plain.carry_out(chosen)
            for p in range(len(snapshot.machines)):
                assert machines.free[p].tolist() == [[plain.free(p, k, r) for r in (0, 1)] for k in (0, 1)]


@settings(max_examples=60)
@given(snapshots(), st.integers(0, 6), st.integers(0, 99), st.booleans())
def test_every_policy_keeps_capacity_budget_and_virtual_machines(
    snapshot: Snapshot, budget: int, seed: int, within: bool
) -> None:
    for policy in policies(seed):
        world = SnapshotWorld(snapshot, SnapshotOptions(budget, SIZE, within_clusters=within))
        cores = free_cores(world.machines)
        before = fragment_rate(world.machines)
        while (observation := world.next_decision()) is not None:
            world.apply(policy.decide(observation))
        outcome = world.outcome()
        assert (world.machines.free >= 0).all() and (world.machines.free <= snapshot.total).all()
        assert free_cores(world.machines) == cores
        assert len(outcome.rows) <= budget
        assert outcome.measures["moves"] == len(outcome.rows)
        stayed = ~snapshot.movable
        assert (world.machines.machine[stayed] == snapshot.machine[stayed]).all()
        if within:
            assert (snapshot.group[world.machines.machine] == snapshot.group[snapshot.machine]).all()
        reduction = outcome.measures["fragment_reduction"]
        assert reduction == pytest.approx(100 * (before - fragment_rate(world.machines)))
        if policy.name in ("nothing", "first_fit", "best_fit", "greedy_fragment", "search"):
            assert reduction >= 0
        if policy.name == "nothing":
            assert not outcome.rows


@settings(max_examples=80)
@given(snapshots())
def test_the_greedy_rule_is_the_best_of_all_single_migrations(snapshot: Snapshot) -> None:
    world = SnapshotWorld(snapshot, SnapshotOptions(1, SIZE))
    plain = PlainSnapshot(snapshot, SIZE, within_clusters=False)
    ranked = sorted(
        (-fragment_drop(world.machines, *move), int(snapshot.demand[move[0], 0]), move)
        for move in plain.moves()
    )
    migration = greedy_move(world.machines, *kinds_of(world.machines))
    if not ranked or ranked[0][0] >= 0:
        assert migration == (-1, -1, -1)
    else:
        assert tuple(migration) == ranked[0][2]


@settings(max_examples=40)
@given(snapshots(), st.integers(0, 9))
def test_the_same_seed_gives_the_same_plan(snapshot: Snapshot, seed: int) -> None:
    machines = SnapshotWorld(snapshot, SnapshotOptions(4, SIZE)).machines
    options = SearchOptions(effort=1, starts=3, seed=seed)
    first, second = (search_plan(machines, 4, options).tolist() for _ in range(2))
    assert first == second
    assert Counter(machines.machine.tolist()) == Counter(snapshot.machine.tolist())


@settings(max_examples=30)
@given(snapshots(vms=4))
def test_an_illegal_migration_changes_nothing(snapshot: Snapshot) -> None:
    world = SnapshotWorld(snapshot, SnapshotOptions(3, SIZE))
    plain = PlainSnapshot(snapshot, SIZE, within_clusters=False)
    free = world.machines.free.copy()
    for v in range(-1, len(snapshot.vms) + 1):
        for p in range(-1, len(snapshot.machines) + 1):
            for numa in (-1, 0, 1, 2):
                known = 0 <= v < len(snapshot.vms) and 0 <= p < len(snapshot.machines) and numa in (0, 1)
                if known and plain.legal((v, p, numa)):
                    continue
                with pytest.raises(IllegalDecision):
                    world.apply(Migrate(v, p, numa))
    assert (world.machines.free == free).all() and world.budget == 3
