"""Adam over a flat vector, and schedules: pure functions that learners share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from proreus.kernels.arrays import F32, F64
from proreus.kernels.jit import compiled

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-5


def linear(first: float, last: float, done: float) -> float:
    """From `first` to `last` as `done` goes from 0 to 1."""
    return first + (last - first) * min(max(done, 0.0), 1.0)


@compiled
def add_gradients(parts: F32, total: F64) -> float:
    """total: float64[P], the sum of parts: float32[.., P] in their order; returns its length."""
    square = 0.0
    for p in range(total.shape[0]):
        whole = 0.0
        for k in range(parts.shape[0]):
            whole += parts[k, p]
        total[p] = whole
        square += whole * whole
    return math.sqrt(square)


@compiled
def adam(params: F32, gradient: F64, moments: F64, count: int, rate: float) -> None:
    """One step down the gradient, the count-th from 1 on; moments: float64[2, P]."""
    first_share = 1.0 - BETA1**count
    second_share = 1.0 - BETA2**count
    for p in range(params.shape[0]):
        derivative = gradient[p]
        first = BETA1 * moments[0, p] + (1.0 - BETA1) * derivative
        second = BETA2 * moments[1, p] + (1.0 - BETA2) * derivative * derivative
        moments[0, p], moments[1, p] = first, second
        step = rate * (first / first_share) / (math.sqrt(second / second_share) + EPSILON)
        params[p] = np.float32(params[p] - step)


# Values that change as training goes on: pure functions of how far it has come.


def linear_decay(x: float, points: Sequence[float], values: Sequence[float]) -> float:
    """The value at `x` of the line through (points[i], values[i]); level before the first and after the last.

    >>> linear_decay(50, [0, 25, 90, 100], [0.9, 0.5, 0.2, 0.2])
    0.3846153846153846
    """
    if not points or len(points) != len(values):
        raise ValueError(f"{len(points)} points and {len(values)} values do not make a line")
    if list(points) != sorted(points):
        raise ValueError(f"the points {list(points)} do not rise")
    return float(np.interp(x, points, values))
