"""Futures of a load, drawn from a forecast that knows its doubt: whole paths over three starts.

What is drawn of a run is drawn once, as scores of normal numbers; every decision lays the quantiles of its
own forecast over the same scores. So two decisions differ by what is known, not by luck, and the same seed
gives the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.state.quantile_forecast import PEAK, PEAK_OF_THREE, SCORES, THEN

_MOST_STEPS = 1_500
"""Of the fluid model that a future has: fifty minutes."""
_NOISIEST = 1.5
"""Spread of a step in what comes on average, beyond which work comes in single lumps."""
_LEAST_WORK = 0.02
_OWN_DOUBT = 0.1
"""Of the forecast's variance, that is left at least for the level itself where a load is noisy."""
_STARTS = 3
_FITS = 4
"""How often a peak is moved to where the forecast has it: another moment may then be the highest."""


@dataclass(frozen=True)
class Grid:
    """The moments of a future."""

    ahead: int
    """Intervals until an instance that is ordered now serves."""
    intervals: int
    each: int
    """Steps of the fluid model in an interval."""

    @property
    def steps(self) -> int:
        """Of the fluid model."""
        return self.intervals * self.each


def grid_of(start_intervals: float, each: int) -> Grid:
    """Three starts of so many intervals, or as much of them as there are steps for."""
    most = max(_MOST_STEPS // max(each, 1), 2)
    ahead = int(min(max(round(min(start_intervals, 1e6)), 1), most - 1))
    return Grid(ahead, min(3 * ahead + 1, most), each)


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is forecast at a decision."""

    level: float
    now: float
    """Logarithm of the latest load over the level."""
    quantiles: F64
    """[targets, quantiles] logarithms of ratios to the level."""
    noise: float
    """Spread of an interval around what comes on average, as a share of it."""
    tail: float = 1.0
    """Of what the forecast says beyond its 90th percentile, how much is believed."""


@dataclass(frozen=True, eq=False)
class Chances:
    """What chance says of a run's futures."""

    scores: F64
    """[futures, starts] of the level when each start is over: normal, and the next one like the last."""
    bursts: F64
    """[futures, steps] normal numbers, nothing in common."""
    losses: F64
    """[futures, steps] from 0 to 1."""


@lru_cache(maxsize=8)
def chances_of(grid: Grid, futures: int, seed: int) -> Chances:
    """The same for the same seed.

    Scores when a start is over are even: one future of each of as many equal shares, in an order by lot, so
    that any first few are a fair sample; one future alone is the likely one.
    """
    random = np.random.default_rng((seed, futures, 26))
    even = _even_scores(futures)[random.permutation(futures)]
    walks = np.stack([even, *random.normal(size=(_STARTS - 1, futures))], axis=1).cumsum(axis=1)
    if futures == 1:
        walks = walks * 0.0
    bursts = random.normal(size=(futures, grid.steps))
    return Chances(
        walks / np.sqrt(np.arange(1.0, _STARTS + 1.0)), bursts, random.random((futures, grid.steps))
    )


def drawn_loads(outlook: Outlook, grid: Grid, chances: Chances) -> F64:
    """[futures, steps] instances that the load keeps busy.

    The level goes evenly from what it is to what is forecast for the end of a start, and stays around there;
    how far it strays grows as the root of time. Then each future's peaks are moved to those of the forecast,
    the highest to the highest; of equal ones the first drawn counts as the lower.
    """
    reached = float(grid.ahead + 1)
    moments = np.arange(1, grid.intervals + 1) / reached
    quantiles = _believed(outlook)
    then = quantiles[THEN]
    usual, spread = float(then[1]), float(then[2] - then[0]) / (SCORES[2] - SCORES[0])
    own = math.sqrt(max(1.0 - 0.5 * (outlook.noise / max(spread, 1e-9)) ** 2, _OWN_DOUBT))
    knots = np.arange(_STARTS + 1.0)
    strays = own * np.sqrt(knots[1:]) * (at_scores(then, chances.scores) - usual)
    ends = np.concatenate([np.full((len(strays), 1), outlook.now), usual + strays], axis=1)
    place = np.minimum(moments.astype(np.int64), _STARTS - 1)
    share = np.minimum(moments - place, 1.0)
    logs = ends[:, place] * (1.0 - share) + ends[:, place + 1] * share
    wide = min(outlook.noise * math.sqrt(grid.each), _NOISIEST)
    bursts = np.maximum(1.0 + wide * chances.bursts, _LEAST_WORK)
    of_intervals = np.log(bursts.reshape(len(bursts), grid.intervals, grid.each).mean(axis=2))
    logs = _with_peaks(logs, of_intervals, quantiles, grid)
    logs = np.clip(logs, -4.0, 4.0)
    return outlook.level * np.repeat(np.exp(logs), grid.each, axis=1) * bursts


def _believed(outlook: Outlook) -> F64:
    """[targets, quantiles] with as much of the far end as is believed."""
    quantiles = outlook.quantiles.copy()
    usual = quantiles[:, 2:3]
    quantiles[:, 3:] = usual + outlook.tail * (quantiles[:, 3:] - usual)
    return quantiles


def _with_peaks(logs: F64, bursts: F64, quantiles: F64, grid: Grid) -> F64:
    """[futures, intervals] moved so that peaks, bursts included, are those of the forecast."""
    futures = len(logs)
    even = _even_scores(futures)
    moments = np.arange(logs.shape[1])
    for target, last in ((PEAK, grid.ahead + 1), (PEAK_OF_THREE, 3 * grid.ahead)):
        first, end = 0 if target == PEAK else grid.ahead + 1, min(last, logs.shape[1] - 1)
        if first >= end:  # the grid ends before
            break
        wanted = None
        for _ in range(_FITS):
            loads = np.exp(logs + bursts)
            pairs = (loads[:, 1:] + loads[:, :-1]) / 2.0
            highest = np.log(pairs[:, :end].max(axis=1))
            if wanted is None:
                wanted = np.empty(futures)
                wanted[np.argsort(highest, kind="stable")] = at_scores(quantiles[target], even)
            # A load that rises does so within half a start or more.
            later = min(first + grid.ahead // 2, end - 1)
            place, own = later + pairs[:, later:end].argmax(axis=1), np.log(pairs[:, later:end].max(axis=1))
            # What is until the end of a start stays: of three starts only what comes after it is moved.
            off = np.where((wanted > highest) | (own >= highest), wanted - own, 0.0)
            up = (moments[None, :] - first + 1.0) / (place[:, None] - first + 1.0)
            down = (end + 1.0 - moments[None, :]) / (end - place[:, None])
            bump = np.clip(np.minimum(up, down), 0.0, 1.0)
            logs = logs + np.clip(off, -4.0, 4.0)[:, None] * bump
    return logs


@lru_cache(maxsize=8)
def _even_scores(futures: int) -> F64:
    """[futures] of normal numbers in the middle of as many equal shares."""
    shares = (np.arange(futures) + 0.5) / futures
    return np.array([NormalDist().inv_cdf(share) for share in shares.tolist()])


def at_scores(quantiles: F64, scores: F64) -> F64:
    """As `quantile_forecast.at_score`, of many scores at once."""
    known = np.array(SCORES)
    place = np.clip(np.searchsorted(known, scores) - 1, 0, len(known) - 2)
    share = (scores - known[place]) / (known[place + 1] - known[place])
    return np.asarray((1.0 - share) * quantiles[place] + share * quantiles[place + 1])
