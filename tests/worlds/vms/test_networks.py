"""QMIX, DQN and PPO over servers: laws of the mixer, parts against plain loops, and that each one learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proreus.contract.lanes import Arrays
from proreus.learning.ddqn import DDQNConfig, ddqn
from proreus.learning.ppo import PPOConfig, ppo
from proreus.learning.qmix import QMIXConfig, qmix
from proreus.learning.returns import advantages, n_step_returns
from proreus.model.errors import UsageError
from proreus.policies.networks.row_networks import QMIXNetwork
from proreus.worlds.vms.document import MACArguments, VectorMAC
from proreus.worlds.vms.encoding.rows import encode_servers
from tests.learning.learning_cases import one_thread  # noqa: F401
from tests.worlds.vms.server_cases import packing_servers


def random_return(episodes: int = 200) -> float:
    """Mean return of legal choices at random: what every learner must beat."""
    env, random = packing_servers(episodes), np.random.default_rng(7)
    seen, total, running = env.reset(0), np.zeros(episodes), np.ones(episodes, dtype=bool)
    while running.any():
        chosen = [int(random.choice(np.flatnonzero(legal))) for legal in seen.legal]
        seen, rewards, ended, *_ = env.step(np.array(chosen))
        total += rewards * running
        running &= ~ended
    return float(total.mean())


def moved(before: Arrays, after: Arrays) -> bool:
    """Whether every parameter is another one now."""
    return all(not np.array_equal(before[name], now) for name, now in after.items())


def test_qmix_beats_random_and_its_weights_change() -> None:
    config = QMIXConfig(
        steps=8_000,
        chunk=32,
        batch_size=128,
        capacity=20_000,
        learning_rate=2e-3,
        seed=1,
        epsilon_values=(0.9, 0.5, 0.05, 0.05),
    )
    run = qmix(config, packing_servers(16))
    before = next(run).tensors()
    *_, last = run
    assert moved(before, last.tensors())
    assert last.figures["return"] > random_return() + 1.5
    assert -1.0 < last.figures["value"] < 20.0


def test_ddqn_beats_random() -> None:
    config = DDQNConfig(steps=6_000, warm_up=200, hidden=32, report_every=2_000, seed=1, discount=0.95)
    *_, last = ddqn(config, packing_servers(1))
    assert last.figures["return"] > random_return() + 1.5


def test_ppo_beats_random_and_its_weights_change() -> None:
    run = ppo(PPOConfig(steps=30_000, learning_rate=3e-3, seed=1), packing_servers(16))
    before = next(run).tensors()
    *_, last = run
    assert moved(before, last.tensors())
    assert last.figures["return"] > random_return() + 1.5


@given(st.integers(0, 2**31), st.integers(1, 9))
def test_the_highest_bid_is_the_best_joint_action(seed: int, servers: int) -> None:
    """Monotonic mixing: sorting choices by bid and by team value is the same."""
    torch.manual_seed(seed)
    network = QMIXNetwork(16, 8, 6)
    rows, context = torch.randn(3, 2 * servers, 8), torch.randn(3, 6)
    with torch.no_grad():
        values, bids = network(rows, context)
        order = bids.argsort(1)
        sorted_values = values.gather(1, order)
        assert (sorted_values.diff(dim=1) >= -1e-5).all()


@given(st.integers(0, 2**31))
def test_the_team_never_loses_by_an_agents_gain(seed: int) -> None:
    torch.manual_seed(seed)
    mixer = QMIXNetwork(16, 8, 6).mixer
    whole, total = torch.randn(4, 16), torch.randn(4)
    with torch.no_grad():
        assert (mixer(total + torch.rand(4), whole) >= mixer(total, whole) - 1e-6).all()


def test_servers_are_interchangeable_and_any_number_is_served() -> None:
    mac = VectorMAC(MACArguments(N=4, cpu=8, mem=8))
    random = np.random.default_rng(0)
    obs = random.uniform(0, 8, (5, 4, 2, 2))
    feat = np.zeros((5, 2, 2, 2))
    feat[:, 0, 0] = feat[:, 1, 1] = 1.0
    avail = np.logical_and(obs[..., 0] >= 1.0, obs[..., 1] >= 1.0)
    bids = mac.forward({"obs": obs, "feat": feat, "avail": avail})[0].numpy().reshape(5, 4, 2)
    order = np.array([2, 0, 3, 1])
    swapped = mac.forward({"obs": obs[:, order], "feat": feat, "avail": avail[:, order]})[0].numpy()
    np.testing.assert_allclose(swapped.reshape(5, 4, 2), bids[:, order], rtol=1e-4, atol=1e-5)
    larger = VectorMAC(MACArguments(N=40, cpu=8, mem=8), mac.agent)
    many = {"obs": np.tile(obs, (1, 10, 1, 1)), "feat": feat, "avail": np.tile(avail, (1, 10, 1))}
    assert larger.select_actions(many, 0.0).shape == (5,)


def test_illegal_choices_are_never_selected() -> None:
    mac = VectorMAC(MACArguments(N=3, cpu=8, mem=8, seed=3))
    random = np.random.default_rng(1)
    for eps in (0.0, 0.5, 1.0):
        obs = random.uniform(0, 8, (64, 3, 2, 2))
        avail = random.random((64, 6)) < 0.3
        avail[:, 5] |= ~avail.any(axis=1)
        feat = np.ones((64, 2, 2, 2))
        chosen = mac.select_actions({"obs": obs, "feat": feat, "avail": avail}, eps)
        assert avail[np.arange(64), chosen].all()


def test_a_state_of_another_shape_is_refused() -> None:
    mac = VectorMAC(MACArguments(N=3))
    with pytest.raises(UsageError, match="3 servers"):
        mac.select_actions(
            {"obs": np.ones((1, 4, 2, 2)), "feat": np.ones((1, 2, 2, 2)), "avail": np.ones((1, 8))}, 0.0
        )


def test_features_say_what_is_left_here_and_there_before_and_after() -> None:
    obs = np.array([[[[40.0, 90.0], [20.0, 45.0]]]])
    feat = np.zeros((1, 2, 2, 2))
    feat[0, 0, 0] = feat[0, 1, 1] = (4.0, 9.0)
    servers = encode_servers(obs, feat, np.array([[True, False]]), (40.0, 90.0))
    np.testing.assert_allclose(servers.rows[0, 0], [1, 1, 0.5, 0.5, 0.9, 0.9, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(servers.rows[0, 1], [0.5, 0.5, 1, 1, 0.4, 0.4, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(servers.context[0], [0.1, 0.1, 0, 0.75, 0.75, 0.5], rtol=1e-6)
    both = np.tile(np.array([2.0, 4.5]), (1, 2, 2, 1))
    double = encode_servers(obs, both, np.array([[True, True]]), (40.0, 90.0))
    assert double.context[0, 2] == 1.0
    np.testing.assert_allclose(double.context[0, :2], [0.1, 0.1], rtol=1e-6)


def test_n_step_returns_are_those_of_a_plain_loop() -> None:
    random = np.random.default_rng(3)
    rewards, ends = random.normal(size=(9, 4)), random.random((9, 4)) < 0.25
    sums, weights, ahead = n_step_returns(rewards, ends, 3, 0.9)
    for t in range(9):
        for e in range(4):
            total, weight = 0.0, 1.0
            for k in range(t, min(t + 3, 9)):
                total += weight * rewards[k, e]
                weight *= 0.9
                if ends[k, e]:
                    weight = 0.0
                    break
            assert sums[t, e] == pytest.approx(total)
            assert weights[t, e] == pytest.approx(weight)
            assert ahead[t, e] == min(t + 3, 9)


def test_advantages_are_those_of_a_plain_loop() -> None:
    random = np.random.default_rng(4)
    rewards, ends, values = (
        random.normal(size=(6, 2)),
        random.random((6, 2)) < 0.3,
        random.normal(size=(7, 2)),
    )
    actual = advantages(rewards, ends, values, (0.9, 0.8))
    for t in range(6):
        for e in range(2):
            expected, weight = 0.0, 1.0
            for k in range(t, 6):
                after = 0.0 if ends[k, e] else values[k + 1, e]
                expected += weight * (rewards[k, e] + 0.9 * after - values[k, e])
                weight *= 0.9 * 0.8
                if ends[k, e]:
                    break
            assert actual[t, e] == pytest.approx(expected)


def test_the_same_seed_learns_the_same() -> None:
    config = QMIXConfig(steps=1_000, capacity=2_000, chunk=32, seed=5)
    ends = []
    for _ in range(2):
        *_, last = qmix(config, packing_servers(4))
        ends.append((last.figures["loss"], last.figures["value"]))
    assert ends[0] == ends[1]
    assert not math.isnan(ends[0][0])
