"""QMIX over servers: agents that bid, a monotonic mixer of their values, target networks, from top to bottom.

    for progress in qmix(QMIXConfig(steps=50_000), env):
        print(progress.steps, progress.mean_return)
    mac = progress.learner.mac            # decides for any number of servers

Every server is an agent with the same weights. One of them takes the request, the others pass; the team's
value is a monotonic mix of what that is worth to each (Rashid et al., 2018), so training the team's value
trains the bids, and taking the highest bid is taking the best joint action. Targets are double: the learning
agents name the winner, the target networks value it. A captured learner, memory and lanes included, goes on
bit for bit. E lanes, T steps of a chunk, B a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proreus.kernels.arrays import F64, I64, Bool
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
from proreus.learning.schedules import linear_decay
from proreus.model.errors import UsageError, WorkError
from proreus.policies.networks.rows import ServerQMIX, best_choice
from proreus.worlds.vms.encoding.rows import ServerRows
from proreus.worlds.vms.training.mac import MACArguments, VectorMAC
from proreus.worlds.vms.training.servers import ServersEnv, rows_of

_RETURNS_REMEMBERED = 50


@dataclass(frozen=True)
class QMIXConfig:
    """Everything a training run depends on, beside the batch of worlds."""

    steps: int = 800_000
    """Choices to learn from, over all lanes; rounded up to whole chunks."""
    chunk: int = 64
    """Choices of each lane between two rounds of updates."""
    updates: int = 32
    """Steps of the optimiser per round."""
    batch_size: int = 256
    """Transitions per step of the optimiser."""
    capacity: int = 100_000
    """Transitions that are remembered."""
    hidden: int = 64
    """Width of the networks' layers."""
    learning_rate: float = 1e-3
    """Of Adam, at the start; it falls linearly to a tenth."""
    discount: float = 0.99
    """What a reward counts one choice later."""
    n_step: int = 32
    """Rewards that are summed before the target networks' estimate takes over; at most `chunk`."""
    follow: float = 0.02
    """How far the target networks move towards the learning ones in each step of the optimiser."""
    epsilon_points: tuple[float, ...] = (0.0, 0.25, 0.9, 1.0)
    """Shares of the training at which the chance of a random choice is given."""
    epsilon_values: tuple[float, ...] = (0.9, 0.5, 0.2, 0.2)
    """The chance of a random choice at those points, linear in between."""
    largest_gradient: float = 10.0
    """Gradients of a larger norm are scaled down to it."""
    seed: int = 0
    """Determines weights, exploration, sampling and the episodes."""
    device: str = "cpu"
    """Where the networks compute: cpu or cuda."""

    def __post_init__(self) -> None:
        for name in ("steps", "chunk", "updates", "batch_size", "n_step", "hidden"):
            if getattr(self, name) < 1:
                raise UsageError(f"qmix: {name} must be at least 1")
        if self.n_step > self.chunk:
            raise UsageError(f"qmix: n_step {self.n_step} is above the chunk of {self.chunk}")
        if self.capacity < self.batch_size:
            raise UsageError(f"qmix: capacity {self.capacity} is below the batch size {self.batch_size}")
        if not 0.0 <= self.discount <= 1.0:
            raise UsageError("qmix: discount must be between 0 and 1")
        if not self.learning_rate > 0:
            raise UsageError(f"qmix: learning_rate {self.learning_rate} is not above 0")
        try:
            linear_decay(0.0, self.epsilon_points, self.epsilon_values)
        except ValueError as error:
            raise UsageError(f"qmix: epsilon_points and epsilon_values: {error}") from error


@dataclass(frozen=True)
class QMIXProgress:
    """How training stands after a chunk."""

    steps: int
    episodes: int
    mean_return: float
    """Undiscounted, in the world's own terms, over the last 50 episodes; NaN before the first has ended."""
    loss: float
    mean_value: float
    """Mean team value of the replayed choices: it should stay in the range of the returns."""
    epsilon: float
    learner: QMIXLearner
    """Its `network` is the result, `capture()` what a later `resume` takes."""


def qmix(config: QMIXConfig, env: ServersEnv, resume: LearnerState | None = None) -> Iterator[QMIXProgress]:
    """Train, yielding after every chunk. `resume` continues a captured learner."""
    learner = QMIXLearner(config, env)
    if resume is not None:
        learner.restore(resume)
    while learner.steps < config.steps:
        yield learner.advance()


class QMIXLearner:
    """Plays in a batch of worlds and learns from what it remembers."""

    def __init__(self, config: QMIXConfig, env: ServersEnv) -> None:
        self.config = config
        self.steps = 0
        self._env = env
        self._random = np.random.default_rng(config.seed)
        self._state = env.reset(config.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.network = ServerQMIX(config.hidden).to(config.device)
            self._target = ServerQMIX(config.hidden).to(config.device)
        self._target.load_state_dict(self.network.state_dict())
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        servers = self._state.obs.shape[1]
        cpu, mem = env.size
        self.mac = VectorMAC(
            MACArguments(servers, cpu, mem, config.hidden, config.seed, config.device), self.network.agents
        )
        self._memory = Memory(config.capacity, rows_of(env, self._state))
        self._returns: list[float] = []
        self._running = np.zeros(env.lanes)
        self._episodes = 0

    def advance(self) -> QMIXProgress:
        """Play a chunk, remember it, take a few steps of the optimiser."""
        config, done = self.config, self.steps / self.config.steps
        epsilon = linear_decay(done, config.epsilon_points, config.epsilon_values)
        for group in self._optimiser.param_groups:
            group["lr"] = linear(config.learning_rate, config.learning_rate / 10, done)
        self._memory.add(self._play(epsilon))
        self.steps += self.config.chunk * self._env.lanes
        figures = np.full((1, 2), math.nan)
        if len(self._memory) >= self.config.batch_size:
            figures = np.array([self._update() for _ in range(self.config.updates)])
        returns = self._returns[-_RETURNS_REMEMBERED:]
        return QMIXProgress(
            steps=self.steps,
            episodes=self._episodes,
            mean_return=float(np.mean(returns)) if returns else math.nan,
            loss=float(figures[:, 0].mean()),
            mean_value=float(figures[:, 1].mean()),
            epsilon=epsilon,
            learner=self,
        )

    def _play(self, epsilon: float) -> Transitions:
        """T choices of every lane, as n-step transitions [T E]."""
        config, env = self.config, self._env
        seen, actions, rewards, ends = [rows_of(env, self._state)], [], [], []
        for _ in range(config.chunk):
            chosen = self.mac.select_actions(self._state._asdict(), epsilon)
            self._state, reward, ended = env.step(chosen)
            self._note(env.own_rewards, ended)
            seen.append(rows_of(env, self._state))
            actions.append(chosen)
            rewards.append(reward.copy())
            ends.append(ended.copy())
        total, weight, ahead = n_step_returns(
            np.array(rewards), np.array(ends), config.n_step, config.discount
        )
        following = [
            np.stack([getattr(seen[t], name) for t in range(len(seen))]) for name in ServerRows._fields
        ]
        lanes = np.arange(env.lanes)
        return Transitions(
            ServerRows(*(array[:-1].reshape(-1, *array.shape[2:]) for array in following)),
            np.concatenate(actions),
            total.astype(np.float32).ravel(),
            weight.astype(np.float32).ravel(),
            ServerRows(*(array[ahead, lanes].reshape(-1, *array.shape[2:]) for array in following)),
        )

    def _note(self, reward: F64, ended: Bool) -> None:
        self._running += reward
        self._returns = [*self._returns, *self._running[ended].tolist()][-_RETURNS_REMEMBERED:]
        self._episodes += int(ended.sum())
        self._running[ended] = 0.0

    def _tensors(self, rows: ServerRows) -> tuple[Tensor, Tensor, Tensor]:
        pairs, context, legal = (torch.from_numpy(array).to(self.config.device) for array in rows)
        return pairs, context, legal

    def _update(self) -> tuple[float, float]:
        """One step of the optimiser on replayed choices; (loss, mean team value)."""
        config = self.config
        batch = self._memory.sample(config.batch_size, self._random)
        rows, context, _ = self._tensors(batch.seen)
        action = torch.from_numpy(batch.action).to(config.device)[:, None]
        value = self.network(rows, context)[0].gather(1, action)[:, 0]
        loss = nn.functional.huber_loss(value, self._targets(batch))
        if not math.isfinite(loss.item()):
            raise WorkError(
                f"qmix: the loss is {loss.item()} after {self.steps} choices; "
                "a lower learning rate or smaller rewards may help"
            )
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        nn.utils.clip_grad_norm_(self.network.parameters(), config.largest_gradient)
        self._optimiser.step()
        with torch.no_grad():
            for there, here in zip(self._target.parameters(), self.network.parameters(), strict=True):
                there.lerp_(here, config.follow)
        return loss.item(), value.mean().item()

    @torch.no_grad()
    def _targets(self, batch: Transitions) -> Tensor:
        """The learning agents name the winner of the later state, the target networks value it."""
        rows, context, legal = self._tensors(batch.following)
        winner = best_choice(self.network.agents.bids(rows, context), legal)[:, None]
        onward = self._target(rows, context)[0].gather(1, winner)[:, 0]
        reward = torch.from_numpy(batch.reward).to(self.config.device)
        targets: Tensor = reward + torch.from_numpy(batch.weight).to(self.config.device) * onward
        return targets

    def capture(self) -> LearnerState:
        """The whole learner, copied; take it between two chunks."""
        arrays = {
            **under("network", weights_of(self.network)),
            **under("target", weights_of(self._target)),
            **under("adam", moments_of(self._optimiser)),
            **under("memory", self._memory.capture()),
            **under("lanes", self._env.capture()),
            "running": self._running.copy(),
        }
        return LearnerState(
            arrays,
            {
                "steps": self.steps,
                "episodes": self._episodes,
                "returns": list(self._returns),
                "random": self._random.bit_generator.state,
                "exploration": self.mac.random.bit_generator.state,
            },
        )

    def restore(self, state: LearnerState) -> None:
        """Become the captured learner."""
        set_weights(self.network, part_of(state.arrays, "network"))
        set_weights(self._target, part_of(state.arrays, "target"))
        set_moments(self._optimiser, part_of(state.arrays, "adam"))
        self._memory.restore(part_of(state.arrays, "memory"))
        self._state = self._env.restore(part_of(state.arrays, "lanes"))
        self._running = state.arrays["running"].copy()
        values = state.values
        self.steps, self._episodes = values["steps"], values["episodes"]
        self._returns = list(values["returns"])
        self._random.bit_generator.state = values["random"]
        self.mac.random.bit_generator.state = values["exploration"]


class Transitions(NamedTuple):
    """Choices and what came n steps later; K of them."""

    seen: ServerRows
    action: I64  # [K]
    reward: NDArray[np.float32]  # [K] discounted sum over the steps
    weight: NDArray[np.float32]  # [K] what the value of `following` counts; 0 where the episode ended before
    following: ServerRows


def n_step_returns(rewards: F64, ends: Bool, steps: int, discount: float) -> tuple[F64, F64, I64]:
    """(sums, weights of what follows, index of what follows) of each choice, all [T, E].

    A sum stops at the end of its episode, and at the end of the chunk: the last choices look less far ahead.
    """
    length, lanes = rewards.shape
    sums, weights = np.zeros((length, lanes)), np.ones((length, lanes))
    ahead = np.zeros((length, lanes), dtype=np.int64)
    for t in range(length):
        for k in range(t, min(t + steps, length)):
            sums[t] += weights[t] * rewards[k]
            weights[t] *= discount * ~ends[k]
        ahead[t] = min(t + steps, length)
    return sums, weights, ahead


class Memory:
    """The latest transitions, drawn evenly."""

    def __init__(self, capacity: int, like: ServerRows) -> None:
        def room() -> ServerRows:
            return ServerRows(*(np.zeros((capacity, *array.shape[1:]), array.dtype) for array in like))

        self._kept = Transitions(
            room(),
            np.zeros(capacity, dtype=np.int64),
            np.zeros(capacity, dtype=np.float32),
            np.zeros(capacity, dtype=np.float32),
            room(),
        )
        self._capacity, self._count, self._next = capacity, 0, 0

    def __len__(self) -> int:
        return self._count

    def add(self, made: Transitions) -> None:
        """Remember these; the oldest are forgotten."""
        number = len(made.action)
        if number > self._capacity:
            raise UsageError(f"qmix: capacity {self._capacity} is below one chunk of {number} choices")
        places = (self._next + np.arange(number)) % self._capacity
        for kept, new in ((self._kept.seen, made.seen), (self._kept.following, made.following)):
            for there, here in zip(kept, new, strict=True):
                there[places] = here
        self._kept.action[places] = made.action
        self._kept.reward[places] = made.reward
        self._kept.weight[places] = made.weight
        self._next = int((self._next + number) % self._capacity)
        self._count = min(self._count + number, self._capacity)

    def sample(self, number: int, random: np.random.Generator) -> Transitions:
        """So many, each as likely as any other."""
        places = random.integers(self._count, size=number)
        return Transitions(
            self._kept.seen.at(places),
            self._kept.action[places],
            self._kept.reward[places],
            self._kept.weight[places],
            self._kept.following.at(places),
        )

    def capture(self) -> dict[str, NDArray[Any]]:
        """What is remembered, copied."""
        arrays = {name: array[: self._count].copy() for name, array in self._named().items()}
        return {**arrays, "next": np.array([self._next])}

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Remember what was captured."""
        self._count, self._next = len(saved["action"]), int(saved["next"][0])
        for name, array in self._named().items():
            array[: self._count] = saved[name]

    def _named(self) -> dict[str, NDArray[Any]]:
        kept = self._kept
        return {
            **{f"seen.{name}": array for name, array in kept.seen._asdict().items()},
            **{f"following.{name}": array for name, array in kept.following._asdict().items()},
            **{"action": kept.action, "reward": kept.reward, "weight": kept.weight},
        }
