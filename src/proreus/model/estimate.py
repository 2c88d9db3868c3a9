"""The mean of some values with its 95 % Student-t interval.

SciPy is not needed at run time: the t distribution comes from the continued fraction of the incomplete beta
function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and where the true one lies with 95 % confidence."""

    mean: float
    low: float | None
    """None where one value allows no interval."""
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of at least one value with its interval."""
    n = len(values)
    if n == 1:
        return Estimate(values[0], None, None, 1)
    if min(values) == max(values):
        # Exactly, and not up to the rounding of a sum.
        return Estimate(values[0], values[0], values[0], n)
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = student_t_quantile(0.5 + CONFIDENCE / 2, n - 1) * deviation / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


@lru_cache(maxsize=1024)
def student_t_quantile(probability: float, freedom: int) -> float:
    """The value that a t-distributed variable stays below with that probability (at least one half)."""
    if not 0.5 <= probability < 1 or freedom < 1:
        raise ValueError(f"no quantile {probability} with {freedom} degrees of freedom")
    both_tails = 2 * (1 - probability)
    low, high = 0.0, 1.0
    while _both_tails_beyond(high, freedom) > both_tails:
        low, high = high, 2 * high
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if _both_tails_beyond(middle, freedom) > both_tails:
            low = middle
        else:
            high = middle


def _both_tails_beyond(value: float, freedom: int) -> float:
    """P(|T| > value)."""
    square = value * value
    # The two arguments add up to one; the smaller is computed directly, or it would lose its digits.
    return _incomplete_beta(freedom / (freedom + square), square / (freedom + square), freedom / 2, 0.5)


def _incomplete_beta(x: float, one_minus_x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or one_minus_x <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log(one_minus_x))
    # The fraction converges fast on one side of the mean only; symmetry gives the other side.
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(one_minus_x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for coefficient in (even, odd):
            d = 1.0 / (1.0 + coefficient * d or tiny)
            c = 1.0 + coefficient / c or tiny
            change = c * d
            fraction *= change
        if abs(change - 1.0) < 1e-15:
            break
    return fraction
