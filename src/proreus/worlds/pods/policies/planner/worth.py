"""What is left on a device in the end, by what is left now: learned from futures that were played."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.worlds.pods.state.devices import LEVEL, LEVELS

FADE = 0.1
"""What a future tells of later counts less: by 1/e with every tenth of the capacity that was asked for."""
_PRIOR = 3.0
"""Visits that what is known of the next lower level counts as."""


def sums_of(visits: tuple[I64, I64, F64], ended: I64) -> F64:
    """float64[2, LEVELS]: weights, and weighted milli-GPU left in the end, by the level that was visited.

    visits: int64[V] devices, int64[V] what they had left, float64[V] when; ended: int64[devices], what each
    has left in the end.
    """
    place, left, when = visits
    weight = np.exp(-when / FADE)
    level = left // LEVEL
    return np.stack(
        [
            np.bincount(level, weight, LEVELS),
            np.bincount(level, weight * ended[place], LEVELS),
        ]
    )


def worth_of(sums: F64) -> F64:
    """float64[LEVELS]: milli-GPU expected to be left in the end on a device with so much left now.

    A level that was hardly visited is judged by the one below it: what fits there fits here, and the rest
    stays idle.
    """
    worth = np.zeros(LEVELS)
    for level in range(1, LEVELS):
        weight, total = sums[:, level]
        expected = min(worth[level - 1] + LEVEL, level * LEVEL)
        worth[level] = (total + _PRIOR * expected) / (weight + _PRIOR)
    return worth


def ahead(
    futures: Sequence[F64], worth: F64, ours: tuple[int, int], theirs: tuple[int, int]
) -> tuple[int, int]:
    """(futures in which our choice loses less, futures that tell the two apart).

    A choice: the levels of its device before and after. What a future did not visit it does not know; there
    it takes the mean of all.
    """
    better = decisive = 0
    for weight, total in futures:
        alone = (total + _PRIOR * worth) / (weight + _PRIOR)
        difference = (alone[theirs[1]] - alone[theirs[0]]) - (alone[ours[1]] - alone[ours[0]])
        if any(weight[level] > 0 for level in {*ours, *theirs} - {0}):
            decisive += 1
            better += bool(difference > 0)
    return better, decisive
