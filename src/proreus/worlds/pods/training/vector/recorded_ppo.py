"""PPO from recorded decisions over the k8s simulator's vector: how the service and `models train` learn.

The decisions come with the chance they had when they were made, whichever version made them, and the ratios
are taken against that. Advantages are estimated over the recorded order, up to the ends of episodes.
Decisions that were taken greedily, or whose chance nobody recorded, say nothing about how often to take
them: they train the value alone, and are counted. The update stops, its last step shortened, where the
policy would move further from the one it started with than `target_kl`.

Records may be wrong. A chance far below what the policy gives the action says more about the record than
about the action, and trains the value alone too. A value that is off by many spreads of the returns begins
anew, and so does what it is measured in: its error would drown all that these decisions have to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from proreus.kernels.arrays import F32, F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.learning.device import Device
from proreus.learning.optimiser import adam
from proreus.learning.returns import advantages
from proreus.learning.settings import current_names
from proreus.model.errors import UsageError, WorkError
from proreus.model.experience import Experience
from proreus.worlds.pods.policies.vector.model import SCORER, Candidate, Weights
from proreus.worlds.pods.policies.vector.scorer import MEMORY
from proreus.worlds.pods.training.vector.gradient import gradient_of

RETURNS = "returns"
"""A tensor beside the weights: mean, spread and number of the returns that the value is measured in."""

_MOST_HALVINGS = 8
_LARGEST_RATIO = 30.0  # of the policy's chance to the recorded one
_LOST = 10.0  # spreads of the returns by which a value that is of any use is never off


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
    gae_lambda: float = 0.95
    """Lambda of the advantage estimate: 0 trusts the value, 1 trusts what was recorded."""
    clip: float = 0.2
    """How far the chance of an action may move from the recorded one before the loss ignores it."""
    entropy: float = 0.003
    """Weight of the entropy bonus, per logarithm of the number of actions."""
    value_weight: float = 0.5
    """Weight of the squared error of the value."""
    max_gradient: float = 0.5
    """Gradients longer than this are shortened to it."""
    target_kl: float = 0.02
    """How far the policy may move in one update: mean KL divergence from the one before; 0: any distance."""
    memory_rate: float = 1.0
    """The memory of nodes learns so many times as fast as the weights."""
    node_memory: bool = False
    """Give a size-free scorer a memory of the nodes that the decisions were about: it starts empty, so that
    bids are what they were, and learns what is particular to each position. It then serves as many nodes as
    they were."""
    seed: int = 0
    """Of the order of minibatches."""
    device: Device = "cpu"
    """Where forward passes and gradients are computed; cpu: by compiled kernels, else by torch."""
    threads: int = 1
    """0: one per core. Does not change the result; beside a service, one leaves it the others."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.minibatch < 1:
            raise UsageError("epochs and minibatch must be at least 1")
        if not (0.0 <= self.discount <= 1.0 and 0.0 <= self.gae_lambda <= 1.0):
            raise UsageError("discount and gae_lambda must be between 0 and 1")
        if self.learning_rate <= 0.0 or self.clip <= 0.0 or self.max_gradient <= 0.0:
            raise UsageError("learning_rate, clip and max_gradient must be above 0")


def settings_of(entries: Mapping[str, Any]) -> VectorPPOSettings:
    """Settings by name; a UsageError names one that does not exist."""
    known = {item.name for item in fields(VectorPPOSettings)}
    given = current_names(entries)
    for name in given:
        if name not in known:
            raise UsageError(f"PPO has no setting {name!r} (known: {', '.join(sorted(known))})")
    return VectorPPOSettings(**given)


def improve(parameters: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]) -> Candidate:
    """One update from recorded stretches of decisions; what the service's learner is handed."""
    chosen = settings_of(settings)
    if chosen.node_memory:
        parameters = with_memory(parameters, experiences)
    learner = VectorPPO(parameters, chosen)
    figures = learner.update(experiences)
    return Candidate(learner.weights(), figures)


def with_memory(weights: Weights, experiences: Sequence[Experience]) -> Weights:
    """A size-free scorer with an empty memory of as many nodes as all of these decisions were about.

    What has a memory, is no scorer, or decided about clusters of different sizes stays what it is.
    """
    sizes = {(stretch.actions_dim - 2) // 2 for stretch in experiences if len(stretch)}
    if weights.kind != SCORER or "memory" in weights.tensors or len(sizes) != 1:
        return weights
    memory = np.zeros((sizes.pop(), MEMORY), dtype=np.float32)
    return Weights(SCORER, {**weights.tensors, "memory": memory})


@dataclass(frozen=True, eq=False)
class _Batch:
    """Decisions over vectors of one length. B of them, A actions."""

    states: F64  # [B, S]
    actions: I64  # [B]
    behaviour: F32  # [B] logarithm of the chance when the decision was made
    advantages: F32  # [B]
    targets: F32  # [B] of the value
    teaches: Bool  # [B] counts for the policy
    masks: Bool  # [B, A], or [0, A] where all actions are allowed
    before: F32  # [B, A] log-probabilities before the update

    def some(self, rows: I64) -> _Batch:
        return _Batch(
            states=self.states[rows],
            actions=self.actions[rows],
            behaviour=self.behaviour[rows],
            advantages=self.advantages[rows],
            targets=self.targets[rows],
            teaches=self.teaches[rows],
            masks=self.masks[rows] if len(self.masks) else self.masks,
            before=self.before[rows],
        )


class VectorPPO:
    """A network, its optimiser, and the update of both."""

    def __init__(self, parameters: Weights, settings: VectorPPOSettings) -> None:
        self.settings = settings
        self.kind = parameters.kind
        self.network = gradient_of(parameters.kind, parameters.tensors, settings.threads, settings.device)
        self.rate = settings.learning_rate
        self._moments = np.zeros((2, len(self.network.flat)))
        self._gradient = np.zeros(len(self.network.flat))
        self._steps = 0
        kept = parameters.tensors.get(RETURNS, np.array([0.0, 1.0, 0.0]))
        self._mean, self._spread, self._seen = (float(x) for x in kept)
        self._random = np.random.default_rng(settings.seed)

    def weights(self) -> Weights:
        """As a checkpoint keeps them."""
        returns = np.array([self._mean, self._spread, self._seen])
        return Weights(self.kind, {**self.network.tensors(), RETURNS: returns})

    def update(self, experiences: Sequence[Experience]) -> dict[str, float]:
        """Learn from stretches of consecutive decisions; returns figures about it."""
        batches = self._batches(experiences)
        sums, steps, stopped = np.zeros(len(_FIGURES)), 0, False
        flat = self.network.flat
        last = flat.copy()
        for batch in self._minibatches(batches):
            figures, length = self._gradient_by(batch)
            if not np.isfinite(figures).all() or not math.isfinite(length):
                flat[:] = last
                raise WorkError(
                    "the loss is not a number: look for rewards that are not finite, or learn slower"
                )
            if 0.0 < self.settings.target_kl < figures[_KL]:
                stopped = True
                break
            sums += figures
            last = flat.copy()
            self._descend(length)
            steps += 1
        if self.settings.target_kl and self._moved(batches) > self.settings.target_kl:
            self._step_back(last, batches)
            stopped = True
        decisions = sum(len(batch.actions) for batch in batches)
        teaching = sum(int(batch.teaches.sum()) for batch in batches)
        means = dict(zip(_FIGURES, (sums / max(steps, 1)).tolist(), strict=True))
        return {
            **means,
            "kl": self._moved(batches),
            "decisions": float(decisions),
            "teaching": float(teaching),
            "unusable": float(decisions - teaching),
            "steps": float(steps),
            "stopped": float(stopped),
        }

    def _batches(self, experiences: Sequence[Experience]) -> list[_Batch]:
        groups: dict[tuple[int, int, bool], list[Experience]] = {}
        for stretch in experiences:
            if len(stretch):
                key = (stretch.states.shape[1], stretch.actions_dim, stretch.masks is not None)
                groups.setdefault(key, []).append(stretch)
        if not groups:
            raise UsageError("there are no decisions to learn from")
        if self._value_is_lost(experiences):
            self._mean, self._spread, self._seen = 0.0, 1.0, 0.0
            self.network.scale_value(0.0, 0.0)
        batches = [self._joined(stretches) for stretches in groups.values()]
        self._measure_returns(np.concatenate([batch.targets for batch in batches]).astype(np.float64))
        usable = np.concatenate([batch.advantages[batch.teaches] for batch in batches])
        centre, width = (usable.mean(), usable.std() + 1e-8) if len(usable) else (0.0, 1.0)
        return [
            replace(
                batch,
                advantages=((batch.advantages - centre) / width).astype(np.float32),
                targets=((batch.targets - self._mean) / self._spread).astype(np.float32),
            )
            for batch in batches
        ]

    def _value_is_lost(self, experiences: Sequence[Experience]) -> bool:
        """Whether the mean of these returns is a far better guess of them than the value."""
        per_stretch, values = [], []
        for stretch in experiences:
            if len(stretch):
                per_stretch.append(plain_returns(stretch.rewards, stretch.dones, self.settings.discount))
                states = np.asarray(stretch.states, dtype=np.float64)
                values.append(self.network.forward(states, stretch.actions_dim)[1])
        returns = np.concatenate(per_stretch)
        error = returns - (np.concatenate(values) * self._spread + self._mean)
        usual = max(float(returns.std()), 0.1 * float(np.abs(returns).max()))
        return math.sqrt(float((error**2).mean())) > _LOST * usual

    def _joined(self, stretches: list[Experience]) -> _Batch:
        """Stretches over vectors of one length, one behind the other; advantages and targets as estimated."""
        actions_dim = stretches[0].actions_dim
        states = np.concatenate([np.asarray(s.states, dtype=np.float64) for s in stretches])
        known = [s.masks for s in stretches if s.masks is not None]
        masks = np.concatenate(known) if known else np.zeros((0, actions_dim), dtype=np.bool_)
        logits, values = self.network.forward(states, actions_dim)
        values = values * self._spread + self._mean
        edges = np.cumsum([0, *map(len, stretches)]).tolist()
        settings = self.settings
        estimated = [
            estimate(stretch, values[start:end], (settings.discount, settings.gae_lambda))
            for stretch, start, end in zip(stretches, edges, edges[1:], strict=False)
        ]
        log_chances(logits, masks)
        actions = np.concatenate([s.actions for s in stretches])
        recorded = np.concatenate([s.log_probs for s in stretches])
        teaches = np.isfinite(recorded) & ~np.concatenate([s.greedy for s in stretches])
        teaches &= ~(logits[np.arange(len(actions)), actions] - recorded > math.log(_LARGEST_RATIO))
        return _Batch(
            states=states,
            actions=actions,
            behaviour=np.where(teaches, recorded, 0.0).astype(np.float32),
            advantages=np.concatenate([a for a, _ in estimated]).astype(np.float32),
            targets=np.concatenate([r for _, r in estimated]).astype(np.float32),
            teaches=teaches,
            masks=masks,
            before=logits,
        )

    def _measure_returns(self, returns: F64) -> None:
        """Merge mean and spread of the returns; the head is rescaled so that its value stays what it was."""
        count = float(len(returns))
        seen = min(self._seen, 20.0 * count)  # old returns fade
        share = count / (seen + count)
        change = float(returns.mean()) - self._mean
        mean = self._mean + change * share
        old = self._spread**2 if seen else 0.0
        variance = (1.0 - share) * old + share * float(returns.var()) + share * (1.0 - share) * change**2
        spread = max(math.sqrt(variance), 1e-4)
        self.network.scale_value(self._spread / spread, (self._mean - mean) / spread)
        self._mean, self._spread, self._seen = mean, spread, seen + count

    def _minibatches(self, batches: list[_Batch]) -> Iterator[_Batch]:
        for _ in range(self.settings.epochs):
            pieces: list[tuple[_Batch, I64]] = []
            for batch in batches:
                order = self._random.permutation(len(batch.actions))
                parts = max(1, round(len(order) / self.settings.minibatch))
                pieces += [(batch, rows) for rows in np.array_split(order, parts)]
            for k in self._random.permutation(len(pieces)):
                batch, rows = pieces[k]
                yield batch.some(rows)

    def _gradient_by(self, batch: _Batch) -> tuple[F64, float]:
        """(mean figures of a minibatch, the length of its gradient, which is left in `_gradient`)."""
        settings, actions = self.settings, batch.before.shape[1]
        logits, values = self.network.forward(batch.states, actions)
        log_chances(logits, batch.masks)
        bonus = settings.entropy / math.log(actions)
        weights = (settings.clip, settings.value_weight, bonus, 1.0 / max(int(batch.teaches.sum()), 1))
        d_values, figures = np.zeros(len(values)), np.zeros(len(_FIGURES))
        recorded = (batch.actions, batch.behaviour, batch.advantages, batch.targets, batch.teaches)
        fill_gradients((logits, values, batch.before), recorded, weights, d_values, figures)
        return figures, self.network.backward(batch.states, logits, d_values, self._gradient)

    def _descend(self, length: float) -> None:
        if length > self.settings.max_gradient:
            self._gradient *= self.settings.max_gradient / length
        self._steps += 1
        cut, network = self.network.memory_from, self.network
        for piece, rate in (
            (slice(0, cut), self.rate),
            (slice(cut, len(network.flat)), self.rate * self.settings.memory_rate),
        ):
            moments = self._moments[:, piece].copy()
            adam(network.flat[piece], self._gradient[piece], moments, self._steps, rate)
            self._moments[:, piece] = moments

    def _step_back(self, last: F32, batches: list[_Batch]) -> None:
        """Shorten the last step until the policy is within the distance allowed."""
        flat = self.network.flat
        step = flat - last
        for halvings in range(1, _MOST_HALVINGS + 1):
            flat[:] = last + step * np.float32(0.5**halvings)
            if self._moved(batches) <= self.settings.target_kl:
                return
        flat[:] = last

    def _moved(self, batches: list[_Batch]) -> float:
        """Mean KL divergence of the policy now from the one before the update, over some of the decisions."""
        total, count = 0.0, 0
        for batch in batches:
            some = batch.some(np.arange(0, len(batch.actions), max(1, len(batch.actions) // 256)))
            logits, _ = self.network.forward(some.states, some.before.shape[1])
            log_chances(logits, some.masks)
            total += divergence(some.before, logits)
            count += len(logits)
        return total / max(count, 1)


_FIGURES = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
_POLICY_LOSS, _VALUE_LOSS, _ENTROPY, _KL, _CLIPPED = range(len(_FIGURES))
_FORBIDDEN = np.float32(-1e30)  # the logarithm of the chance of what a mask forbids: its exponential is 0


@compiled
def log_chances(logits: F32, masks: Bool) -> None:
    """Logits, float32[B, A], become log-probabilities in place; masks: bool[B, A], or [0, A]."""
    rows, actions = logits.shape
    for b in range(rows):
        if masks.shape[0] > 0:
            for k in range(actions):
                if not masks[b, k]:
                    logits[b, k] = _FORBIDDEN
        most = logits[b].max()
        total = 0.0
        for k in range(actions):
            total += math.exp(logits[b, k] - most)
        shift = most + math.log(total)
        for k in range(actions):
            logits[b, k] = max(logits[b, k] - shift, _FORBIDDEN)


@compiled
def divergence(before: F32, now: F32) -> float:
    """Sum over rows of the KL divergence of log-probabilities now, float32[B, A], from those before."""
    total = 0.0
    for b in range(before.shape[0]):
        for k in range(before.shape[1]):
            total += math.exp(before[b, k]) * (before[b, k] - now[b, k])
    return total


@compiled
def fill_gradients(
    outputs: tuple[F32, F64, F32],
    recorded: tuple[I64, F32, F32, F32, Bool],
    weights: tuple[float, float, float, float],
    d_values: F64,
    figures: F64,
) -> None:
    """The clipped loss: log-probabilities, float32[B, A], become the gradient by the logits, in place.

    outputs: log-probabilities, values [B], log-probabilities before the update; recorded: actions, behaviour,
    advantages, targets, teaches, all [B]; weights: clip, value, entropy, share of one decision that teaches.
    """
    logs, values, before = outputs
    actions, behaviour, advantages, targets, teaches = recorded
    clip, value_weight, bonus, share = weights
    rows = logs.shape[0]
    for b in range(rows):
        entropy = kl = 0.0
        for k in range(logs.shape[1]):
            entropy -= math.exp(logs[b, k]) * logs[b, k]
            kl += math.exp(before[b, k]) * (before[b, k] - logs[b, k])
        derivative = 0.0  # by the logarithm of the action's chance
        action = actions[b]
        if teaches[b]:
            ratio = math.exp(min(max(logs[b, action] - behaviour[b], -20.0), 20.0))
            gain = ratio * advantages[b]
            bounded = min(max(ratio, 1.0 - clip), 1.0 + clip) * advantages[b]
            derivative = -gain * share if gain <= bounded else 0.0
            figures[_POLICY_LOSS] -= min(gain, bounded) * share
            figures[_CLIPPED] += share if abs(ratio - 1.0) > clip else 0.0
        for k in range(logs.shape[1]):
            chance = math.exp(logs[b, k])
            logs[b, k] = chance * (bonus / rows * (logs[b, k] + entropy) - derivative)
        logs[b, action] += derivative
        error = values[b] - targets[b]
        d_values[b] = 2.0 * value_weight * error / rows
        figures[_VALUE_LOSS] += error * error / rows
        figures[_ENTROPY] += entropy / rows
        figures[_KL] += kl / rows


@compiled
def plain_returns(rewards: F64, ends: Bool, discount: float) -> F64:
    """float64[B]: the discounted rewards, float64[B], from each decision to the end of its episode."""
    returns = np.empty(rewards.shape[0])
    following = 0.0
    for k in range(rewards.shape[0] - 1, -1, -1):
        following = rewards[k] + (0.0 if ends[k] else discount * following)
        returns[k] = following
    return returns


def estimate(stretch: Experience, values: F64, weights: tuple[float, float]) -> tuple[F64, F64]:
    """(generalised advantages, returns) of a stretch with values: float64[B]; weights: discount and lambda.

    After the last decision, unless it ended an episode, the value of the last state stands in for the next.
    """
    rewards, ends = stretch.rewards.astype(np.float64), stretch.dones.astype(np.bool_)
    following = np.append(values, values[-1])
    advantage = advantages(rewards[:, None], ends[:, None], following[:, None], weights)[:, 0]
    return advantage, advantage + values
