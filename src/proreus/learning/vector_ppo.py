"""PPO from recorded decisions over document 000's vector: the update of the service and of `train vector`.

The decisions come with the chance they had when they were made, whichever version made them, and the ratios
are taken against that. Advantages are estimated over the recorded order, up to the ends of episodes.
Decisions that were taken greedily, or whose chance nobody recorded, say nothing about how often to take
them: they train the value alone, and are counted. The update stops, its last step shortened, where the
policy would move further from the one it started with than `target_kl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proreus.cluster.columns import F64
from proreus.model.errors import UsageError, WorkError
from proreus.policies.experience import Experience
from proreus.policies.vector import Candidate, Weights
from proreus.policies.vector_networks import network_of

RETURNS = "returns"
"""A tensor beside the weights: mean, spread and number of the returns that the value is measured in."""

_MOST_HALVINGS = 8


@dataclass(frozen=True)
class VectorPPOSettings:
    """What an update depends on, besides the decisions."""

    epochs: int = 4
    """How often it goes through the decisions."""
    minibatch: int = 256
    """Decisions per step of the optimiser."""
    learning_rate: float = 3e-4
    """Of Adam."""
    discount: float = 0.99
    """Worth of a reward one decision later."""
    trace: float = 0.95
    """Lambda of the advantage estimate: 0 trusts the value, 1 trusts what was recorded."""
    clip: float = 0.2
    """How far the chance of an action may move from the recorded one before the loss ignores it."""
    entropy: float = 0.003
    """Weight of the entropy bonus, per logarithm of the number of actions."""
    value_weight: float = 0.5
    """Weight of the squared error of the value."""
    longest_slope: float = 0.5
    """Gradients longer than this are shortened to it."""
    target_kl: float = 0.02
    """How far the policy may move in one update: mean KL divergence from the one before; 0: any distance."""
    memory_rate: float = 1.0
    """The memory of nodes learns so many times as fast as the weights."""
    seed: int = 0
    """Of the order of minibatches."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.minibatch < 1:
            raise UsageError("epochs and minibatch must be at least 1")
        if not (0.0 <= self.discount <= 1.0 and 0.0 <= self.trace <= 1.0):
            raise UsageError("discount and trace must be between 0 and 1")
        if self.learning_rate <= 0.0 or self.clip <= 0.0 or self.longest_slope <= 0.0:
            raise UsageError("learning_rate, clip and longest_slope must be above 0")


def settings_of(entries: Mapping[str, Any]) -> VectorPPOSettings:
    """Settings by name; a UsageError names one that does not exist."""
    known = {item.name for item in fields(VectorPPOSettings)}
    for name in entries:
        if name not in known:
            raise UsageError(f"PPO has no setting {name!r} (known: {', '.join(sorted(known))})")
    return VectorPPOSettings(**entries)


def improve(parameters: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]) -> Candidate:
    """One update from recorded stretches of decisions; what the service's learner is handed."""
    learner = VectorPPO(parameters, settings_of(settings))
    figures = learner.update(experiences)
    return Candidate(learner.weights(), figures)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Decisions over vectors of one length, as tensors."""

    states: Tensor
    actions_dim: int
    actions: Tensor
    behaviour: Tensor
    advantages: Tensor
    targets: Tensor
    teaches: Tensor
    """[B]: 1 where the decision counts for the policy."""
    masks: Tensor | None
    before: Tensor
    """[B, A]: log-probabilities before the update."""

    def some(self, rows: Tensor) -> _Batch:
        """Those rows."""
        masks = None if self.masks is None else self.masks[rows]
        return _Batch(
            self.states[rows],
            self.actions_dim,
            self.actions[rows],
            self.behaviour[rows],
            self.advantages[rows],
            self.targets[rows],
            self.teaches[rows],
            masks,
            self.before[rows],
        )


class VectorPPO:
    """A network, its optimiser, and the update of both."""

    def __init__(self, parameters: Weights, settings: VectorPPOSettings) -> None:
        self.settings = settings
        self.kind = parameters.kind
        self.network = network_of(parameters.kind, parameters.tensors)
        named = dict(self.network.named_parameters())
        memory = [named.pop("memory")] if "memory" in named else []
        self._optimiser = torch.optim.Adam(
            [
                {"params": list(named.values()), "share": 1.0},
                {"params": memory, "share": settings.memory_rate},
            ],
            lr=settings.learning_rate,
            eps=1e-5,
        )
        self.set_rate(settings.learning_rate)
        kept = parameters.tensors.get(RETURNS, np.array([0.0, 1.0, 0.0]))
        self._mean, self._spread, self._seen = (float(x) for x in kept)
        self._random = torch.Generator().manual_seed(settings.seed)

    def set_rate(self, rate: float) -> None:
        """The learning rate from now on."""
        for group in self._optimiser.param_groups:
            group["lr"] = rate * group["share"]

    def weights(self) -> Weights:
        """As a checkpoint keeps them."""
        returns = np.array([self._mean, self._spread, self._seen], dtype=np.float64)
        return Weights(self.kind, {**self.network.tensors(), RETURNS: returns})

    def update(self, experiences: Sequence[Experience]) -> dict[str, float]:
        """Learn from stretches of consecutive decisions; returns figures about it."""
        batches = self._batches(experiences)
        sums = np.zeros(4)
        steps, stopped = 0, False
        for _ in range(self.settings.epochs):
            for batch in self._minibatches(batches):
                last = {name: value.clone() for name, value in self.network.state_dict().items()}
                sums += self._step(batch)
                steps += 1
                if not self.settings.target_kl:
                    continue
                if self._moved(batches) > self.settings.target_kl:
                    self._step_back(last, batches)
                    stopped = True
                    break
            if stopped:
                break
        kl = self._moved(batches)
        teaching = sum(float(batch.teaches.sum()) for batch in batches)
        decisions = sum(len(batch.actions) for batch in batches)
        loss, value_loss, entropy, clipped = sums / max(steps, 1)
        if not all(map(math.isfinite, (loss, value_loss, entropy, kl))):
            raise WorkError("the loss is not a number: look for rewards that are not finite, or learn slower")
        return {
            "decisions": float(decisions),
            "teaching": teaching,
            "unusable": decisions - teaching,
            "steps": float(steps),
            "stopped": float(stopped),
            "kl": kl,
            "policy_loss": float(loss),
            "value_loss": float(value_loss),
            "entropy": float(entropy),
            "clip_fraction": float(clipped),
        }

    def _batches(self, experiences: Sequence[Experience]) -> list[_Batch]:
        groups: dict[tuple[int, int, bool], list[Experience]] = {}
        for stretch in experiences:
            if len(stretch):
                key = (stretch.states.shape[1], stretch.actions_dim, stretch.masks is not None)
                groups.setdefault(key, []).append(stretch)
        if not groups:
            raise UsageError("there are no decisions to learn from")
        advantages = {key: [self._advantages(s) for s in found] for key, found in groups.items()}
        returns = np.concatenate([r for found in advantages.values() for _, r in found])
        teaching = [(np.isfinite(s.log_probs) & ~s.greedy) for found in groups.values() for s in found]
        flat = np.concatenate([a for found in advantages.values() for a, _ in found])
        usable = flat[np.concatenate(teaching)]
        centre, width = (float(usable.mean()), float(usable.std()) + 1e-8) if len(usable) else (0.0, 1.0)
        self._measure_returns(returns)
        return [self._batch(found, advantages[key], (centre, width)) for key, found in groups.items()]

    def _batch(
        self, found: list[Experience], estimated: list[tuple[F64, F64]], scale: tuple[float, float]
    ) -> _Batch:
        states = torch.from_numpy(np.concatenate([s.states for s in found]))
        masks = None
        if found[0].masks is not None:
            masks = torch.from_numpy(np.concatenate([s.masks for s in found if s.masks is not None]))
        behaviour = np.concatenate([s.log_probs for s in found])
        greedy = np.concatenate([s.greedy for s in found])
        teaches = np.isfinite(behaviour) & ~greedy
        advantages = (np.concatenate([a for a, _ in estimated]) - scale[0]) / scale[1]
        targets = (np.concatenate([r for _, r in estimated]) - self._mean) / self._spread
        batch = _Batch(
            states,
            found[0].actions_dim,
            torch.from_numpy(np.concatenate([s.actions for s in found])),
            torch.from_numpy(np.where(teaches, behaviour, 0.0)).float(),
            torch.from_numpy(advantages).float(),
            torch.from_numpy(targets).float(),
            torch.from_numpy(teaches).float(),
            masks,
            torch.empty(0),
        )
        with torch.no_grad():
            parts = [self._logs(batch.states[k : k + 1024], batch, k)[0] for k in range(0, len(states), 1024)]
        return _Batch(**{**vars(batch), "before": torch.cat(parts)})

    def _logs(self, states: Tensor, batch: _Batch, start: int = 0) -> tuple[Tensor, Tensor]:
        """(log-probabilities [B, A], values [B]); minus infinity where the mask forbids."""
        logits, values = self.network(states, batch.actions_dim)
        if batch.masks is not None:
            logits = logits.masked_fill(~batch.masks[start : start + len(states)], -math.inf)
        return torch.log_softmax(logits, 1), values

    def _advantages(self, stretch: Experience) -> tuple[F64, F64]:
        """(generalised advantages, the returns they imply) of one stretch."""
        with torch.no_grad():
            states = torch.from_numpy(np.array(stretch.states))
            parts = [
                self.network(states[k : k + 1024], stretch.actions_dim)[1]
                for k in range(0, len(states), 1024)
            ]
            values = torch.cat(parts).double().numpy() * self._spread + self._mean
        return estimate(stretch, values, self.settings.discount, self.settings.trace)

    def _measure_returns(self, returns: F64) -> None:
        """Merge mean and spread of the returns; the head is rescaled so that its value stays what it was."""
        count = float(len(returns))
        seen = min(self._seen, 20.0 * count)  # old returns fade
        share = count / (seen + count)
        change = float(returns.mean()) - self._mean
        mean = self._mean + change * share
        variance = (
            (1 - share) * self._spread**2 + share * float(returns.var()) + share * (1 - share) * change**2
        )
        if seen == 0.0:
            mean, variance = float(returns.mean()), float(returns.var())
        spread = max(math.sqrt(variance), 1e-4)
        weight, bias = self._value_head()
        with torch.no_grad():
            weight *= self._spread / spread
            bias.copy_((bias * self._spread + self._mean - mean) / spread)
        self._mean, self._spread, self._seen = mean, spread, seen + count

    def _value_head(self) -> tuple[Tensor, Tensor]:
        if self.kind == "vector-mlp":
            return (
                self.network.get_parameter("network.critic.4.weight"),
                self.network.get_parameter("network.critic.4.bias"),
            )
        return self.network.get_parameter("value"), self.network.get_parameter("offsets")[2]

    def _minibatches(self, batches: list[_Batch]) -> list[_Batch]:
        found = []
        for batch in batches:
            order = torch.randperm(len(batch.actions), generator=self._random)
            parts = max(1, round(len(order) / self.settings.minibatch))
            found += [batch.some(rows) for rows in torch.tensor_split(order, parts)]
        order = torch.randperm(len(found), generator=self._random)
        return [found[int(k)] for k in order]

    def _step(self, batch: _Batch) -> F64:
        """One step of the optimiser; (policy loss, value loss, entropy, share clipped)."""
        settings = self.settings
        logs, values = self._logs(batch.states, batch)
        chosen = logs.gather(1, batch.actions[:, None]).squeeze(1)
        teaching = batch.teaches.sum().clamp(min=1.0)
        ratio = torch.exp((chosen - batch.behaviour).clamp(-20.0, 20.0))
        bounded = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
        gain = torch.minimum(ratio * batch.advantages, bounded * batch.advantages)
        policy_loss = -(gain * batch.teaches).sum() / teaching
        value_loss = (values - batch.targets).square().mean()
        entropy = -(logs.exp() * logs.clamp(min=-100.0)).sum(1).mean()
        bonus = settings.entropy / math.log(batch.actions_dim)
        loss = policy_loss + settings.value_weight * value_loss - bonus * entropy
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), settings.longest_slope)
        self._optimiser.step()
        clipped = (((ratio - 1.0).abs() > settings.clip) * batch.teaches).sum() / teaching
        return np.array([policy_loss.item(), value_loss.item(), entropy.item(), clipped.item()])

    def _step_back(self, last: dict[str, Tensor], batches: list[_Batch]) -> None:
        """Shorten the last step until the policy is within the distance allowed."""
        now = {name: value.clone() for name, value in self.network.state_dict().items()}
        for halvings in range(1, _MOST_HALVINGS + 1):
            share = 0.5**halvings
            self.network.load_state_dict({name: torch.lerp(last[name], now[name], share) for name in now})
            if self._moved(batches) <= self.settings.target_kl:
                return
        self.network.load_state_dict(last)

    def _moved(self, batches: list[_Batch]) -> float:
        """Mean KL divergence of the policy now from the one before the update."""
        total, count = 0.0, 0
        with torch.no_grad():
            for batch in batches:
                rows = torch.arange(0, len(batch.actions), max(1, len(batch.actions) // 512))
                some = batch.some(rows)
                logs = self._logs(some.states, some)[0]
                before = some.before
                gap = torch.where(before.isfinite(), before - logs, torch.zeros_like(logs))
                total += float((before.exp() * gap).sum())
                count += len(rows)
        return total / max(count, 1)


def estimate(stretch: Experience, values: F64, discount: float, trace: float) -> tuple[F64, F64]:
    """(generalised advantages, returns) of a stretch with values: float64[B].

    After the last decision, unless it ended an episode, the value of the last state stands in for the next.
    """
    advantages = np.empty(len(values))
    advantage, following = 0.0, float(values[-1])
    for k in range(len(values) - 1, -1, -1):
        on = 0.0 if stretch.dones[k] else 1.0
        surprise = float(stretch.rewards[k]) + discount * on * following - float(values[k])
        advantage = surprise + discount * trace * on * advantage
        advantages[k], following = advantage, float(values[k])
    return advantages, advantages + values
