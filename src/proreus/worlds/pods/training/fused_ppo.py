"""Proximal policy optimisation of the size-free scorer on the pods world, from top to bottom.

One update: every lane plays `rollout_steps` choices with the current parameters (`FusedLanes.play`),
advantages are estimated (`estimate`), then the clipped loss is descended for a few epochs of minibatches
(`gradient_of`).
Playing and descending are fused kernels, spread over threads by lane and by chunk of a minibatch; sums
are taken in a fixed order, so the result depends on the seed and never on the number of threads.

    for update in fused_ppo(FusedPPOConfig(), BatchedPods(compiled, 64)):
        print(update.figures["steps"], update.figures["return"])

E lanes, T steps of a rollout, N most nodes, F pair and G context features, P parameters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F32, F64, I64, U64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below, seeded
from proreus.kernels.structs import private
from proreus.learning.device import Device, uses_cuda
from proreus.learning.optimiser import adam, add_gradients, linear
from proreus.learning.step import Update
from proreus.model.errors import UsageError, WorkError
from proreus.workers.threads import Threads
from proreus.worlds.pods.policies.scorer import (
    PARAMETERS,
    ScorerScratch,
    backward,
    forward,
    initial_parameters,
    new_scorer_scratch,
    part,
    softmax,
)
from proreus.worlds.pods.training.rollout import FusedLanes, Rollout, new_rollout

if TYPE_CHECKING:
    from proreus.worlds.pods.training.torch_descent import TorchDescent

# A minibatch is always cut into so many chunks, whatever the number of threads.
_CHUNKS = 16
# Runs that were saved before there was such an array go on with that of a new learner.
_LATER = ("latest",)


@dataclass(frozen=True)
class FusedPPOConfig:
    """Everything a training run depends on, besides the batch of worlds."""

    BEFORE: ClassVar[Mapping[str, Any]] = {"worlds": "host"}
    """What runs did that do not say so: see `settings.config_from`."""

    steps: int = 1_000_000
    """Choices to learn from, over all lanes; rounded up to whole updates."""
    rollout_steps: int = 128
    """Choices of each lane per update."""
    epochs: int = 4
    """How often each update goes through what was played."""
    minibatches: int = 4
    """Parts of an epoch: so many steps of the optimiser."""
    learning_rate: float = 1e-3
    """Of Adam, at the start."""
    learning_rate_end: float = 1e-4
    """At the end; in between it falls linearly."""
    discount: float = 1.0
    """Worth of a reward one choice later: all of it, for what a choice spoils shows at the end."""
    gae_lambda: float = 1.0
    """Lambda of the advantage estimate: 0 trusts the value, 1 trusts what was played."""
    clip: float = 0.2
    """How far the chance of an action may move in one update before the loss ignores it."""
    entropy: float = 0.0
    """Weight of the entropy bonus at the start. The highest bid plays, so that what is learned while many
    bids are open says little."""
    entropy_end: float = 0.0
    """At the end; in between it falls linearly."""
    value_weight: float = 0.5
    """Weight of the squared error of the value."""
    max_gradient: float = 0.5
    """Gradients longer than this are shortened to it."""
    target_kl: float = 0.03
    """An update stops early once the policy has moved this far (approximate KL); 0: never."""
    seed: int = 0
    """Of the first parameters and of the order of minibatches; the lanes have the batch's seed."""
    threads: int = 0
    """0: one per core. Does not change the result."""
    device: Device = "auto"
    """Where gradients are computed. auto: cuda where there is one."""
    worlds: Literal["auto", "host", "device"] = "auto"
    """Where the worlds play: on the host's cores, or in torch on the same device as the gradients, without a
    copy. auto: on a GPU where one is used and knows all rules of the workloads, else on the host."""

    def __post_init__(self) -> None:
        for name in ("steps", "rollout_steps", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1")
        for name in ("discount", "gae_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"{name} must be between 0 and 1")
        if self.learning_rate <= 0.0 or self.clip <= 0.0 or self.max_gradient <= 0.0:
            raise UsageError("learning_rate, clip and max_gradient must be above 0")


def fused_ppo(
    config: FusedPPOConfig, batch: FusedLanes, *, initial: F32 | None = None, saved: Arrays | None = None
) -> Iterator[Update]:
    """Train, yielding after every update; from `initial` parameters, or from where `saved` left off."""
    learner = FusedPPO(config, batch, initial)
    if saved is not None:
        learner.restore(saved)
    try:
        while learner.update < learner.updates:
            yield learner.learn()
    finally:
        learner.close()


@compiled
def estimate(rollout: Rollout, discount: float, gae_lambda: float, mean: float, spread: float) -> None:
    """Generalised advantages, and the returns they imply (in `target`, not yet normalised)."""
    lanes, steps = rollout.action.shape
    for e in range(lanes):
        advantage = 0.0
        after = rollout.value[e, steps] * spread + mean
        for t in range(steps - 1, -1, -1):
            value = rollout.value[e, t] * spread + mean
            on = 0.0 if rollout.ended[e, t] else 1.0
            surprise = rollout.reward[e, t] + discount * on * after - value
            advantage = surprise + discount * gae_lambda * on * advantage
            rollout.advantage[e, t] = advantage
            rollout.target[e, t] = advantage + value
            after = value


# Places in the sums that `gradient_of` returns.
_POLICY_LOSS, _VALUE_LOSS, _ENTROPY, _KL, _CLIPPED = range(5)


@compiled
def gradient_of(
    params: F32, rollout: Rollout, work: ScorerScratch, samples: I64, weights: F32, out: tuple[F32, F64]
) -> None:
    """Gradient of the clipped loss, float32[P], and sums for the log, float64[5], over some of the choices.

    samples: int64[..], e T + t; weights: float32[4], clip, value, entropy, and the share of one sample.
    """
    gradient, sums = out
    gradient[:] = np.float32(0.0)
    sums[:] = 0.0
    clip, value_weight, entropy_weight, share = weights[0], weights[1], weights[2], weights[3]
    one = np.float32(1.0)
    steps = rollout.action.shape[1]
    for s in range(samples.shape[0]):
        e, t = samples[s] // steps, samples[s] % steps
        first, last = rollout.start[e, t], rollout.start[e, t + 1]
        rows, context = rollout.rows[e, first:last], rollout.context[e, t]
        count = last - first
        choice = (count, rollout.preempts[e, t])
        value = forward(params, rows, choice, context, work)
        total = np.float32(softmax(work, count, rollout.heads[e]))
        logits, chances, d_logits = work.logits, work.chances, work.d_logits
        entropy = np.float32(0.0)
        for k in range(count + 2):
            entropy -= chances[k] * (logits[k] - total)

        action, advantage = rollout.action[e, t], rollout.advantage[e, t]
        moved = logits[action] - total - rollout.log_chance[e, t]
        ratio = np.exp(moved)
        gain = ratio * advantage
        bounded = min(max(ratio, one - clip), one + clip) * advantage
        derivative = -gain if gain <= bounded else np.float32(0.0)  # by the logarithm of the action's chance
        for k in range(count + 2):
            chance = chances[k]
            d_logits[k] = share * chance * (entropy_weight * (logits[k] - total + entropy) - derivative)
        d_logits[action] += share * derivative
        error = np.float32(value) - rollout.target[e, t]
        work.d_value[0] = share * value_weight * np.float32(2.0) * error
        backward(params, rows, choice, context, work, gradient)

        sums[_POLICY_LOSS] -= min(gain, bounded)
        sums[_VALUE_LOSS] += error * error
        sums[_ENTROPY] += entropy
        sums[_KL] += ratio - one - moved
        sums[_CLIPPED] += 1.0 if abs(ratio - one) > clip else 0.0


@compiled
def shuffle(order: I64, rng: U64) -> None:
    """In place, every order as likely as any other."""
    for i in range(order.shape[0] - 1, 0, -1):
        k = next_below(rng, i + 1)
        order[i], order[k] = order[k], order[i]


class FusedPPO:
    """Parameters, optimiser and random state of one training run over one batch."""

    def __init__(self, config: FusedPPOConfig, batch: FusedLanes, initial: F32 | None = None) -> None:
        self.config, self.batch = config, batch
        lanes, steps = len(batch), config.rollout_steps
        if lanes * steps < config.minibatches:
            raise UsageError("more minibatches than choices in an update")
        self.updates = -(-config.steps // (lanes * steps))
        self.params = initial_parameters(config.seed) if initial is None else initial.astype(np.float32)
        self._moments = np.zeros((2, PARAMETERS))
        self._rng = seeded(config.seed + 0x5EED)
        self._order = np.arange(lanes * steps)
        self._counts = np.zeros(2, dtype=np.int64)  # updates, steps of the optimiser
        self._returns = np.array([0.0, 1.0, 1e-4])  # mean, variance and number of the returns seen
        self._latest = np.array([math.nan])  # mean return of the episodes that ended last

        self._threads = Threads(config.threads)
        shared = new_rollout(lanes, steps, batch.nodes)
        self._rollouts = [private(shared) for _ in range(self._threads.count)]
        self._works = [new_scorer_scratch(batch.nodes) for _ in range(self._threads.count)]
        self._gradients = np.zeros((_CHUNKS, PARAMETERS), dtype=np.float32)
        self._sums = np.zeros((_CHUNKS, 5))
        self._total = np.zeros(PARAMETERS)
        self._gpu = _gpu_descent(config.device, shared)
        self.aside: dict[str, float] = {}
        """What of the last update no journal has: the share of its time that the worlds played, its loss."""

    @property
    def update(self) -> int:
        return int(self._counts[0])

    def learn(self) -> Update:
        config, begin = self.config, time.perf_counter()
        size = len(self._order)
        done = self.update / max(self.updates - 1, 1)
        rate = linear(config.learning_rate, config.learning_rate_end, done)
        entropy = linear(config.entropy, config.entropy_end, done)
        ended = self.batch.play(self.params, self._rollouts, self._works, self._threads)
        if ended.episodes:
            self._latest[0] = ended.total / ended.episodes
        self._prepare_targets()
        weights = np.array([config.clip, config.value_weight, entropy, 0.0], dtype=np.float32)
        played = time.perf_counter()
        if self._gpu is not None:
            self._gpu.load(self._rollouts[0], self.params, self._moments)
        log, minibatches = np.zeros(5), 0
        for mean in self._descend(weights, rate):
            log += mean
            minibatches += 1
        if self._gpu is not None:
            self._gpu.store(self.params, self._moments)
        log /= minibatches
        self._counts[0] += 1
        seconds = time.perf_counter() - begin
        self.aside = {"playing": (played - begin) / seconds, "policy_loss": float(log[_POLICY_LOSS])}
        return Update(
            number=self.update,
            total=self.updates,
            figures={
                "steps": float(self.update * size),
                "steps_per_second": size / seconds,
                "return": float(self._latest[0]),
                "entropy": float(log[_ENTROPY]),
                "kl": float(log[_KL]),
                "clip_fraction": float(log[_CLIPPED]),
                "value_loss": float(log[_VALUE_LOSS]),
            },
            tensors=lambda: {"parameters": self.params.copy()},
            state=self.capture,
        )

    def _prepare_targets(self) -> None:
        """Advantages with mean 0 and spread 1; returns, and the value head with them, likewise over time."""
        rollout, config = self._rollouts[0], self.config
        mean, spread = float(self._returns[0]), math.sqrt(float(self._returns[1]))
        estimate(rollout, config.discount, config.gae_lambda, mean, spread)
        targets = rollout.target.astype(np.float64)
        self._count_returns(targets)
        new_mean, new_spread = float(self._returns[0]), math.sqrt(float(self._returns[1]))
        # The head is rescaled so that the value it stands for stays what it was (PopArt).
        offsets = part(self.params, "offsets")
        part(self.params, "value")[:] *= spread / new_spread
        offsets[2] = (offsets[2] * spread + mean - new_mean) / new_spread
        rollout.target[:] = (targets - new_mean) / new_spread
        advantages = rollout.advantage.astype(np.float64)
        rollout.advantage[:] = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

    def _count_returns(self, values: F64) -> None:
        """Merge the mean and variance of `values` into those of all returns so far."""
        mean, variance, number = self._returns
        change, total = values.mean() - mean, number + values.size
        spread = variance * number + values.var() * values.size + change**2 * number * values.size / total
        self._returns[:] = mean + change * values.size / total, max(spread / total, 1e-8), total

    def _descend(self, weights: F32, rate: float) -> Iterator[F64]:
        """Epochs of minibatches; yields the mean figures of each."""
        config = self.config
        for _ in range(config.epochs):
            shuffle(self._order, self._rng)
            for samples in np.array_split(self._order, config.minibatches):
                weights[3] = 1.0 / len(samples)
                means = self._descend_once(samples, weights, rate)
                yield means
                if 0.0 < config.target_kl < means[_KL]:
                    return

    def _descend_once(self, samples: I64, weights: F32, rate: float) -> F64:
        self._counts[1] += 1
        if self._gpu is not None:
            step = (rate, int(self._counts[1]))
            means, length = self._gpu.step(samples, weights, step, self.config.max_gradient)
            self._check_finite(means, length)
            return means
        chunks = np.array_split(samples, _CHUNKS)

        def task(thread: int, i: int) -> None:
            out = (self._gradients[i], self._sums[i])
            gradient_of(self.params, self._rollouts[thread], self._works[thread], chunks[i], weights, out)

        self._threads.each(task, _CHUNKS)
        length = add_gradients(self._gradients, self._total)
        means = self._sums.sum(axis=0) / len(samples)
        self._check_finite(means, length)
        if length > self.config.max_gradient:
            self._total *= self.config.max_gradient / length
        adam(self.params, self._total, self._moments, int(self._counts[1]), rate)
        return means

    def _check_finite(self, means: F64, length: float) -> None:
        if not math.isfinite(length) or not np.isfinite(means).all():
            raise WorkError(
                f"the loss is not a number in update {self.update + 1}: "
                "lower the learning rate, or look for rewards that are not finite"
            )

    def capture(self) -> Arrays:
        """Everything it takes to go on later exactly as if nothing had happened, lanes included."""
        return {**{name: array.copy() for name, array in self._changing().items()}, **self.batch.capture()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take up what `capture` of an equal learner returned."""
        for name, array in self._changing().items():
            if name in _LATER and name not in saved:
                continue
            if name not in saved or saved[name].shape != array.shape:
                raise WorkError(f"the saved state does not fit: {name}")
            array[...] = saved[name]
        self.batch.restore(saved)

    def _changing(self) -> Arrays:
        return {
            "params": self.params,
            "moments": self._moments,
            "rng": self._rng,
            "order": self._order,
            "counts": self._counts,
            "returns": self._returns,
            "latest": self._latest,
        }

    def close(self) -> None:
        """Let the threads, and the GPU's hold on our memory, go."""
        self._threads.close()
        if self._gpu is not None:
            self._gpu.close()


def _gpu_descent(device: Device, rollout: Rollout) -> TorchDescent | None:
    """Torch's steps where a GPU is to be used; otherwise the kernels', without torch."""
    if not uses_cuda(device):
        return None
    from proreus.worlds.pods.training.torch_descent import TorchDescent

    return TorchDescent(rollout, "cuda")
