"""PPO in torch over servers with two NUMA nodes, from top to bottom: for worlds without fused kernels.

    for progress in servers_ppo(ServersPPOConfig(steps=100_000), env):
        print(progress.steps, progress.mean_return)

Masked choices, generalised advantages, clipped ratios, early stop by KL. `learning.ppo` is the same for pods,
fused into kernels. A captured learner, lanes included, goes on bit for bit. E lanes, T steps of a rollout,
B a minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from proreus.kernels.arrays import F64, Bool
from proreus.learning.learner_state import (
    LearnerState,
    moments_of,
    part_of,
    set_moments,
    set_weights,
    under,
    weights_of,
)
from proreus.learning.optimiser import linear
from proreus.model.errors import UsageError, WorkError
from proreus.policies.networks.rows import ServerActorCritic
from proreus.worlds.vms.encoding.rows import ServerRows
from proreus.worlds.vms.training.servers import ServersEnv, rows_of

_RETURNS_REMEMBERED = 50


@dataclass(frozen=True)
class ServersPPOConfig:
    """Everything a training run depends on, beside the batch of worlds."""

    steps: int = 400_000
    """Choices to learn from, over all lanes; rounded up to whole updates."""
    rollout_steps: int = 128
    """Choices of each lane per update."""
    epochs: int = 4
    """How often each update goes through what was played."""
    minibatches: int = 8
    """Parts of an epoch: so many steps of the optimiser."""
    hidden: int = 64
    """Width of the network's layers."""
    learning_rate: float = 1e-3
    """Of Adam, at the start; it falls linearly to a tenth."""
    discount: float = 0.99
    """What a reward counts one choice later."""
    trace: float = 0.95
    """Lambda of the advantage estimate."""
    clip: float = 0.2
    """How far the chance of a choice may move in one update before the loss ignores it."""
    entropy: float = 0.003
    """Weight of the entropy bonus at the start; it falls linearly to zero."""
    value_weight: float = 0.5
    """Weight of the squared error of the value."""
    largest_gradient: float = 0.5
    """Gradients of a larger norm, the actor's and the critic's apart, are scaled down to it."""
    target_kl: float = 0.03
    """An update stops early once the policy has moved this far; 0: never."""
    seed: int = 0
    """Determines weights, choices, minibatches and the episodes."""
    device: str = "cpu"
    """Where the network computes: cpu or cuda."""

    def __post_init__(self) -> None:
        for name in ("steps", "rollout_steps", "epochs", "minibatches", "hidden"):
            if getattr(self, name) < 1:
                raise UsageError(f"ppo: {name} must be at least 1")
        if not 0.0 <= self.discount <= 1.0:
            raise UsageError("ppo: discount must be between 0 and 1")
        if not self.learning_rate > 0:
            raise UsageError(f"ppo: learning_rate {self.learning_rate} is not above 0")


@dataclass(frozen=True)
class ServersPPOProgress:
    """How training stands after an update."""

    steps: int
    episodes: int
    mean_return: float
    """Undiscounted, in the world's own terms, over the last 50 episodes; NaN before the first has ended."""
    loss: float
    entropy: float
    kl: float
    learner: ServersPPOLearner
    """`capture()` is what a later `resume` takes."""

    @property
    def network(self) -> ServerActorCritic:
        """The result so far."""
        return self.learner.network


@dataclass(frozen=True)
class _Played:
    """A rollout as tensors, T E choices one after the other."""

    rows: Tensor
    context: Tensor
    legal: Tensor
    action: Tensor
    log_chance: Tensor
    advantage: Tensor
    target: Tensor


def servers_ppo(
    config: ServersPPOConfig, env: ServersEnv, resume: LearnerState | None = None
) -> Iterator[ServersPPOProgress]:
    """Train, yielding after every update. `resume` continues a captured learner."""
    learner = ServersPPOLearner(config, env)
    if resume is not None:
        learner.restore(resume)
    while learner.steps < config.steps:
        yield learner.update()


class ServersPPOLearner:
    """Plays rollouts in a batch of worlds and learns from each of them once."""

    def __init__(self, config: ServersPPOConfig, env: ServersEnv) -> None:
        self._config, self._env = config, env
        self.steps = 0
        self._state = env.reset(config.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.network = ServerActorCritic(config.hidden).to(config.device)
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate, eps=1e-5)
        critics = ("critic.", "value.")
        named = list(self.network.named_parameters())
        self._halves = [
            [parameter for name, parameter in named if name.startswith(critics) == critic]
            for critic in (False, True)
        ]
        self._random = torch.Generator().manual_seed(config.seed)
        self._running, self._returns = np.zeros(env.lanes), list[float]()
        self._episodes = 0

    def update(self) -> ServersPPOProgress:
        """Play a rollout and learn from it."""
        config, done = self._config, self.steps / self._config.steps
        for group in self._optimiser.param_groups:
            group["lr"] = linear(config.learning_rate, config.learning_rate / 10, done)
        played = self._play()
        self.steps += config.rollout_steps * self._env.lanes
        figures = list(self._descend(played, linear(config.entropy, 0.0, done)))
        loss, entropy, kl = np.mean(figures, axis=0).tolist()
        returns = self._returns[-_RETURNS_REMEMBERED:]
        mean = float(np.mean(returns)) if returns else math.nan
        return ServersPPOProgress(self.steps, self._episodes, mean, loss, entropy, kl, self)

    @torch.no_grad()
    def _play(self) -> _Played:
        config, env = self._config, self._env
        seen: list[ServerRows] = []
        actions, logs, values = [], [], []
        rewards = np.zeros((config.rollout_steps, env.lanes))
        ends = np.zeros((config.rollout_steps, env.lanes), dtype=np.bool_)
        for t in range(config.rollout_steps):
            seen.append(rows_of(env, self._state))
            logits, value = self.network(*self._tensors(seen[-1]))
            all_logs = torch.log_softmax(logits, 1).cpu()
            action = torch.multinomial(all_logs.exp(), 1, generator=self._random)
            actions.append(action[:, 0])
            logs.append(all_logs.gather(1, action)[:, 0])
            values.append(value.cpu().double().numpy())
            self._state, rewards[t], ends[t] = env.step(action[:, 0].numpy())
            self._note(env.own_rewards, ends[t])
        after = self.network(*self._tensors(rows_of(env, self._state)))[1].cpu().double().numpy()
        advantage = advantages(rewards, ends, np.array([*values, after]), (config.discount, config.trace))
        target = torch.from_numpy(advantage + np.array(values)).float().flatten()
        scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        rows, context, legal = (
            torch.from_numpy(np.concatenate(arrays)) for arrays in zip(*seen, strict=True)
        )
        there = (
            rows,
            context,
            legal,
            torch.cat(actions),
            torch.cat(logs),
            torch.from_numpy(scaled).float().flatten(),
            target,
        )
        return _Played(*(tensor.to(config.device) for tensor in there))

    def _note(self, reward: F64, ended: Bool) -> None:
        self._running += reward
        self._returns = [*self._returns, *self._running[ended].tolist()][-_RETURNS_REMEMBERED:]
        self._episodes += int(ended.sum())
        self._running[ended] = 0.0

    def _tensors(self, rows: ServerRows) -> tuple[Tensor, Tensor, Tensor]:
        pairs, context, legal = (torch.from_numpy(array).to(self._config.device) for array in rows)
        return pairs, context, legal

    def _descend(self, played: _Played, entropy_weight: float) -> Iterator[tuple[float, float, float]]:
        """Epochs of minibatches; yields the loss, entropy and KL of each."""
        config = self._config
        for _ in range(config.epochs):
            order = torch.randperm(len(played.action), generator=self._random)
            for part in order.chunk(config.minibatches):
                loss, entropy, kl = self._step(played, part.to(config.device), entropy_weight)
                yield loss, entropy, kl
                if 0.0 < config.target_kl < kl:
                    return

    def _step(self, played: _Played, part: Tensor, entropy_weight: float) -> tuple[float, float, float]:
        config = self._config
        legal = played.legal[part]
        logits, value = self.network(played.rows[part], played.context[part], legal)
        logs = torch.log_softmax(logits, 1)
        entropy = -(logs.exp() * logs.masked_fill(~legal, 0.0)).sum(1).mean()
        moved = logs.gather(1, played.action[part][:, None])[:, 0] - played.log_chance[part]
        ratio, advantage = moved.exp(), played.advantage[part]
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - config.clip, 1 + config.clip) * advantage)
        error = (value - played.target[part]).square().mean()
        loss = -gain.mean() + config.value_weight * error - entropy_weight * entropy
        if not math.isfinite(loss.item()):
            raise WorkError(
                f"ppo: the loss is {loss.item()} after {self.steps} choices; "
                "a lower learning rate or smaller rewards may help"
            )
        self._optimiser.zero_grad()
        loss.backward()
        # Apart: large errors of the value, as there are at first, would leave the actor next to nothing.
        for half in self._halves:
            nn.utils.clip_grad_norm_(half, config.largest_gradient)
        self._optimiser.step()
        return loss.item(), entropy.item(), (ratio - 1.0 - moved).mean().item()

    def capture(self) -> LearnerState:
        """The whole learner, copied; take it between two updates."""
        arrays = {
            **under("network", weights_of(self.network)),
            **under("adam", moments_of(self._optimiser)),
            **under("lanes", self._env.capture()),
            "running": self._running.copy(),
            "random": self._random.get_state().numpy().copy(),
        }
        values = {"steps": self.steps, "episodes": self._episodes, "returns": list(self._returns)}
        return LearnerState(arrays, values)

    def restore(self, state: LearnerState) -> None:
        """Become the captured learner."""
        set_weights(self.network, part_of(state.arrays, "network"))
        set_moments(self._optimiser, part_of(state.arrays, "adam"))
        self._state = self._env.restore(part_of(state.arrays, "lanes"))
        self._running = state.arrays["running"].copy()
        self._random.set_state(torch.from_numpy(state.arrays["random"].copy()))
        self.steps, self._episodes = state.values["steps"], state.values["episodes"]
        self._returns = list(state.values["returns"])


def advantages(rewards: F64, ends: Bool, values: F64, weights: tuple[float, float]) -> F64:
    """Generalised advantages [T, E] of rewards and ends [T, E] and values [T + 1, E]; discount and trace."""
    discount, trace = weights
    found, running = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        on = ~ends[t]
        surprise = rewards[t] + discount * on * values[t + 1] - values[t]
        running = surprise + discount * trace * on * running
        found[t] = running
    return found
