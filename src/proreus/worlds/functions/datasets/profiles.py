"""What functions are like, drawn from what was published: how often, how long, how large, how slow to start.

Azure 2019 (Shahrad et al.): rates over eight orders of magnitude, coefficients of variation of the gaps, a
lognormal for execution times, a Burr distribution for memory. Huawei (EuroSys 2025): a lognormal for cold
starts. Mampage et al. 2023: the CPU that instances ask for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.functions.model import Function

EXECUTION = (-0.38, 2.36)
"""mu and sigma of the logarithm of a function's mean execution time in seconds."""
_SHORTEST, _LONGEST = 0.02, 20.0
WITHIN = 0.3
"""Sigma of the logarithm of one request's time around the function's mean."""
MEMORY = (11.652, 0.221, 107.083)
"""c, k and scale (MB) of a Burr XII distribution."""
_LARGEST = 2_048
COLD = (0.297, 1.326)
"""mu and sigma of the logarithm of a cold start in seconds; two thirds of the variance are the function's."""
_COLD_OF_FUNCTION, _SLOWEST_START = 2.0 / 3.0, 60.0
_RESERVED = (50, 100, 150, 250, 400)
_CONCURRENCY = (1, 1, 2, 4, 8)
RATES = ((1e-5, 0.0), (1.0 / 86_400, 0.34), (1.0 / 3_600, 0.63), (1.0 / 60, 0.92), (10.0, 1.0))
"""Requests a second, and the share of functions that have fewer."""
SPREADS = ((0.1, 0.2), (1.0, 0.37), (1.5, 0.15), (3.0, 0.13), (7.0, 0.10), (12.0, 0.05))
"""Coefficient of variation of the gaps between requests, and the share of functions of that class."""


@dataclass(frozen=True)
class Profile:
    """A function, and how its requests come."""

    function: Function
    rate: float
    """Requests a second, before a scenario scales all of them."""
    spread: float
    """Coefficient of variation of the gaps."""
    cold: float
    """Seconds: the median of its cold starts."""


def draw_profile(draw: np.random.Generator, number: int, least_rate: float) -> Profile:
    """A function that has at least so many requests a second: others would not show up in a run."""
    standard = draw_standard(draw)
    concurrency = int(draw.choice(_CONCURRENCY))
    function = Function(
        name=f"f{number}",
        cpu=int(draw.choice(_RESERVED)),
        memory=draw_memory(draw),
        cpu_use=int(draw.integers(150, 1_001)),
        net=int(draw.integers(100, 8_001)),
        disk=int(draw.integers(5, 401)),
        concurrency=concurrency,
        standard=standard,
        kind=number,
    )
    rate = _rate_at(_share_below(least_rate) + (1.0 - _share_below(least_rate)) * draw.random())
    shares = np.array([share for _, share in SPREADS])
    spread = SPREADS[int(draw.choice(len(SPREADS), p=shares / shares.sum()))][0]
    return Profile(function, rate, spread, draw_cold_median(draw))


def draw_standard(draw: np.random.Generator) -> float:
    """Seconds that a request of some function takes on average."""
    return float(np.clip(draw.lognormal(*EXECUTION), _SHORTEST, _LONGEST))


def draw_memory(draw: np.random.Generator) -> int:
    """MB of an instance of some function."""
    c, k, scale = MEMORY
    drawn = scale * ((1.0 - draw.random()) ** (-1.0 / k) - 1.0) ** (1.0 / c)
    return int(np.clip(drawn, 64.0, _LARGEST))


def draw_cold_median(draw: np.random.Generator) -> float:
    """Seconds: the median of some function's cold starts."""
    return float(draw.lognormal(COLD[0], COLD[1] * np.sqrt(_COLD_OF_FUNCTION)))


def draw_seconds(draw: np.random.Generator, standard: float, count: int) -> F64:
    """[count] execution times with that mean."""
    lognormal: F64 = draw.lognormal(np.log(standard) - 0.5 * WITHIN**2, WITHIN, count)
    return lognormal


def draw_cold(draw: np.random.Generator, median: float, count: int) -> F64:
    """[count] cold starts."""
    sigma = COLD[1] * np.sqrt(1.0 - _COLD_OF_FUNCTION)
    minimum: F64 = np.minimum(median * draw.lognormal(0.0, sigma, count), _SLOWEST_START)
    return minimum


def draw_gaps(draw: np.random.Generator, rate: float, spread: float, count: int) -> F64:
    """[count] seconds between requests: gamma, whose shape gives the coefficient of variation."""
    shape = 1.0 / spread**2
    gamma: F64 = draw.gamma(shape, 1.0 / (rate * shape), count)
    return gamma


def _share_below(rate: float) -> float:
    at, shares = zip(*RATES, strict=True)
    return float(np.interp(np.log(rate), np.log(at), shares))


def _rate_at(share: float) -> float:
    at, shares = zip(*RATES, strict=True)
    return float(np.exp(np.interp(share, shares, np.log(at))))
