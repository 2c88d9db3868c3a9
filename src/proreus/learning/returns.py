"""Sums of rewards: over whole episodes, over n steps, as generalised advantages. T steps, E lanes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool

Column = Any
"""An array of NumPy or a tensor of torch."""


class Returns:
    """Undiscounted returns of episodes that run side by side; the latest that ended are kept for reports."""

    def __init__(self, lanes: int, remembered: int) -> None:
        self.running = np.zeros(lanes)
        """[E] of the episodes that have not ended."""
        self.latest: list[float] = []
        self.episodes = 0
        """That have ended."""
        self._remembered = remembered

    def add(self, rewards: F64, ended: Bool) -> None:
        """One step of every lane, both [E]."""
        self.running += rewards
        self.latest = [*self.latest, *self.running[ended].tolist()][-self._remembered :]
        self.episodes += int(ended.sum())
        self.running[ended] = 0.0

    @property
    def mean(self) -> float:
        """Of the latest; NaN before the first has ended."""
        return float(np.mean(self.latest)) if self.latest else math.nan


def n_step_returns(rewards: F64, ends: Bool, steps: int, discount: float) -> tuple[F64, F64, I64]:
    """(sums, weights of what follows, index of what follows) of each choice, all [T, E].

    A sum stops at the end of its episode, and after T steps: the last choices look less far ahead.
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


def advantages(rewards: F64, ends: Bool, values: F64, weights: tuple[float, float]) -> F64:
    """Generalised advantages [T, E] of rewards and ends [T, E] and values [T + 1, E]; discount and lambda."""
    return np.array(advantage_steps(rewards, ends, values, weights))


def advantage_steps(
    rewards: Column, ends: Column, values: Column, weights: tuple[float, float]
) -> list[Column]:
    """`advantages` step by step, [T] of [E], of arrays and tensors alike: host and device stand on this."""
    discount, gae_lambda = weights
    backwards: list[Column] = []
    running: Column | float = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        on = ~ends[t]  # last: torch makes single precision of a number times a bool
        surprise = rewards[t] + discount * values[t + 1] * on - values[t]
        running = surprise + discount * gae_lambda * running * on
        backwards.append(running)
    return backwards[::-1]
