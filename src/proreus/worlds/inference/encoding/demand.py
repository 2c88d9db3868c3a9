"""How much work comes to each pool, in instances that it would keep busy: now, soon, at worst.

Requests are forecast, not tokens: how many come is known well after half a minute, how long they are on
average only after many more of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.forecast import Smoothing, forecast, smoothed
from proreus.worlds.inference.state.observation import Ability, InferenceObservation

_FOR_LENGTHS = 60
"""Intervals over which lengths of requests are averaged."""
_LATELY = 3
"""Intervals that say what comes at this moment."""
_AROUND = 3
"""Intervals on either side of a moment an hour ago."""
_BEYOND_DOUBT = 2.0
"""Standard deviations that chance is granted."""
_MEDIAN_OF_SQUARES = 0.455
"""Of a standard normal number."""
_TINY = 1e-9


@dataclass(frozen=True)
class ArrivalRates:
    """Requests a second, whatever the pool."""

    level: float
    """Smoothed, now."""
    lately: float
    """Mean of the last few intervals."""
    sudden: float
    """What the last intervals show beyond doubt: the most that chance does not explain, or the level."""
    expected: float
    """When an instance that is ordered now could serve."""
    likely_most: float
    """Then, exceeded one time in ten, by how far forecasts were off lately."""
    highest: float
    """Most that the level was within the history."""
    lowest: float
    hour_ago: float
    """What followed within a start an hour ago, over what had been then; 1 where there is no such hour."""


@dataclass(frozen=True)
class PoolDemand:
    """Of one pool."""

    each: float
    """Seconds that an instance of the pool works for a request, with all its others beside it."""
    backlog: float
    """Instances that would work off what waits within a second."""


def arrivals_of(seen: InferenceObservation) -> ArrivalRates:
    """From the history that an observation brings."""
    requests = np.ascontiguousarray(seen.history[:, :1])
    steps = max(math.ceil(seen.start_seconds / seen.interval), 1)
    soon = forecast(requests, steps)
    shape = Smoothing()
    # A trend that falls goes on below nothing for a while; requests do not.
    levels = np.maximum(smoothed(requests, shape.level, shape.trend, shape.damping)[0][:, 0], 0.0)
    settled = levels[min(_LATELY, len(levels) - 1) :]
    return ArrivalRates(
        level=float(levels[-1]),
        lately=float(requests[-_LATELY:].mean()),
        sudden=_sudden(requests[:, 0], levels, seen.interval),
        expected=float(soon.expected[0]),
        likely_most=float(soon.likely_most[0]),
        highest=float(settled.max()),
        lowest=float(settled.min()),
        hour_ago=_hour_ago(requests[:, 0], seen.interval, steps),
    )


def _sudden(requests: F64, levels: F64, interval: float) -> float:
    """A jump is seen in its first interval where it is larger than what intervals differ by."""
    level = float(levels[-1])
    before = np.maximum(levels[:-1][-_FOR_LENGTHS:], _TINY)
    if not before.size:
        return level
    # The median, so that a jump itself does not count as what intervals differ by.
    usual = np.median((requests[1:][-_FOR_LENGTHS:] - before) ** 2 / before) / _MEDIAN_OF_SQUARES
    spread = max(float(usual), 1.0 / interval)
    found = level
    for count in range(1, min(_LATELY, len(requests)) + 1):
        mean = float(requests[-count:].mean())
        found = max(found, mean - _BEYOND_DOUBT * math.sqrt(spread * mean / count))
    return found


def _hour_ago(requests: F64, interval: float, steps: int) -> float:
    """Loads of whole hours repeat where clients work by the clock."""
    hour = round(3600.0 / interval)
    first = len(requests) - hour
    if first < 0 or hour <= steps + _AROUND:
        return 1.0
    before = requests[first : first + 2 * _AROUND].mean()
    after = requests[max(first + steps - _AROUND, 0) : first + steps + _AROUND].mean()
    return float((after + _TINY) / (before + _TINY))


def demand_of(seen: InferenceObservation, role: Role) -> PoolDemand:
    """From the lengths of the last requests and from what is pending."""
    ability, pool = seen.ability(role), seen.pool(role)
    prompt, output = _lengths(seen)
    pending = pool.pending_tokens / ability.prompt_tokens if role != "token" else 0.0
    waiting = (pool.waiting + seen.at_router) * output / ability.output_tokens if role != "prompt" else 0.0
    return PoolDemand(_seconds(role, ability, prompt, output), pending + waiting)


def _lengths(seen: InferenceObservation) -> tuple[float, float]:
    """Tokens of a usual request: (its prompt, what it generates).

    Where none came lately those of the whole history tell: tokens may still be generated for requests that
    came before, and what is divided by nothing has no bound.
    """
    requests, prompts, outputs = (float(total) for total in seen.history[-_FOR_LENGTHS:].sum(axis=0))
    one = 1.0 / seen.interval
    if requests < one:
        requests, prompts, outputs = (float(total) for total in seen.history.sum(axis=0))
    return prompts / max(requests, one), outputs / max(requests, one)


def _seconds(role: Role, ability: Ability, prompt: float, output: float) -> float:
    match role:
        case "prompt":
            return prompt / ability.prompt_tokens
        case "token":
            return output / ability.output_tokens
        case "mixed":
            return prompt / ability.prompt_tokens + output / ability.output_tokens
