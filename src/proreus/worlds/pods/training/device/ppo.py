"""PPO whose worlds, advantages, minibatches and optimiser all stay on one device.

The same algorithm and settings as `fused_ppo`, which plays on the host's cores: its loss, its advantages, its
normalisation of returns and its optimiser. What is different: lanes come to their choices each in its own
time, and minibatches are drawn in another order. The host is told once an update how it went.

E lanes, S rows of a rollout, B a minibatch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F32
from proreus.learning.clipped_loss import LossTerms, Taken, clipped_terms
from proreus.learning.optimiser import linear
from proreus.learning.step import Update
from proreus.learning.tensor_lanes.advantages import choice_advantages
from proreus.learning.tensor_lanes.cuda_graphs import replayed
from proreus.learning.tensor_lanes.rollout import DevicePlayer, DeviceRollout, Judged
from proreus.learning.tensor_lanes.splitmix import ahead, bits
from proreus.learning.tensor_lanes.triton_support import kernels_run_on
from proreus.model.errors import UsageError, WorkError
from proreus.worlds.pods.policies.scorer import initial_parameters
from proreus.worlds.pods.policies.torch_networks import bids_of, parts_of
from proreus.worlds.pods.training.device.fused_scorer import (
    FusedJudge,
    Slots,
    loss_gradient,
)
from proreus.worlds.pods.training.device.lanes import DeviceLanes
from proreus.worlds.pods.training.device.step import Seen
from proreus.worlds.pods.training.fused_ppo import FusedPPOConfig
from proreus.worlds.pods.training.torch_adam import CLIP, LENGTH, TorchAdam


def device_ppo(
    config: FusedPPOConfig, lanes: DeviceLanes, *, initial: F32 | None = None, saved: Arrays | None = None
) -> Iterator[Update]:
    """Train, yielding after every update; from `initial` parameters, or from where `saved` left off."""
    learner = DevicePPO(config, lanes, initial)
    if saved is not None:
        learner.restore(saved)
    while learner.update < learner.updates:
        yield learner.learn()


class DevicePPO:
    """Parameters, optimiser and lanes of one training run on one device."""

    def __init__(self, config: FusedPPOConfig, lanes: DeviceLanes, initial: F32 | None = None) -> None:
        self.config, self.lanes = config, lanes
        device, steps = lanes.device, config.rollout_steps
        self._slots = (steps + 1) * len(lanes)  # a choice may be learned from in all rows but the last
        if self._slots < config.minibatches:
            raise UsageError("more minibatches than choices in an update")
        first = initial_parameters(config.seed) if initial is None else initial.astype(np.float32)
        self._fused = kernels_run_on(device)
        self._adam = TorchAdam(device)
        self._adam.params.copy_(torch.from_numpy(first))
        # Mean, variance and number of the returns seen; then mean and spread as the values were played with.
        self._seen_returns = torch.tensor([0.0, 1.0, 1e-4], dtype=torch.float64, device=device)
        self._scale = torch.tensor([0.0, 1.0], dtype=torch.float64, device=device)
        self._rng = torch.tensor([config.seed + 0x5EED], dtype=torch.int64, device=device)
        self._counts = np.zeros(2, dtype=np.int64)  # updates, choices learned from
        self._latest = np.array([math.nan])
        self._player = DevicePlayer(lanes, judging(lanes, self._adam.params, self._scale), steps)
        wide = self._player.rollout.value.shape
        self._advantage = torch.zeros(wide, device=device)
        self._target = torch.zeros(wide, device=device)
        self._learned = torch.zeros(wide, dtype=torch.bool, device=device)
        self._order = torch.arange(self._slots, device=device)
        self._chosen = torch.zeros(self._slots // config.minibatches, dtype=torch.int64, device=device)
        made = [self._advantage, self._target, self._learned, self._seen_returns, self._scale]
        self._estimate = replayed(self.prepare_targets, [*made, self._adam.params], device)
        self._descend: Callable[[], None] | None = None
        self.aside: dict[str, float] = {}
        """What of the last update no journal has: the share of its time that the worlds played."""

    @property
    def update(self) -> int:
        return int(self._counts[0])

    @property
    def updates(self) -> int:
        """In all; a lane has a choice in most of its steps, not in all: as many as there would be then."""
        return -(-self.config.steps // (len(self.lanes) * self.config.rollout_steps))

    def play(self) -> DeviceRollout:
        """One rollout of all lanes, with the parameters as they are."""
        return self._player.play()

    def learn(self) -> Update:
        config, begin = self.config, time.perf_counter()
        done = self.update / max(self.updates - 1, 1)
        rate = linear(config.learning_rate, config.learning_rate_end, done)
        entropy = linear(config.entropy, config.entropy_end, done)
        self.play()
        self._wait()
        played = time.perf_counter()
        self._estimate()
        self._adam.begin(
            [config.clip, config.value_weight, entropy, rate, config.max_gradient, config.target_kl]
        )
        self._descend = self._descend or replayed(self.descend, self._adam.kept(), self.lanes.device)
        for _ in range(config.epochs):
            self._shuffle()
            for chunk in torch.split(self._order, len(self._chosen))[: config.minibatches]:
                self._chosen.copy_(chunk)
                self._descend()
        log = (self._adam.log / self._adam.steps).cpu().numpy()
        self._check(log)
        self._counts += 1, int(self._learned.sum())
        seconds = time.perf_counter() - begin
        self.aside = {"playing": (played - begin) / seconds, "policy_loss": float(log[0])}
        return Update(
            number=self.update,
            total=self.updates,
            figures={
                "steps": float(self.update * len(self.lanes) * config.rollout_steps),
                "steps_per_second": int(self._learned.sum()) / seconds,
                "return": self._ended_return(),
                "entropy": float(log[2]),
                "kl": float(log[3]),
                "clip_fraction": float(log[4]),
                "value_loss": float(log[1]),
            },
            tensors=lambda: {"parameters": self._adam.params.cpu().numpy().copy()},
            state=self.capture,
        )

    def _wait(self) -> None:
        if self.lanes.device.type == "cuda":
            torch.cuda.synchronize()

    def _check(self, log: np.ndarray[Any, Any]) -> None:
        self.lanes.world.check()
        if not np.isfinite(log[: LENGTH + 1]).all():
            raise WorkError(
                f"the loss is not a number in update {self.update + 1}: "
                "lower the learning rate, or look for rewards that are not finite"
            )

    def _ended_return(self) -> float:
        """Mean return of the episodes that ended in this update, else of those before."""
        episodes, total = self.lanes.world.ended_returns()
        if episodes:
            self._latest[0] = total / episodes
        return float(self._latest[0])

    def _shuffle(self) -> None:
        """Every order of the choices as likely as any other."""
        keys = bits(ahead(self._rng, torch.arange(1, self._slots + 1, device=self._rng.device)))
        self._rng.copy_(ahead(self._rng, self._slots))
        self._order.copy_(torch.argsort(keys, stable=True))

    @torch.no_grad()
    def prepare_targets(self) -> None:
        """Advantages with mean 0 and spread 1; returns, and the value head with them, likewise over time."""
        rollout, config = self._player.rollout, self.config
        advantage, learned = choice_advantages(rollout, (config.discount, config.gae_lambda))
        target = advantage + rollout.value
        before = self._scale.clone()
        _count_returns(self._seen_returns, target, learned)
        self._scale.copy_(torch.stack([self._seen_returns[0], self._seen_returns[1].sqrt()]))
        mean, spread = self._scale
        # The head is rescaled so that the value it stands for stays what it was (PopArt).
        weights = parts_of(self._adam.params)
        weights["value"].mul_((before[1] / spread).float())
        offset = weights["offsets"][2]
        offset.copy_((offset.double() * before[1] + before[0] - mean) / spread)
        self._target.copy_((target - mean) / spread)
        middle, variance, _ = _moments(advantage, learned)
        self._advantage.copy_((advantage - middle) / (variance.sqrt() + 1e-8))
        self._learned.copy_(learned)

    def descend(self) -> None:
        """One step of the optimiser over the chosen minibatch."""
        share = self._learned.flatten()[self._chosen].double()
        share = share / share.sum().clamp(min=1.0)
        if self._fused:
            adam = self._adam
            adam.move(*loss_gradient(adam.params, self._all_slots(), self._chosen, share, adam.settings))
            return
        vector = self._adam.vector()
        self._adam.step(vector, self._losses(vector), share)

    def _all_slots(self) -> Slots:
        rollout = self._player.rollout
        rows, context, allowed = (
            column.flatten(0, 1) for column in (rollout.rows, rollout.context, rollout.allowed)
        )
        return Slots(rows, context, allowed, self._taken())

    def _taken(self) -> Taken:
        """What was chosen in all slots."""
        rollout = self._player.rollout
        columns = rollout.action, rollout.log_chance, self._advantage, self._target
        return Taken(*(column.flatten() for column in columns))

    def _losses(self, vector: Tensor) -> LossTerms:
        rollout, chosen = self._player.rollout, self._chosen
        allowed = rollout.allowed.flatten(0, 1)[chosen]
        nodes = rollout.rows.shape[2]
        rows, context = rollout.rows.flatten(0, 1)[chosen], rollout.context.flatten(0, 1)[chosen]
        bids, heads, value = bids_of(parts_of(vector), rows, allowed[:, :nodes], context)
        logits = torch.cat([bids, heads], 1).masked_fill(~allowed, -math.inf)
        taken = Taken(*(column[chosen] for column in self._taken()))
        return clipped_terms(logits, allowed, value, taken, self._adam.settings[CLIP].float())

    def capture(self) -> Arrays:
        """Everything it takes to go on later exactly as if nothing had happened, lanes included."""
        rollout = self._player.rollout
        under_way = {f"rollout.{name}": column for name, column in rollout.columns().items()}
        tensors = {**self._changing(), **under_way}
        return {
            **{name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()},
            "counts": self._counts.copy(),
            "latest": self._latest.copy(),
            **self.lanes.capture(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take up what `capture` of an equal learner returned."""
        self.lanes.take_up(saved)
        self._player.restart()
        rollout = self._player.rollout
        under_way = {f"rollout.{name}": column for name, column in rollout.columns().items()}
        for name, tensor in {**self._changing(), **under_way}.items():
            if name not in saved or saved[name].shape != tuple(tensor.shape):
                raise WorkError(f"the saved state does not fit: {name}")
            tensor.copy_(torch.from_numpy(np.array(saved[name])))
        self._counts[:], self._latest[:] = saved["counts"], saved["latest"]

    def _changing(self) -> dict[str, Tensor]:
        return {
            "params": self._adam.params,
            "moments": self._adam.moments,
            "optimiser_steps": self._adam.count,
            "returns": self._seen_returns,
            "scale": self._scale,
            "rng": self._rng,
        }


def judging(lanes: DeviceLanes, params: Tensor, returns: Tensor) -> Callable[[Seen], Judged]:
    """What the scorer makes of choices, with the parameters as they are when it is asked.

    returns: float64[2], mean and spread of what values stand for.
    """
    heads = lanes.world.rules.may_delay, lanes.world.rules.may_reject
    if kernels_run_on(lanes.device):
        return FusedJudge(params, returns, heads)
    others = torch.tensor(heads, device=lanes.device).expand(len(lanes), 2)

    def judge(seen: Seen) -> Judged:
        bids, of_heads, value = bids_of(parts_of(params), seen.rows, seen.legal, seen.context)
        allowed = torch.cat([seen.legal, others], 1) | ~seen.ready[:, None]
        logits = torch.cat([bids, of_heads], 1).masked_fill(~allowed, -math.inf)
        return Judged(allowed, torch.log_softmax(logits, 1), value.double() * returns[1] + returns[0])

    return judge


def _moments(values: Tensor, counted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and number of the values that count."""
    number = counted.sum().double().clamp(min=1.0)
    mean = torch.where(counted, values, 0.0).sum() / number
    return mean, torch.where(counted, (values - mean).square(), 0.0).sum() / number, number


def _count_returns(returns: Tensor, values: Tensor, counted: Tensor) -> None:
    """Merge the mean and variance of some values into those of all returns so far; in place."""
    mean, variance, number = returns
    new_mean, new_variance, new = _moments(values, counted)
    change, total = new_mean - mean, number + new
    spread = variance * number + new_variance * new + change.square() * number * new / total
    returns.copy_(torch.stack([mean + change * new / total, (spread / total).clamp(min=1e-8), total]))
