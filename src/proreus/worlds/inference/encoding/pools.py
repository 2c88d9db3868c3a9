"""A row of features for each pool and a context for all of them, from an observation alone.

Loads are in what the pool can do and times in what a start takes, so that a network that has seen three
instances serves thirty, and prompt, token and mixed pools are scored by the same weights.
"""

from __future__ import annotations

import math

import numpy as np

from proreus.kernels.arrays import F32
from proreus.worlds.inference.encoding.demand import ArrivalRates, arrivals_of, demand_of
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen

VERSION = "inference-pools-1"
MOST = 5.0
"""No feature is further from zero."""
_DAY = 86_400.0
_TINY = 1e-9

FEATURES = (
    "load that comes, in what active and starting instances can do",
    "load that is expected when a start would be done",
    "load that is likely at most then",
    "log backlog, in seconds of the active instances",
    "log waiting requests for each active instance",
    "log running requests for each active instance",
    "KV memory in use",
    "busy",
    "share of the pool that is starting",
    "soonest start, in what a start takes",
    "share of the pool that is draining",
    "one instance, as a share of the pool",
    "computes prompts",
    "generates tokens",
)
CONTEXT = (
    "log load of the last half minute over the level",
    "log expected load over the level",
    "log likely most over what is expected",
    "log highest of the last hour over the level",
    "log lowest of the last hour over the level",
    "log of what followed an hour ago",
    "time to the first token, 90th percentile, in what was promised",
    "time between tokens, 90th percentile, in what was promised",
    "missed promises",
    "log minutes that a start takes",
    "log intervals that a start takes",
    "log requests at the router",
    "share of the most instances that is free",
    "sine of the time of day",
    "cosine of the time of day",
)
SIZES = (len(FEATURES), len(CONTEXT))


def encode(seen: InferenceObservation, known: ArrivalRates | None = None) -> tuple[F32, F32]:
    """(rows [pools, F], context [G]); `known`: the arrivals, where they are worked out already."""
    arrivals = known or arrivals_of(seen)
    rows = np.array([_row(seen, pool, arrivals) for pool in seen.pools])
    return _bounded(rows), _bounded(np.array(_context(seen, arrivals)))


def _row(seen: InferenceObservation, pool: PoolSeen, arrivals: ArrivalRates) -> tuple[float, ...]:
    demand = demand_of(seen, pool.role)
    coming, active = max(pool.coming, 1), max(pool.active, 1)
    return (
        arrivals.level * demand.each / coming,
        arrivals.expected * demand.each / coming,
        arrivals.likely_most * demand.each / coming,
        math.log1p(demand.backlog / active),
        math.log1p(pool.waiting / active),
        math.log1p(pool.running / active),
        pool.kv_use,
        pool.busy,
        len(pool.starting) / coming,
        min(pool.starting) / max(seen.start_seconds, _TINY) if pool.starting else 0.0,
        pool.draining / coming,
        1.0 / coming,
        float(pool.role != "token"),
        float(pool.role != "prompt"),
    )


def _context(seen: InferenceObservation, arrivals: ArrivalRates) -> tuple[float, ...]:
    level, traffic = arrivals.level, seen.traffic
    time_of_day = 2.0 * math.pi * (seen.now % _DAY) / _DAY
    return (
        _log_ratio(arrivals.lately, level),
        _log_ratio(arrivals.expected, level),
        _log_ratio(arrivals.likely_most, arrivals.expected),
        _log_ratio(arrivals.highest, level),
        _log_ratio(arrivals.lowest, level),
        math.log(arrivals.hour_ago),
        traffic.ttft_slack,
        traffic.tbt_slack,
        1.0 - traffic.met,
        math.log1p(seen.start_seconds / 60.0),
        math.log1p(seen.start_seconds / seen.interval),
        math.log1p(seen.at_router),
        seen.room / max(seen.limits.most_in_total, 1),
        math.sin(time_of_day),
        math.cos(time_of_day),
    )


def _log_ratio(one: float, other: float) -> float:
    return math.log((one + _TINY) / (other + _TINY))


def _bounded(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> F32:
    """Neither endless nor no number: what a service measures may be either."""
    finite = np.nan_to_num(values, nan=0.0, posinf=MOST, neginf=-MOST)
    return np.clip(finite, -MOST, MOST).astype(np.float32)
