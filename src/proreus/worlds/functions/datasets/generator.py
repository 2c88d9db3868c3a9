"""Requests as clouds have them: few functions are most of the load, and gaps are anything but exponential."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.functions.datasets.profiles import (
    Profile,
    draw_cold,
    draw_gaps,
    draw_profile,
    draw_seconds,
)
from proreus.worlds.functions.model import Demand, FunctionsTerms

_LEAST_REQUESTS = 2.0
"""That a function has in a run, on average: what comes once is a cold start under any policy."""
_MOST_SHARE = 0.25
"""Of the load that one function may be: with few functions one of them would be all of it."""
_CHUNK = 64


def draw_demand(
    draw: np.random.Generator, functions: int, horizon: float, load: float, terms: FunctionsTerms
) -> Demand:
    """So many functions whose requests together use a share of all nodes' CPU, on average."""
    profiles = [draw_profile(draw, number, _LEAST_REQUESTS / horizon) for number in range(functions)]
    work = np.array([profile.function.cpu_use / 1_000 * profile.function.standard for profile in profiles])
    rates = scaled_rates(
        np.array([profile.rate for profile in profiles]), work, load * terms.column("cpu").sum() / 1_000
    )
    streams = [
        _arrivals(draw, float(rate), profile.spread, horizon)
        for rate, profile in zip(rates, profiles, strict=True)
    ]
    if not any(stream.size for stream in streams):
        streams[0] = np.array([draw.random() * horizon])
    return merge_streams(draw, profiles, streams, horizon)


def scaled_rates(rates: F64, work: F64, cores: float) -> F64:
    """Requests a second that use so many cores together, none of the functions more than its share.

    Where the largest have all of that, the others keep coming as often as they did, at most as much again.
    """
    use = rates * work
    most = max(_MOST_SHARE, 1.5 / use.size) * cores
    large = np.zeros(use.size, dtype=np.bool_)
    while not large.all():
        left = max(cores - most * large.sum(), 0.0)
        grown = np.where(large, most, use * left / use[~large].sum())
        above = ~large & (grown > most)
        if not above.any():
            return np.maximum(grown, np.minimum(use, most / use.size)) / work
        large |= above
    return np.full(use.size, cores / use.size) / work


def merge_streams(
    draw: np.random.Generator, profiles: list[Profile], streams: list[F64], horizon: float
) -> Demand:
    """The requests of all functions in order of arrival; of equals the lower function first."""
    counts = [stream.size for stream in streams]
    arrival = np.concatenate(streams)
    function = np.repeat(np.arange(len(profiles), dtype=np.int32), counts)
    seconds = np.concatenate(
        [
            draw_seconds(draw, profile.function.standard, count)
            for profile, count in zip(profiles, counts, strict=True)
        ]
    )
    cold = np.concatenate(
        [draw_cold(draw, profile.cold, count) for profile, count in zip(profiles, counts, strict=True)]
    )
    order = np.argsort(arrival, kind="stable")
    return Demand(
        tuple(profile.function for profile in profiles),
        arrival[order],
        function[order],
        seconds[order],
        cold[order],
        horizon,
    )


def _arrivals(draw: np.random.Generator, rate: float, spread: float, horizon: float) -> F64:
    """Up to the horizon; a bursty stream may begin anywhere between two bursts."""
    # The stream is taken up somewhere in its life, so that regular functions do not all begin with a gap.
    found = [-draw.random() * float(draw_gaps(draw, rate, spread, 1)[0])]
    times = np.array(found)
    while times[-1] < horizon:
        more = times[-1] + np.cumsum(draw_gaps(draw, rate, spread, _CHUNK + int(rate * horizon)))
        times = np.concatenate([times, more])
    kept: F64 = times[(times >= 0.0) & (times < horizon)]
    return kept
