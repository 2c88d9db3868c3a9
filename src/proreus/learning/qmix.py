"""QMIX over rows: agents that bid, a monotonic mixer of their values, target networks, from top to bottom.

    for update in qmix(QMIXConfig(steps=50_000), lanes):
        print(update.figures["steps"], update.figures["return"])

Every two rows belong to an agent (a server with two NUMA nodes), all with the same weights. One of them takes
the request, the others pass; the team's value is a monotonic mix of what that is worth to each (Rashid et
al., 2018), so training the team's value trains the bids, and taking the highest bid is taking the best joint
action. Targets are double: the learning agents name the winner, the target networks value it. A captured
learner, memory and lanes included, goes on bit for bit. E lanes, T steps of a chunk, B a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from proreus.contract.lanes import Arrays, Choices, Lanes
from proreus.kernels.arrays import F32, I64, Bool
from proreus.learning.learner_state import (
    first_network,
    moments_of,
    part_of,
    set_moments,
    set_weights,
    under,
    values_of,
    weights_of,
    with_values,
)
from proreus.learning.optimiser import linear, linear_decay
from proreus.learning.returns import Returns, n_step_returns
from proreus.learning.step import StepRate, Update
from proreus.model.errors import UsageError, WorkError
from proreus.policies.networks.row_networks import QMIXNetwork, best_choice
from proreus.policies.networks.torch_threads import few_torch_threads

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
    max_gradient: float = 10.0
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


def qmix(
    config: QMIXConfig, lanes: Lanes, saved: Arrays | None = None, initial: Arrays | None = None
) -> Iterator[Update]:
    """Train, yielding after every chunk. `saved`: the state to go on from; `initial`: weights to begin with,
    else they are drawn."""
    learner = QMIXLearner(config, lanes)
    if initial is not None:
        learner.begin_with(initial)
    if saved is not None:
        learner.restore(saved)
    each, pace = config.chunk * len(lanes), StepRate(learner.steps)
    while learner.steps < config.steps:
        figures = learner.advance()
        yield Update(
            number=-(-learner.steps // each),
            total=-(-config.steps // each),
            figures={
                "steps": float(learner.steps),
                "steps_per_second": pace.rate(learner.steps),
                **figures,
            },
            tensors=partial(weights_of, learner.network),
            state=learner.capture,
        )


def explore(greedy: I64, legal: Bool, epsilon: float, random: np.random.Generator) -> I64:
    """int64[E]: each greedy choice, replaced by a legal one at random with chance epsilon."""
    chosen = greedy.copy()
    for e in np.flatnonzero(random.random(len(greedy)) < epsilon):
        options = np.flatnonzero(legal[e])
        if options.size:
            chosen[e] = random.choice(options)
    return chosen


class QMIXLearner:
    """Plays in lanes and learns from what it remembers."""

    def __init__(self, config: QMIXConfig, lanes: Lanes) -> None:
        self.config = config
        self.steps = 0
        self._lanes = lanes
        # What is explored and what is replayed are drawn apart.
        self._random, self._exploration = (np.random.default_rng(config.seed) for _ in range(2))
        self._seen = lanes.reset(config.seed)
        sizes = (self._seen.rows.shape[2], self._seen.context.shape[1])
        self.network = first_network(QMIXNetwork, config, sizes).to(config.device)
        self._target = first_network(QMIXNetwork, config, sizes).to(config.device)
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self._memory = TransitionMemory(config.capacity, self._seen)
        self._returns = Returns(len(lanes), _RETURNS_REMEMBERED)

    def begin_with(self, weights: Arrays) -> None:
        """Take these weights before anything is learned."""
        set_weights(self.network, weights)
        set_weights(self._target, weights)

    @few_torch_threads()
    def advance(self) -> dict[str, float]:
        """Play a chunk, remember it, take a few steps of the optimiser; returns in the world's own terms.

        `value`, the mean team value of the replayed choices, should stay in the range of the returns.
        """
        config, done = self.config, self.steps / self.config.steps
        epsilon = linear_decay(done, config.epsilon_points, config.epsilon_values)
        for group in self._optimiser.param_groups:
            group["lr"] = linear(config.learning_rate, config.learning_rate / 10, done)
        self._memory.add(self._play(epsilon))
        self.steps += self.config.chunk * len(self._lanes)
        figures = np.full((1, 2), math.nan)
        if len(self._memory) >= self.config.batch_size:
            figures = np.array([self._update() for _ in range(self.config.updates)])
        return {
            "return": self._returns.mean,
            "loss": float(figures[:, 0].mean()),
            "value": float(figures[:, 1].mean()),
            "epsilon": epsilon,
        }

    def _play(self, epsilon: float) -> Transitions:
        """T choices of every lane, as n-step transitions [T E]."""
        config = self.config
        seen, actions, rewards, ends = [self._seen], [], [], []
        for _ in range(config.chunk):
            actions.append(self._choose(self._seen, epsilon))
            steps = self._lanes.step(actions[-1])
            self._seen = steps.choices
            self._returns.add(steps.own, steps.ended)
            seen.append(self._seen)
            rewards.append(steps.rewards.copy())
            ends.append(steps.ended.copy())
        total, weight, ahead = n_step_returns(
            np.array(rewards), np.array(ends), config.n_step, config.discount
        )
        lanes = np.arange(len(self._lanes))
        stacked = [np.stack(arrays) for arrays in zip(*seen, strict=True)]  # each [T + 1, E, ..]
        return Transitions(
            Choices(*(array[:-1].reshape(-1, *array.shape[2:]) for array in stacked)),
            np.concatenate(actions),
            total.astype(np.float32).ravel(),
            weight.astype(np.float32).ravel(),
            Choices(*(array[ahead, lanes].reshape(-1, *array.shape[2:]) for array in stacked)),
        )

    def _choose(self, choices: Choices, epsilon: float) -> I64:
        """int64[E]: the highest bid, or with chance epsilon a legal choice at random."""
        rows, context, legal = self._tensors(choices)
        with torch.inference_mode():
            greedy: I64 = best_choice(self.network.agents.bids(rows, context), legal).cpu().numpy()
        return explore(greedy, choices.legal, epsilon, self._exploration)

    def _tensors(self, choices: Choices) -> tuple[Tensor, Tensor, Tensor]:
        rows, context, legal = (torch.from_numpy(array).to(self.config.device) for array in choices)
        return rows, context, legal

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
        nn.utils.clip_grad_norm_(self.network.parameters(), config.max_gradient)
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

    def capture(self) -> Arrays:
        """The whole learner, copied; take it between two chunks."""
        arrays = {
            **under("network", weights_of(self.network)),
            **under("target", weights_of(self._target)),
            **under("adam", moments_of(self._optimiser)),
            **under("memory", self._memory.capture()),
            **under("lanes", self._lanes.capture()),
            "running": self._returns.running.copy(),
        }
        values = {
            "steps": self.steps,
            "episodes": self._returns.episodes,
            "returns": self._returns.latest,
            "random": self._random.bit_generator.state,
            "exploration": self._exploration.bit_generator.state,
        }
        return with_values(arrays, values)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the captured learner."""
        values = values_of(state)
        set_weights(self.network, part_of(state, "network"))
        set_weights(self._target, part_of(state, "target"))
        set_moments(self._optimiser, part_of(state, "adam"))
        self._memory.restore(part_of(state, "memory"))
        self._seen = self._lanes.restore(part_of(state, "lanes"))
        self._returns.running[:] = state["running"]
        self.steps, self._returns.episodes = values["steps"], values["episodes"]
        self._returns.latest = list(values["returns"])
        self._random.bit_generator.state = values["random"]
        self._exploration.bit_generator.state = values["exploration"]


class Transitions(NamedTuple):
    """Choices and what came n steps later; K of them."""

    seen: Choices
    action: I64  # [K]
    reward: F32  # [K] discounted sum over the steps
    weight: F32  # [K] what the value of `following` counts; 0 where the episode ended before
    following: Choices


class TransitionMemory:
    """The latest transitions, drawn evenly."""

    def __init__(self, capacity: int, like: Choices) -> None:
        def room() -> Choices:
            return Choices(*(np.zeros((capacity, *array.shape[1:]), array.dtype) for array in like))

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

    def capture(self) -> Arrays:
        """What is remembered, copied."""
        arrays = {name: array[: self._count].copy() for name, array in self._named().items()}
        return {**arrays, "next": np.array([self._next])}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Remember what was captured."""
        self._count, self._next = len(saved["action"]), int(saved["next"][0])
        for name, array in self._named().items():
            array[: self._count] = saved[name]

    def _named(self) -> Arrays:
        kept = self._kept
        return {
            **{f"seen.{name}": array for name, array in kept.seen._asdict().items()},
            **{f"following.{name}": array for name, array in kept.following._asdict().items()},
            **{"action": kept.action, "reward": kept.reward, "weight": kept.weight},
        }
