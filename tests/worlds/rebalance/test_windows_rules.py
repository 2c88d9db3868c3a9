"""Rules that move pods: what each of them does on a case that can be checked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Card, Checkpoint, save_checkpoint
from proreus.worlds.rebalance.decision import Migrate, Migration, Stop
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, VERSION, encode_moves
from proreus.worlds.rebalance.windows.model import Deployment, windows_of
from proreus.worlds.rebalance.windows.play import play_part
from proreus.worlds.rebalance.windows.policies.catalogue import KIND, MOVE_POLICIES, make_move_policy
from proreus.worlds.rebalance.windows.policies.columns import LEARNED
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, WindowPolicy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.simulation.columns import MOVES, OVER_REQUESTS, REQUESTS
from proreus.worlds.rebalance.windows.simulation.world import WindowsOptions, WindowsWorld
from proreus.worlds.rebalance.windows.state import WindowObservation

NODES = 3
SMALL = WindowScenario("small", config=WindowsConfig(nodes=4, pods=16, windows=400))


def world_with(loads: list[tuple[int, float]], **options: Any) -> WindowsWorld:
    """Pods by (node, CPU and memory of their one request in each of two windows), after the first window."""
    where = np.array([node for node, _ in loads])
    deployment = Deployment(
        tuple(f"n{n}" for n in range(NODES)),
        tuple(f"p{p}" for p in range(len(loads))),
        np.full((NODES, 2), 100.0),
        np.zeros((len(loads), 2)),
        where,
    )
    pod = np.tile(np.arange(len(loads)), 2)
    window = np.repeat([0, 1], len(loads))
    amount = np.array([[load, load] for _, load in loads] * 2)
    world = WindowsWorld(windows_of("case", deployment, window, pod, amount), WindowsOptions(**options))
    world.stop()
    return world


def rule_of(name: str, seed: int = 0) -> MovePolicy:
    """A policy whose rule kernels run."""
    policy = make_move_policy(name, seed)
    assert isinstance(policy, MovePolicy)
    return policy


def decided(world: WindowsWorld, policy: WindowPolicy) -> Migration:
    """What the policy does with the pods as they stand."""
    names = world.windows.deployment
    return policy.decide(WindowObservation(world.hosting, world.window, names.node_names, names.pod_names))


def moves_of(world: WindowsWorld, name: str) -> list[tuple[int, int]]:
    """What the policy does before the next window."""
    policy = make_move_policy(name)
    moves = []
    while isinstance(migration := decided(world, policy), Migrate):
        assert world.mask()[migration.unit * NODES + migration.target]
        moves.append((migration.unit, migration.target))
        world.move(*moves[-1])
    return moves


def test_hotspot_moves_the_largest_pod_that_helps_to_the_coldest_node_that_can_take_it() -> None:
    # Node 0 has 95: the 60 fits on no node without making it hot, the 35 goes to node 2, which is coldest.
    world = world_with([(0, 60.0), (0, 35.0), (1, 40.0), (2, 30.0)])
    assert moves_of(world, "hotspot") == [(1, 2)]


def test_hotspot_begins_with_the_hottest_node_and_stops_when_none_is_hot() -> None:
    world = world_with([(0, 50.0), (0, 35.0), (1, 90.0), (1, 9.0), (2, 5.0)])
    # Node 1 has 99: the 90 can go nowhere, the 9 leaves it hot at 90; then node 0 at 85 gives its 50.
    assert moves_of(world, "hotspot") == [(3, 2), (0, 2)]
    calm = world_with([(0, 40.0), (0, 39.0), (1, 1.0)])
    assert moves_of(calm, "hotspot") == []
    assert moves_of(calm, "hotspot@0.7") == [(0, 2)]


def test_balance_lowers_the_variance_most() -> None:
    # From 75 to 0 the 40 gains 2 * 0.4 * (0.75 - 0.4), the 20 and the 15 less; then nothing is worth a move.
    world = world_with([(0, 20.0), (0, 40.0), (0, 15.0), (1, 35.0)])
    assert moves_of(world, "balance") == [(1, 2)]


def test_budget_and_most_pods_bind_every_policy() -> None:
    loads = [(0, 30.0), (0, 30.0), (0, 30.0), (1, 1.0)]
    for name in ("random", "hotspot", "balance"):
        assert len(moves_of(world_with(loads, budget=1), name)) <= 1
    world = world_with(loads, max_pods=3)
    moves_of(world, "balance")
    assert world.hosting.pods.max() <= 3


def test_nothing_never_moves_and_rules_beat_it() -> None:
    by_rule = {}
    for name in ("nothing", "random", "hotspot", "balance"):
        world = SMALL.load(1)
        outcomes, _ = play_part(world, rule_of(name, 1), (300, 400))
        total = outcomes.sum(axis=0)
        by_rule[name] = (total[OVER_REQUESTS] / total[REQUESTS], total[MOVES])
    assert by_rule["nothing"][1] == 0
    assert by_rule["hotspot"][0] < by_rule["nothing"][0] < by_rule["random"][0]
    assert by_rule["balance"][0] < by_rule["nothing"][0]


def test_kernel_runs_decide_as_the_policy_does_call_by_call() -> None:
    weights = np.random.default_rng(2).normal(0.0, 1.0, len(FEATURES))
    for policy in (rule_of("random", 5), MovePolicy("candidate", LEARNED, weights=weights)):
        world = SMALL.load(3)
        outcomes, _ = play_part(world, policy, (300, 310))
        world.begin(300, 310)
        rows = []
        while not world.over:
            while isinstance(migration := decided(world, policy), Migrate):
                world.move(migration.unit, migration.target)
            world.stop()
            rows.append(world.outcome())
        assert np.array(rows) == pytest.approx(outcomes)


def test_a_scorer_takes_the_move_with_the_highest_score_above_none() -> None:
    weights = np.zeros(len(FEATURES))
    weights[FEATURES.index("last_levelling")] = 1.0
    weights[FEATURES.index("constant")] = -0.5
    world = world_with([(0, 60.0), (0, 35.0), (1, 40.0), (2, 30.0)])
    scores = np.where(world.mask(), encode_moves(world.hosting) @ weights, -np.inf)
    scorer = MovePolicy("candidate", LEARNED, weights=weights)
    assert decided(world, scorer) == Migrate(*divmod(int(scores.argmax()), NODES))
    weights[FEATURES.index("constant")] = -100.0
    assert decided(world, MovePolicy("candidate", LEARNED, weights=weights)) == Stop()


def test_features_do_not_depend_on_how_nodes_and_pods_are_numbered() -> None:
    loads = [(0, 60.0), (0, 35.0), (1, 40.0), (2, 30.0)]
    turned = [(2 - node, load) for node, load in reversed(loads)]
    table = encode_moves(world_with(loads).hosting)[:-1].reshape(4, NODES, -1)
    other = encode_moves(world_with(turned).hosting)[:-1].reshape(4, NODES, -1)
    assert table == pytest.approx(other[::-1, ::-1])


def test_what_ships_plays_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    assert rule_of("learned-linear").weights.shape == (len(FEATURES),)
    for name in ("hotspots", "hotspot@x", "hotspot@-1", str(tmp_path)):
        with pytest.raises(UsageError):
            make_move_policy(name)
    card = Card(world="rebalance", kind=KIND, algorithm="es", encoding=VERSION)
    save_checkpoint(tmp_path / "few", Checkpoint(card, {"weights": np.zeros(2)}))
    with pytest.raises(InputError, match="finite numbers"):
        make_move_policy(str(tmp_path / "few"))
    other = Card(world="vms", kind="linear", algorithm="es", encoding=VERSION)
    save_checkpoint(tmp_path / "other", Checkpoint(other, {"weights": np.zeros(len(FEATURES))}))
    with pytest.raises(InputError, match="cannot play in the rebalance world"):
        make_move_policy(str(tmp_path / "other"))
    learned = {"learned", "learned-linear"}
    assert set(MOVE_POLICIES.names) == {"nothing", "random", "hotspot", "balance", *learned}
