"""Lanes of windows: a plain reading of the single world in Python is what they must be like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra learn")

from proreus.kernels.rng import next_below, seeded
from proreus.learning.learner_state import first_network, weights_of
from proreus.model.errors import IllegalDecision, UsageError
from proreus.policies.networks.bidder import bidder_of
from proreus.policies.networks.linear_start import with_scorer
from proreus.policies.networks.q_network import QNetwork
from proreus.policies.networks.row_networks import ActorCritic, QMIXNetwork
from proreus.worlds.rebalance.decision import Migrate, Stop
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from proreus.worlds.rebalance.windows.encoding.figures import hosting_figures
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, encode_moves
from proreus.worlds.rebalance.windows.encoding.offers import CHOICES, OFFERED, SIZES, STOP_ROW
from proreus.worlds.rebalance.windows.play import play
from proreus.worlds.rebalance.windows.policies.catalogue import OFFERING, bidding_policy
from proreus.worlds.rebalance.windows.policies.columns import BALANCE, LEARNED
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, balance_weights
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.simulation.columns import HIT, OVER_REQUESTS, REQUESTS
from proreus.worlds.rebalance.windows.simulation.world import WindowsOptions, WindowsWorld
from proreus.worlds.rebalance.windows.state import WindowObservation
from proreus.worlds.rebalance.windows.training.lanes import (
    UNIT,
    JoinedLanes,
    LaneSettings,
    WindowLanes,
    episodes,
    pool_of,
)

APART = 1_000_003
PRICE = 0.2


def scenario_of(service: Any = "serial") -> WindowScenario:
    options = WindowsOptions(service=service, budget=3)
    return WindowScenario("own", options, WindowsConfig(nodes=3, pods=8, windows=60, load=0.7))


def seen_by(world: WindowsWorld) -> WindowObservation:
    names = world.windows.deployment
    return WindowObservation(world.hosting, world.window, names.node_names, names.pod_names)


class Reference:
    """One lane as a reader of `WindowsWorld` would play it, in plain Python."""

    def __init__(self, pool: list[WindowsWorld], horizon: int, seed: int) -> None:
        self.pool, self.horizon, self.rng = pool, horizon, seeded(seed)
        self.begin()

    def begin(self) -> None:
        world = self.pool[int(next_below(self.rng, len(self.pool)))]
        last = round(0.6 * world.windows.windows)
        first = int(next_below(self.rng, last - self.horizon + 1))
        self.world, self.shadow = world.sibling(), world.sibling()
        self.world.begin(first, first + self.horizon)
        self.shadow.begin(first, first + self.horizon)

    def step(self, move: int) -> tuple[float, float, bool]:
        """(reward to learn from, the environment's, whether the episode is over)."""
        nodes = self.world.hosting.pods.size
        if move != self.world.hosting.where.size * nodes:
            return -100.0 * PRICE / nodes / UNIT, self.world.move(*divmod(move, nodes)), False
        own, moves = self.world.stop(), 0
        policy = MovePolicy("balance", BALANCE)
        while isinstance(decision := policy.decide(seen_by(self.shadow)), Migrate):
            self.shadow.move(decision.unit, decision.target)
            moves += 1
        assert decision == Stop()
        self.shadow.stop()
        worth = bad(self.shadow) + 100.0 * PRICE * moves / nodes - bad(self.world)
        return worth / UNIT, own, self.world.over


def bad(world: WindowsWorld) -> float:
    outcome = world.outcome()
    return float(100.0 * (outcome[OVER_REQUESTS] + outcome[HIT]) / max(outcome[REQUESTS], 1.0))


def offered(world: WindowsWorld, weights: Any) -> dict[int, int]:
    """Row -> move, from the scores of all moves."""
    nodes = world.hosting.pods.size
    scores = np.where(world.mask()[:-1], encode_moves(world.hosting)[:-1] @ weights, -np.inf)
    by_pod = scores.reshape(-1, nodes)
    ranked = sorted(range(len(by_pod)), key=lambda pod: (-by_pod[pod].max(), pod))
    rows = {STOP_ROW: len(scores)}
    for place, pod in enumerate(ranked[:OFFERED]):
        order = sorted(range(nodes), key=lambda node: (-by_pod[pod, node], node))
        rows |= {
            2 * place + second: pod * nodes + node
            for second, node in enumerate(order[:2])
            if np.isfinite(by_pod[pod, node])
        }
    return rows


@pytest.mark.parametrize("service", ["serial", "parallel"])
@pytest.mark.parametrize("learns", [False, True], ids=["environment", "learner"])
def test_a_lane_is_the_world_played_by_itself(service: str, learns: bool) -> None:
    pool, weights, horizon = pool_of(scenario_of(service), 3), balance_weights(), 4
    settings = LaneSettings("train", horizon, weights, PRICE) if learns else LaneSettings("train", horizon)
    lanes = WindowLanes(pool, 3, settings)
    choices = lanes.reset(5)
    references = [Reference(pool, horizon, 5 + lane * APART) for lane in range(3)]
    random, ends = np.random.default_rng(0), 0
    for _ in range(60):
        rows = np.array([int(random.choice(np.flatnonzero(legal))) for legal in choices.legal])
        moves = []
        for lane, reference in enumerate(references):
            table = encode_moves(reference.world.hosting).astype(np.float32)
            np.testing.assert_allclose(
                choices.context[lane], hosting_figures(reference.world.hosting), rtol=1e-5, atol=1e-6
            )
            if learns:
                shown = offered(reference.world, weights)
                np.testing.assert_array_equal(np.flatnonzero(choices.legal[lane]), sorted(shown))
                moves.append(shown[int(rows[lane])])
                for row, move in shown.items():
                    np.testing.assert_allclose(choices.rows[lane, row], table[move], rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(choices.legal[lane], reference.world.mask())
                np.testing.assert_allclose(choices.rows[lane], table, rtol=1e-5, atol=1e-5)
                moves.append(int(rows[lane]))
        steps = lanes.step(rows)
        for lane, reference in enumerate(references):
            worth, own, over = reference.step(moves[lane])
            assert steps.own[lane] == pytest.approx(own)
            assert steps.rewards[lane] == pytest.approx(worth if learns else own)
            assert steps.ended[lane] == over
            ends += over
            if over:
                reference.begin()
        choices = steps.choices
    assert ends > 3


def test_captured_lanes_go_on_bit_for_bit() -> None:
    pool = pool_of(scenario_of(), 2)
    settings = LaneSettings("train", 3, balance_weights(), PRICE)
    parts = [WindowLanes(pool, 2, settings) for _ in range(2)]
    lanes, other = JoinedLanes(parts), JoinedLanes([WindowLanes(pool, 2, settings) for _ in range(2)])
    random = np.random.default_rng(1)

    def drawn(legal: Any) -> Any:
        return np.array([int(random.choice(np.flatnonzero(row))) for row in legal])

    choices = lanes.reset(2)
    for _ in range(9):
        choices = lanes.step(drawn(choices.legal)).choices
    other.reset(0)
    again = other.restore(lanes.capture())
    np.testing.assert_array_equal(again.rows, choices.rows)
    for _ in range(20):
        rows = drawn(choices.legal)
        one, two = lanes.step(rows), other.step(rows)
        for left, right in zip((*one.choices, *one[1:4]), (*two.choices, *two[1:4]), strict=True):
            np.testing.assert_array_equal(left, right)
        choices = one.choices


def test_what_cannot_be_is_refused() -> None:
    pool = pool_of(scenario_of(), 1)
    lanes = WindowLanes(pool, 2, LaneSettings("train", 3, balance_weights(), PRICE))
    before = lanes.reset(1)
    with pytest.raises(IllegalDecision, match="lane 1"):
        lanes.step(np.array([STOP_ROW, CHOICES - 1]))
    np.testing.assert_array_equal(before.rows, lanes.restore(lanes.capture()).rows)
    other = scenario_of()
    different = replace(other, config=replace(other.config, nodes=2)).load(0)
    with pytest.raises(UsageError, match="same nodes"):
        WindowLanes([*pool, different], 1, LaneSettings())
    for wrong in ({"pool": 0}, {"horizon": 0}, {"part": "all"}):
        with pytest.raises(UsageError):
            episodes("serial@2", **wrong)


@pytest.mark.parametrize(
    ("kind", "network"), [("agents", QMIXNetwork), ("actor", ActorCritic), ("q", QNetwork)]
)
@pytest.mark.parametrize("service", ["serial", "parallel"])
def test_a_network_that_starts_as_a_rule_decides_as_the_rule(kind: str, network: Any, service: str) -> None:
    scenario = scenario_of(service)
    config: Any = type("Config", (), {"seed": 3, "hidden": 8})
    drawn = weights_of(first_network(network, config, SIZES))
    random = np.random.default_rng(0)
    weights = {"rule": balance_weights(), "scorer": random.normal(size=len(FEATURES))}
    for name, scorer in weights.items():
        tensors = with_scorer(kind, drawn, scorer, 0.5)
        policy = bidding_policy("network", kind, {**tensors, OFFERING: scorer})
        for seed in range(3):
            rule = MovePolicy(name, LEARNED, weights=scorer)
            played = [
                play(scenario, scenario.load(seed), each, seed).outcome.measures for each in (rule, policy)
            ]
            for measure in ("violations", "migrations", "reward", "hit"):
                assert played[0][measure] == pytest.approx(played[1][measure]), (name, measure)
        explanation = policy.explain(seen_by(scenario.load(0)))
        bids = [verdict for verdict in explanation.verdicts if verdict.looked_at]
        assert (
            bids
            and len(bids) <= 2 * OFFERED
            and explanation.decision == policy.decide(seen_by(scenario.load(0)))
        )


@given(st.integers(0, 2**31), st.floats(0.1, 50.0))
def test_bids_of_such_a_network_are_the_scores(seed: int, sharpness: float) -> None:
    """Whatever the other hidden units do, they count for nothing yet."""
    import torch

    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    scorer = random.normal(size=SIZES[0])
    tensors = with_scorer("actor", weights_of(ActorCritic(6, *SIZES)), scorer, sharpness)
    network = ActorCritic(6, *SIZES)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in tensors.items()})
    rows, context = random.normal(size=(4, 10, SIZES[0])), random.normal(size=(4, SIZES[1]))
    with torch.no_grad():
        logits = network.logits(torch.from_numpy(rows).float(), torch.from_numpy(context).float()).numpy()
    expected = sharpness * rows @ scorer
    apart = logits - expected
    np.testing.assert_allclose(apart, apart[0, 0], atol=2e-4 * sharpness)
    assert bidder_of("actor", tensors, SIZES).take[2:].any() == np.False_
