"""Recorded requests as work: parts that never meet, and loads scaled to a cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from proreus.contract.scenario import Part
from proreus.kernels.arrays import F64, I64
from proreus.model.errors import InputError, UsageError
from proreus.worlds.inference.datasets.generator import DAY, Load, arrivals, requests_at
from proreus.worlds.inference.datasets.readers import (
    SERVEGEN_SECONDS,
    read_azure,
    read_mooncake,
    read_own,
    read_servegen,
)
from proreus.worlds.inference.model.requests import RequestTrace

_PARTS: dict[Part, tuple[float, float]] = {"train": (0.0, 0.5), "valid": (0.5, 0.7), "test": (0.7, 1.0)}
"""Shares of a recording, in order of time."""
_DAYS: dict[Part, tuple[int, ...]] = {
    "train": (0, 1, 2, 3, 4, 5, 6),
    "valid": (7, 8),
    "test": (9, 10, 11, 12, 13),
}
"""Days of ServeGen's two weeks."""


@dataclass(frozen=True)
class Playback:
    """How a file of one's own is played: as it is, unless asked otherwise."""

    part: Part | Literal["whole"] = "whole"
    rate: float | None = None
    """Requests a second that it is laid over itself, or thinned out, to have; None: its own."""
    warp: float = 1.0
    """How many times as fast time passes."""
    seconds: float | None = None
    """After which no more come; None: to its last request."""

    def __post_init__(self) -> None:
        for name, value in (("rate", self.rate), ("warp", self.warp), ("seconds", self.seconds)):
            if value is not None and not 0.0 < value < math.inf:
                raise UsageError(f"--{name} {value:g}: is no number above 0")


@dataclass(frozen=True)
class PlayedBack:
    """Requests of a file as they come."""

    trace: RequestTrace
    of_file: int
    """Requests that the file has."""
    file_seconds: float
    """From its first request to its last."""

    @property
    def told(self) -> str:
        """What is played of the file, in words."""
        count, span = len(self.trace), float(self.trace.arrival[-1])
        rate = f", {(count - 1) / span:,.3g} a second" if span > 0 else ""
        whole = f"{self.of_file:,} requests of the file, which spans {self.file_seconds:,.1f} s"
        return f"{count:,} requests are played over {span:,.1f} s{rate}, out of {whole}"


def play_back(place: Path, playback: Playback, seed: int) -> PlayedBack:
    """The requests of a file; the first one comes at 0."""
    trace = _read("file", place)
    arrival = trace.arrival / playback.warp
    span = float(arrival[-1])
    chosen = np.arange(len(trace))
    begin, end = 0.0, span
    if playback.part != "whole":
        begin, end = (share * (span + 1e-9) for share in _PARTS[playback.part])
        chosen = np.flatnonzero((arrival >= begin) & (arrival < end))
        if not chosen.size:
            raise InputError(f"has no requests in its part {playback.part!r}", file=place)
    moments, copied = arrival[chosen] - begin, np.zeros(len(chosen), dtype=np.int64)
    if playback.rate is not None:
        draw = np.random.default_rng(seed)
        moments, chosen, copied = _at_rate(moments, chosen, max(end - begin, 1e-9), playback.rate, draw)
    if playback.seconds is not None:
        kept = moments < playback.seconds
        moments, chosen, copied = moments[kept], chosen[kept], copied[kept]
    if not chosen.size:
        raise InputError("has no requests that would be played", file=place)
    request_trace = _picked(trace, moments, chosen, copied)
    return PlayedBack(request_trace, len(trace), float(trace.arrival[-1]))


def _at_rate(
    moments: F64, chosen: I64, span: float, rate: float, draw: np.random.Generator
) -> tuple[F64, I64, I64]:
    """(moments, places, numbers of copies): whole copies with shifts, and of the last one a random share."""
    copies = rate * span / chosen.size
    arrivals_, places, copied = [], [], []
    for number in range(math.ceil(copies)):
        kept = draw.random(chosen.size) < copies - number
        shift = draw.uniform(0.0, span) if number else 0.0
        arrivals_.append((moments[kept] + shift) % (span + 1e-9))
        places.append(chosen[kept])
        copied.append(np.full(int(kept.sum()), number, dtype=np.int64))
    joined = np.concatenate(arrivals_)
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate(places)[order], np.concatenate(copied)[order]


def _picked(trace: RequestTrace, arrival: F64, places: I64, copied: I64) -> RequestTrace:
    return RequestTrace(
        trace.name,
        arrival,
        trace.prompt[places],
        trace.output[places],
        trace.model[places],
        trace.service[places],
        None if trace.prefix is None else trace.prefix.chosen(places, copied),
    )


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
            trace = read_own(place)
            return replace(trace, arrival=trace.arrival - trace.arrival[0])


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
    return _picked(trace, arrival[order], places, copied)


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
