"""Generated requests: a load that follows the day and the week, bursts, and lengths as people write them.

Arrivals are a renewal process whose clock runs as fast as the load is high: its coefficient of variation says
how bursty they are from one to the next, a slow random factor how much whole minutes differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.model.errors import UsageError
from proreus.worlds.inference.model.requests import RequestTrace

DAY, WEEK = 86_400.0, 604_800.0
_MOST_REQUESTS = 1e8
"""What memory has room for, and more than a fortnight at fifty a second."""
_STEP = 10.0
"""Seconds for which the load is taken as constant."""


@dataclass(frozen=True)
class Lengths:
    """Tokens of prompts and outputs: log-normal, cut at both ends."""

    prompt_log_mean: float
    prompt_log_std: float
    output_log_mean: float
    output_log_std: float
    most_prompt: int
    most_output: int


CONVERSATION = Lengths(6.63, 0.99, 5.02, 0.86, 8_192, 1_000)
"""As in the conversation trace that Azure published in 2023."""


@dataclass(frozen=True)
class Load:
    """Requests a second, over time."""

    rate: float = 10.0
    """Mean."""
    seconds: float = 3_600.0
    daily: float = 0.0
    """Share by which the busiest hour of a day exceeds the mean, and the quietest falls below it."""
    weekly: float = 0.0
    """Share by which workdays exceed weekends."""
    unrest: float = 0.0
    """Standard deviation of the logarithm of a factor that changes over minutes."""
    variation: float = 1.0
    """Coefficient of variation from one arrival to the next; 1: as by chance."""
    begins: float = 0.0
    """Seconds since midnight between Sunday and Monday."""
    day_seconds: float = DAY
    """Of a day, where days are to pass faster."""
    urgent: float = 1.0
    """Share of requests of the first class of service; the others are of the second."""
    lengths: Lengths = CONVERSATION
    profile: tuple[float, ...] = ()
    """Factors of the rate in equal parts of the time, on top of day and week."""

    def __post_init__(self) -> None:
        for name in ("rate", "seconds", "variation", "day_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is not a number above 0")
        if self.rate * self.seconds > _MOST_REQUESTS:
            raise UsageError(
                f"rate {self.rate:g} for {self.seconds:g} seconds: more than {_MOST_REQUESTS:,.0f} requests"
            )
        if not (0 <= self.daily < 1 and 0 <= self.weekly < 1 and 0 <= self.urgent <= 1 and self.unrest >= 0):
            raise UsageError("daily and weekly swings are shares below 1, urgent a share")
        if not all(0 <= factor < math.inf for factor in self.profile):
            raise UsageError("profile: factors of a rate are numbers from 0 on")


def generate(name: str, load: Load, seed: int) -> RequestTrace:
    """Requests that the seed determines."""
    return _generated(name, load, np.random.default_rng(seed))


def generate_in_parts(name: str, load: Load, seed: int, part: float = 3_600.0) -> Iterator[RequestTrace]:
    """So many seconds at a time, so that a long run needs no more memory than a short one.

    Each part is drawn anew: the unrest of its minutes does not go on where that of the last part was.
    """
    for number in range(int(np.ceil(load.seconds / part))):
        begins = number * part
        now = replace(load, seconds=min(part, load.seconds - begins), begins=load.begins + begins)
        request_trace = _generated(name, now, np.random.default_rng([seed, number]))
        yield replace(request_trace, arrival=request_trace.arrival + begins)


def _generated(name: str, load: Load, draw: np.random.Generator) -> RequestTrace:
    steps = int(np.ceil(load.seconds / _STEP))
    middles: F64 = (np.arange(steps, dtype=np.float64) + 0.5) * _STEP
    rates = shape(load, middles) * _unrest(load, steps, draw)
    return requests_at(name, arrivals(rates, _STEP, load, draw), load, draw)


def requests_at(name: str, arrival: F64, load: Load, draw: np.random.Generator) -> RequestTrace:
    """Requests of drawn lengths that come at those moments."""
    lengths, count = load.lengths, len(arrival)
    return RequestTrace(
        name,
        arrival,
        _tokens(draw, count, lengths.prompt_log_mean, lengths.prompt_log_std, lengths.most_prompt),
        _tokens(draw, count, lengths.output_log_mean, lengths.output_log_std, lengths.most_output),
        np.zeros(count, dtype=np.int32),
        (draw.random(count) >= load.urgent).astype(np.int32),
    )


def shape(load: Load, seconds: F64) -> F64:
    """Requests a second by day and week."""
    time = load.begins + seconds
    day = time / load.day_seconds
    swing = 1.0 + load.daily * np.cos(2 * np.pi * (day - 14.0 / 24.0))  # busiest at two in the afternoon
    weekend = (np.floor(day).astype(np.int64) % 7) >= 5
    rates = np.asarray(load.rate * swing * np.where(weekend, 1.0 - load.weekly, 1.0))
    if load.profile:
        part = np.clip(
            (seconds / load.seconds * len(load.profile)).astype(np.int64), 0, len(load.profile) - 1
        )
        rates = rates * np.array(load.profile)[part]
    return rates


def arrivals(rates: F64, step: float, load: Load, draw: np.random.Generator) -> F64:
    """Moments of a renewal process whose clock runs with the rates, one for each step."""
    passed = np.concatenate([[0.0], np.cumsum(rates * step)])
    order = 1.0 / load.variation**2
    count = int(passed[-1] + 8 * load.variation * np.sqrt(passed[-1]) + 50)
    ticks = np.cumsum(draw.gamma(order, 1.0 / order, count))
    moments = np.interp(ticks[ticks < passed[-1]], passed, np.arange(len(passed)) * step)
    moment = moments[moments < load.seconds]
    return moment if moment.size else np.zeros(1)


def _unrest(load: Load, steps: int, draw: np.random.Generator) -> F64:
    """A factor around one that forgets half of itself in about two minutes."""
    keep = 0.5 ** (_STEP / 120.0)
    noise, level = draw.normal(size=steps), np.zeros(steps)
    now = draw.normal()
    for place in range(steps):
        now = keep * now + np.sqrt(1.0 - keep**2) * noise[place]
        level[place] = now
    return np.asarray(np.exp(load.unrest * level - load.unrest**2 / 2))


def _tokens(draw: np.random.Generator, count: int, mean: float, std: float, most: int) -> I32:
    return np.clip(np.exp(draw.normal(mean, std, count)).round(), 1, most).astype(np.int32)
