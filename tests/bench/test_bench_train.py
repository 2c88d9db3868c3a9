"""`proreus bench train` on a small size: the peers train on what we train on, and rows state their goals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from proreus.bench import train, train_peers
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.policies.scorer import forward, new_scorer_scratch
from proreus.worlds.pods.state.compile import compile_workload
from tests.worlds.pods.flat_networks import to_vector


@pytest.mark.parametrize("nodes", [3])
def test_the_batched_peer_has_our_network_and_masks(nodes: int) -> None:
    batch = train.new_batch(compile_workload(generate("small", 0, nodes=nodes, pods=30)), 4)
    env = train_peers.PeerLanesEnv(batch)
    policy = train_peers.PeerScorerPolicy(
        env.observation_space, env.action_space, lambda _: 1e-3, nodes=nodes
    )
    seen = env.reset()
    choices = batch.observe()
    chances, values = policy._look(torch.from_numpy(seen))
    logits = chances.distribution.logits.detach().numpy()
    params, work = to_vector(policy.scorer), new_scorer_scratch(nodes)
    for e in range(4):
        legal = np.flatnonzero(choices.legal[e])
        assert (legal < nodes).all()
        rows = choices.rows[e, legal]
        worth = forward(params, rows, (len(legal), False), choices.context[e], work)
        assert float(values[e].detach()) == pytest.approx(worth, abs=1e-5)
        bids = work.logits[: len(legal)]
        exact = bids - np.log(np.exp(bids).sum())
        np.testing.assert_allclose(logits[e, legal], exact, atol=1e-5)


def test_rows_have_goals_and_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SIZES", ((3, 30),))
    monkeypatch.setattr(train, "_SECONDS", 0.0)
    monkeypatch.setattr(train, "_UPDATES", 1)
    monkeypatch.setattr(train_peers, "plain_rate", lambda batch, updates: 100.0)
    monkeypatch.setattr(train_peers, "batched_rate", lambda batch, updates: 200.0)
    rows = list(train.bench_train(None, lambda text: None))
    assert [row.goal for row in rows] == [2_000.0, 800.0, None]
    assert [row.peer for row in rows] == [100.0, 200.0, 100.0]
    assert all(row.ours > 0 and row.unit == "steps/s" for row in rows)


def test_the_plain_env_is_a_gymnasium_env() -> None:
    env = train_peers.PeerPlainEnv(
        train.new_batch(compile_workload(generate("small", 0, nodes=3, pods=30)), 1)
    )
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    for action in (0, 7, 3):
        seen, reward, _, _, _ = env.step(np.int64(action))
        assert env.observation_space.contains(seen) and np.isfinite(reward)
