"""The peers of `bench train`: Stable-Baselines3 on one env, and on our lanes with our network.

Imported only when the benchmark runs: everything else starts without torch and Gymnasium.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import CategoricalDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from proreus.contract.lanes import Choices
from proreus.kernels.arrays import F32
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.policies.torch_networks import Scorer
from proreus.worlds.pods.training.batched_lanes import BatchedPods

_F, _G = len(PAIR_FEATURES), len(CONTEXT_FEATURES)


def plain_rate(batch: BatchedPods, updates: int) -> float:
    """Steps per second of SB3's PPO with the hyper-parameters people start with on one env."""
    model = PPO(
        "MlpPolicy",
        PeerPlainEnv(batch),
        n_steps=2048,
        batch_size=64,
        n_epochs=10,
        learning_rate=3e-4,
        device="cpu",
    )
    return _rate(model, updates)


def batched_rate(batch: BatchedPods, updates: int, shape: tuple[int, int] | None = None) -> float:
    """Steps per second of SB3's PPO on the same lanes, network, minibatches and epochs as ours.

    shape: lanes and choices of each per update, where they are not those of `bench train`.
    """
    from proreus.bench.train import EPOCHS, LANES, MINIBATCHES, STEPS

    lanes, steps = shape or (LANES, STEPS)
    model = PPO(
        PeerScorerPolicy,
        PeerLanesEnv(batch),
        n_steps=steps,
        batch_size=lanes * steps // MINIBATCHES,
        n_epochs=EPOCHS,
        learning_rate=1e-3,
        ent_coef=0.01,
        policy_kwargs={"nodes": batch.nodes},
        device="cpu",
    )
    return _rate(model, updates)


class _Clock(BaseCallback):
    """Notes when each update begins: a rollout starts after the learning before it."""

    def __init__(self) -> None:
        super().__init__()
        self.begins: list[float] = []

    def _on_rollout_start(self) -> None:
        self.begins.append(time.perf_counter())

    def _on_step(self) -> bool:
        return True


def _rate(model: PPO, updates: int) -> float:
    """The better of one torch thread and one per core: small networks often run faster on one."""
    size = model.n_steps * model.n_envs
    before = torch.get_num_threads()
    rates = []
    try:
        for threads in sorted({1, os.cpu_count() or 1}):
            torch.set_num_threads(threads)
            clock = _Clock()
            model.learn(total_timesteps=size * (updates + 1), callback=clock)
            marks = [*clock.begins, time.perf_counter()]
            rates.append(size / statistics.median(np.diff(marks)[1:].tolist()))
    finally:
        torch.set_num_threads(before)
    return float(max(rates))


class PeerPlainEnv(gymnasium.Env[F32, np.int64]):
    """One lane for a policy without masks: an action that is not legal stands for the first that is."""

    def __init__(self, batch: BatchedPods) -> None:
        self._batch = batch
        self._legal = np.zeros(2 * batch.nodes + 2, dtype=np.bool_)
        width = batch.nodes * _F + _G
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2 * batch.nodes + 2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """The first choice of a new episode."""
        super().reset(seed=seed, options=options)
        return self._seen(self._batch.reset()), {}

    def step(self, action: np.int64) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        """To the next choice."""
        if not self._legal[action]:
            action = self._legal.argmax()
        result = self._batch.step(np.array([action]))
        return (
            self._seen(result.choices),
            float(result.rewards[0]),
            bool(result.ended[0]),
            False,
            {},
        )

    def _seen(self, choices: Choices) -> F32:
        self._legal = choices.legal[0]
        return np.concatenate([choices.rows[0].reshape(-1), choices.context[0]])


class PeerLanesEnv(VecEnv):
    """All lanes as an SB3 VecEnv; an observation is features, context and mask in one row."""

    def __init__(self, batch: BatchedPods) -> None:
        self._batch = batch
        self._actions: np.ndarray[Any, Any] = np.zeros(len(batch), dtype=np.int64)
        actions = 2 * batch.nodes + 2
        width = batch.nodes * _F + _G + actions
        super().__init__(
            len(batch),
            gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32),
            gymnasium.spaces.Discrete(actions),
        )

    def reset(self) -> F32:
        """The first choice of a new episode in every lane."""
        return self._seen(self._batch.reset())

    def step_async(self, actions: np.ndarray[Any, Any]) -> None:
        """Note the actions."""
        self._actions = actions

    def step_wait(self) -> tuple[F32, np.ndarray[Any, Any], np.ndarray[Any, Any], list[dict[str, Any]]]:
        """Carry them out."""
        result = self._batch.step(self._actions)
        seen = self._seen(result.choices)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(result.ended):
            infos[i]["terminal_observation"] = seen[i]
        return seen, result.rewards.astype(np.float32), result.ended, infos

    def _seen(self, choices: Choices) -> F32:
        features = choices.rows.reshape(self.num_envs, -1)
        return np.concatenate([features, choices.context, choices.legal], axis=1, dtype=np.float32)

    def close(self) -> None:
        """Nothing to close."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """SB3 asks for the render mode only."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing can be set."""

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """There are no methods to call."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No wrappers."""
        return [False] * self.num_envs


class PeerScorerPolicy(ActorCriticPolicy):
    """The size-free scorer in torch as an SB3 policy with masks."""

    def __init__(
        self, observation_space: Any, action_space: Any, lr_schedule: Any, *, nodes: int, **rest: Any
    ):
        self._nodes = nodes
        super().__init__(observation_space, action_space, lr_schedule, **rest)

    def _build(self, lr_schedule: Any) -> None:
        self.action_dist = CategoricalDistribution(int(self.action_space.n))  # type: ignore[attr-defined]
        self.features_extractor = FlattenExtractor(self.observation_space)
        self.scorer = Scorer()
        self.optimizer = torch.optim.Adam(self.scorer.parameters(), lr=lr_schedule(1), eps=1e-5)

    def _look(self, seen: Tensor) -> tuple[Any, Tensor]:
        nodes = self._nodes
        rows = seen[:, : nodes * _F].reshape(-1, nodes, _F)
        context = seen[:, nodes * _F : nodes * _F + _G]
        mask = seen[:, nodes * _F + _G :] > 0
        place, preempt = mask[:, :nodes], mask[:, nodes : 2 * nodes]
        logits, value = self.scorer(rows, place | preempt, context)
        bids = logits[:, :nodes]
        wide = torch.cat([bids, bids, logits[:, nodes:]], 1).masked_fill(~mask, -1e9)
        return self.action_dist.proba_distribution(action_logits=wide), value[:, None]

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """(actions, values, logarithms of chances)."""
        chances, value = self._look(obs)
        actions = chances.get_actions(deterministic=deterministic)
        return actions, value, chances.log_prob(actions)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """(values, logarithms of chances, entropies)."""
        chances, value = self._look(obs)
        return value, chances.log_prob(actions), chances.entropy()

    def predict_values(self, obs: Tensor) -> Tensor:  # type: ignore[override]
        """Values alone."""
        return self._look(obs)[1]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "nodes": self._nodes}
