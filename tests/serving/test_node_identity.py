"""Learning what is particular to a node, and publishing nothing that earns the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.kernels.arrays import F64, I64
from proreus.model.experience import Experience
from proreus.policies.checkpoint import load_checkpoint
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.worker import Worker
from proreus.worlds.pods.policies.vector.model import (
    PRETRAINED_VECTOR,
    VECTOR_ENCODING,
    VectorModel,
    Weights,
    load_vector_model,
    model_of,
)
from proreus.worlds.pods.training.vector.recorded_ppo import improve, with_memory
from tests.serving.serving_cases import ACTIONS, STATE, a_store, an_experience, experience_log
from tests.serving.test_online import a_job

AS_SERVED: dict[str, Any] = {"node_memory": True, "memory_rate": 30.0, "threads": 1}
"""As `proreus serve` learns."""
Reward = Callable[[I64], F64]


def reported(
    model: VectorModel, seed: int, reward: Reward, *, version: int = 1, done: bool = True
) -> Experience:
    """64 decisions about half-empty clusters whose reward depends on the action alone."""
    random = np.random.default_rng(seed)
    states = 0.9 * random.random((64, STATE))
    states[random.random((64, STATE)) < 0.3] = 0.0
    actions, log_probs = model.decide_batch(states, ACTIONS, None, random.random(64))
    nothing = np.zeros(64, dtype=np.bool_)
    return Experience(
        states, actions, reward(actions), np.full(64, done), log_probs, nothing, version, ACTIONS
    )


def of_node_3(actions: I64) -> F64:
    rewards: F64 = (actions == 3).astype(np.float64)
    return rewards


def learned(
    folder: Path, learner: dict[str, Any], reward: Reward, updates: int, *, done: bool = True
) -> ModelStore:
    """The store of a service that began with the shipped model, after so many updates."""
    store, log = ModelStore.open(folder / "models"), experience_log(folder / "log")
    store.add("vector", load_checkpoint(PRETRAINED_VECTOR, VECTOR_ENCODING), "came with the package")
    worker = Worker(a_job(folder, learner=learner), improve)
    for k in range(updates):
        version = store.current("vector")
        log.append(reported(store.load("vector"), k, reward, version=version, done=done))
        assert worker.take() and worker.ready()
        worker.learn()
    log.close()
    return store


def share_of_node_3(store: ModelStore) -> float:
    model = store.load("vector")
    return float(np.mean([of_node_3(reported(model, 900 + k, of_node_3).actions).mean() for k in range(20)]))


def test_a_reward_for_node_3_is_learned_within_forty_updates(tmp_path: Path) -> None:
    store = learned(tmp_path, AS_SERVED, of_node_3, 40)
    assert share_of_node_3(store) > 0.8


def test_a_reward_for_node_3_is_learned_in_episodes_that_do_not_end(tmp_path: Path) -> None:
    store = learned(tmp_path, AS_SERVED, of_node_3, 60, done=False)
    assert share_of_node_3(store) > 0.4


def test_without_a_memory_it_cannot_be_learned_and_nothing_is_published(tmp_path: Path) -> None:
    store = learned(tmp_path, {**AS_SERVED, "node_memory": False}, of_node_3, 30)
    assert store.current("vector") == 1
    assert share_of_node_3(store) < 0.2


@pytest.mark.parametrize("done", [True, False])
def test_a_constant_reward_publishes_nothing_and_keeps_nothing(tmp_path: Path, done: bool) -> None:
    store = learned(tmp_path, AS_SERVED, lambda actions: np.full(len(actions), 2.5), 20, done=done)
    assert [record.version for record in store.versions("vector")] == [1]


def test_an_empty_memory_changes_no_decision() -> None:
    model = load_vector_model(PRETRAINED_VECTOR)
    experience = an_experience(0, 20)
    weights = with_memory(Weights(model.kind, model.tensors), [experience])
    assert weights.tensors["memory"].shape[0] == 7 and not weights.tensors["memory"].any()
    known = model_of(weights.kind, weights.tensors, Path())
    for state in experience.states:
        np.testing.assert_array_equal(
            known.chances(state, ACTIONS, None), model.chances(state, ACTIONS, None)
        )


def test_decisions_about_other_clusters_are_not_learned_from(tmp_path: Path) -> None:
    """A log may hold decisions about a cluster of another size, from before the service was started anew."""
    store, log = a_store(tmp_path / "models"), experience_log(tmp_path / "log")
    worker = Worker(a_job(tmp_path, learner=AS_SERVED), improve)
    for k in range(12):
        log.append(reported(store.load("vector"), k, of_node_3, version=store.current("vector")))
        worker.take()
        worker.learn()
    assert "memory" in store.load("vector").tensors
    random = np.random.default_rng(0)
    other = Experience(
        states=random.random((64, 6)),
        actions=random.integers(0, 8, 64),
        rewards=random.random(64),
        dones=np.ones(64, dtype=np.bool_),
        log_probs=np.full(64, -2.0),
        greedy=np.zeros(64, dtype=np.bool_),
        model_version=1,
        actions_dim=8,
    )
    log.append(other)
    worker.take()
    last = worker.learn()
    assert not last["accepted"] and last["decisions"] == 0
    log.close()
