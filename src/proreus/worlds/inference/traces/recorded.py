"""Recorded requests as work: parts that never meet, and loads scaled to a cluster."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from proreus.contract.scenario import Part
from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.traces.generate import DAY, Load, arrivals, requests_at
from proreus.worlds.inference.traces.readers import (
    SERVEGEN_SECONDS,
    read_any,
    read_azure,
    read_mooncake,
    read_servegen,
)

_PARTS: dict[Part, tuple[float, float]] = {"train": (0.0, 0.5), "valid": (0.5, 0.7), "test": (0.7, 1.0)}
"""Shares of a recording, in order of time."""
_DAYS: dict[Part, tuple[int, ...]] = {
    "train": (0, 1, 2, 3, 4, 5, 6),
    "valid": (7, 8),
    "test": (9, 10, 11, 12, 13),
}
"""Days of ServeGen's two weeks."""


def recorded(source: str, place: Path, load: Load, part: Part, seed: int) -> RequestTrace:
    """Requests of a part of the recording, at the mean rate of the load."""
    if source == "servegen":
        return _day_of(place, load, part, seed)
    return _hour_of(_read(source, place), load, part, seed)


@lru_cache(maxsize=4)
def _read(source: str, place: Path) -> RequestTrace:
    match source:
        case "azure":
            return read_azure(place)
        case "mooncake":
            return read_mooncake(place)
        case _:
            return read_any(place)


def _hour_of(trace: RequestTrace, load: Load, part: Part, seed: int) -> RequestTrace:
    """As recorded, laid over itself with shifts until the rate is that of the load."""
    span = float(trace.arrival[-1]) + 1e-9
    first, last = (share * span for share in _PARTS[part])
    chosen = np.flatnonzero((trace.arrival >= first) & (trace.arrival < last))
    if not chosen.size:
        raise InputError(f"has no requests in its part {part!r}", file=trace.name)
    seconds = min(last - first, load.seconds)
    draw = np.random.default_rng(seed)
    copies = max(round(load.rate * (last - first) / chosen.size), 1)
    moments, which, copy = [], [], []
    for number, shift in enumerate(draw.uniform(0.0, last - first, copies)):
        moved = (trace.arrival[chosen] - first + shift) % (last - first)
        kept = moved < seconds
        moments.append(moved[kept])
        which.append(chosen[kept])
        copy.append(np.full(int(kept.sum()), number))
    arrival, places = np.concatenate(moments), np.concatenate(which)
    order = np.argsort(arrival, kind="stable")
    places, copied = places[order], np.concatenate(copy)[order]
    return RequestTrace(
        trace.name,
        arrival[order],
        trace.prompt[places],
        trace.output[places],
        trace.model[places],
        trace.service[places],
        None if trace.prefix is None else trace.prefix.chosen(places, copied),
    )


@lru_cache(maxsize=2)
def _rates(place: Path) -> F64:
    return read_servegen(place)


def _day_of(place: Path, load: Load, part: Part, seed: int) -> RequestTrace:
    """One day of the two weeks, from where the load begins; its rates are brought to the mean rate of all
    days, and lengths are generated."""
    rates, days = _rates(place), _DAYS[part]
    day = days[seed % len(days)]
    windows = int(DAY / SERVEGEN_SECONDS)
    today = rates[day * windows : (day + 1) * windows]
    if today.size < windows:
        raise InputError(f"has no day {day}", file=place)
    first = int(load.begins // SERVEGEN_SECONDS) % windows
    last = first + max(math.ceil(load.seconds / SERVEGEN_SECONDS), 1)
    draw = np.random.default_rng([seed, day, first] if first else [seed, day])
    scaled = today[first:last] * (load.rate / rates.mean())
    return requests_at(f"servegen-{day}", arrivals(scaled, SERVEGEN_SECONDS, load, draw), load, draw)
