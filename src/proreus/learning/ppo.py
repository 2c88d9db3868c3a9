"""PPO in torch over rows, from top to bottom.

    for update in ppo(PPOConfig(steps=100_000), lanes):
        print(update.figures["steps"], update.figures["return"])

Masked choices, generalised advantages, clipped ratios, early stop by KL. A captured learner, lanes included,
goes on bit for bit. E lanes, T steps of a rollout, B a minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from proreus.contract.lanes import Arrays, Choices, Lanes
from proreus.kernels.arrays import F64, Bool
from proreus.learning.clipped_loss import Taken, clipped_terms
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
from proreus.learning.optimiser import linear
from proreus.learning.returns import Returns, advantages
from proreus.learning.step import StepRate, Update
from proreus.model.errors import UsageError, WorkError
from proreus.policies.networks.row_networks import ActorCritic
from proreus.policies.networks.torch_threads import few_torch_threads

_RETURNS_REMEMBERED = 50


@dataclass(frozen=True)
class PPOConfig:
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
    gae_lambda: float = 0.95
    """Lambda of the advantage estimate."""
    clip: float = 0.2
    """How far the chance of a choice may move in one update before the loss ignores it."""
    entropy: float = 0.003
    """Weight of the entropy bonus at the start; it falls linearly to zero."""
    value_weight: float = 0.5
    """Weight of the squared error of the value."""
    max_gradient: float = 0.5
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


@dataclass(frozen=True, eq=False)
class Rollout:
    """What was lived through, T steps of E lanes, before anything is learned from it."""

    seen: Sequence[Choices]
    """[T] of E lanes each."""
    actions: Sequence[Tensor]
    """[T] of [E]."""
    logs: Sequence[Tensor]
    """[T] of [E]: logarithms of the chances that the actions had."""
    values: Sequence[F64]
    """[T + 1] of [E]: what the critic thought, the last of what comes after it all."""
    rewards: F64
    """[T, E]"""
    ends: Bool
    """[T, E]"""


@dataclass(frozen=True)
class Played:
    """A rollout as tensors, T E choices one after the other."""

    rows: Tensor
    context: Tensor
    legal: Tensor
    action: Tensor
    log_chance: Tensor
    advantage: Tensor
    target: Tensor


def ppo(
    config: PPOConfig, lanes: Lanes, saved: Arrays | None = None, initial: Arrays | None = None
) -> Iterator[Update]:
    """Train, yielding after every update. `saved`: the state to go on from; `initial`: weights to begin with,
    else they are drawn."""
    yield from updates_of(PPOLearner(config, lanes, initial), config, len(lanes), saved)


def updates_of(
    learner: PPOLearner, config: PPOConfig, lanes: int, saved: Arrays | None = None
) -> Iterator[Update]:
    """Update after update of a learner over so many lanes."""
    if saved is not None:
        learner.restore(saved)
    each, pace = config.rollout_steps * lanes, StepRate(learner.steps)
    while learner.steps < config.steps:
        figures = learner.update()
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


class PPOLearner:
    """Plays rollouts in lanes and learns from each of them once."""

    def __init__(self, config: PPOConfig, lanes: Lanes, initial: Arrays | None = None) -> None:
        """`initial`: the first weights; None: the seed draws them."""
        self._config, self._lanes = config, lanes
        self.steps = 0
        self._seen = lanes.reset(config.seed)
        sizes = (self._seen.rows.shape[2], self._seen.context.shape[1])
        self.network = first_network(ActorCritic, config, sizes).to(config.device)
        if initial is not None:
            set_weights(self.network, initial)
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate, eps=1e-5)
        critics = ("critic.", "value.")
        named = list(self.network.named_parameters())
        self._halves = [
            [parameter for name, parameter in named if name.startswith(critics) == critic]
            for critic in (False, True)
        ]
        self._random = torch.Generator().manual_seed(config.seed)
        self._returns = Returns(len(lanes), _RETURNS_REMEMBERED)

    @few_torch_threads()
    def update(self) -> dict[str, float]:
        """Play a rollout and learn from it; returns in the world's own terms."""
        return self.learn(self.play())

    @few_torch_threads()
    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Learn from a rollout, once."""
        return self.learn_from(self._tensors_of(rollout), rollout.rewards.size)

    def learn_from(self, played: Played, steps: int) -> dict[str, float]:
        """Learn from choices where the network is, once; steps: how many they count for."""
        config, done = self._config, min(self.steps / self._config.steps, 1.0)
        for group in self._optimiser.param_groups:
            group["lr"] = linear(config.learning_rate, config.learning_rate / 10, done)
        self.steps += steps
        figures = list(self._descend(played, linear(config.entropy, 0.0, done)))
        loss, entropy, kl = np.mean(figures, axis=0).tolist()
        return {"return": self._returns.mean, "loss": loss, "entropy": entropy, "kl": kl}

    @torch.no_grad()
    def choose(self, seen: Choices) -> tuple[Tensor, Tensor, F64]:
        """Draw an action in every lane: (actions, logarithms of their chances, values), each [E]."""
        logits, value = self.network(*self._tensors(seen))
        all_logs = torch.log_softmax(logits, 1).cpu()
        action = torch.multinomial(all_logs.exp(), 1, generator=self._random)
        return action[:, 0], all_logs.gather(1, action)[:, 0], value.cpu().double().numpy()

    @torch.no_grad()
    def play(self) -> Rollout:
        """One rollout of every lane."""
        config, count = self._config, len(self._lanes)
        seen: list[Choices] = []
        actions, logs, values = [], [], []
        rewards = np.zeros((config.rollout_steps, count))
        ends = np.zeros((config.rollout_steps, count), dtype=np.bool_)
        for t in range(config.rollout_steps):
            seen.append(self._seen)
            action, log, value = self.choose(self._seen)
            actions.append(action)
            logs.append(log)
            values.append(value)
            steps = self._lanes.step(action.numpy())
            self._seen, rewards[t], ends[t] = steps.choices, steps.rewards, steps.ended
            self._returns.add(steps.own, steps.ended)
        values.append(self.network(*self._tensors(self._seen))[1].cpu().double().numpy())
        return Rollout(seen, actions, logs, values, rewards, ends)

    def _tensors_of(self, rollout: Rollout) -> Played:
        config = self._config
        advantage = advantages(
            rollout.rewards, rollout.ends, np.array(rollout.values), (config.discount, config.gae_lambda)
        )
        target = torch.from_numpy(advantage + np.array(rollout.values[:-1])).float().flatten()
        scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        rows, context, legal = (
            torch.from_numpy(np.concatenate(arrays)) for arrays in zip(*rollout.seen, strict=True)
        )
        there = (
            rows,
            context,
            legal,
            torch.cat(list(rollout.actions)),
            torch.cat(list(rollout.logs)),
            torch.from_numpy(scaled).float().flatten(),
            target,
        )
        return Played(*(tensor.to(config.device) for tensor in there))

    def _tensors(self, choices: Choices) -> tuple[Tensor, Tensor, Tensor]:
        rows, context, legal = (torch.from_numpy(array).to(self._config.device) for array in choices)
        return rows, context, legal

    def _descend(self, played: Played, entropy_weight: float) -> Iterator[tuple[float, float, float]]:
        """Epochs of minibatches; yields the loss, entropy and KL of each."""
        config = self._config
        for _ in range(config.epochs):
            order = torch.randperm(len(played.action), generator=self._random)
            for part in order.chunk(config.minibatches):
                loss, entropy, kl = self._step(played, part.to(config.device), entropy_weight)
                yield loss, entropy, kl
                if 0.0 < config.target_kl < kl:
                    return

    def _step(self, played: Played, part: Tensor, entropy_weight: float) -> tuple[float, float, float]:
        config = self._config
        legal = played.legal[part]
        logits, value = self.network(played.rows[part], played.context[part], legal)
        taken = Taken(
            played.action[part], played.log_chance[part], played.advantage[part], played.target[part]
        )
        terms = clipped_terms(logits, legal, value, taken, config.clip)
        entropy = terms.entropy.mean()
        loss = terms.policy.mean() + config.value_weight * terms.error.mean() - entropy_weight * entropy
        if not math.isfinite(loss.item()):
            raise WorkError(
                f"ppo: the loss is {loss.item()} after {self.steps} choices; "
                "a lower learning rate or smaller rewards may help"
            )
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        # Apart: large errors of the value, as there are at first, would leave the actor next to nothing.
        for half in self._halves:
            nn.utils.clip_grad_norm_(half, config.max_gradient)
        self._optimiser.step()
        return loss.item(), entropy.item(), terms.kl.mean().item()

    def capture(self) -> Arrays:
        """The whole learner, copied; take it between two updates."""
        arrays = {
            **under("network", weights_of(self.network)),
            **under("adam", moments_of(self._optimiser)),
            **under("lanes", self._lanes.capture()),
            "running": self._returns.running.copy(),
            "random": self._random.get_state().numpy().copy(),
        }
        returns = {"episodes": self._returns.episodes, "returns": self._returns.latest}
        return with_values(arrays, {"steps": self.steps, **returns})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the captured learner."""
        values = values_of(state)
        set_weights(self.network, part_of(state, "network"))
        set_moments(self._optimiser, part_of(state, "adam"))
        self._take_up_lanes(part_of(state, "lanes"))
        self._returns.running[:] = state["running"]
        self._random.set_state(torch.from_numpy(state["random"].copy()))
        self.steps, self._returns.episodes = values["steps"], values["episodes"]
        self._returns.latest = list(values["returns"])

    def _take_up_lanes(self, saved: Arrays) -> None:
        self._seen = self._lanes.restore(saved)
