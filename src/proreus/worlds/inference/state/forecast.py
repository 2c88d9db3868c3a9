"""What will probably come: pure functions over the history that a controller sees.

`forecast` is what most need: damped trends (Holt), and a bound that is as far above them as loads of the
recent past were above what would have been forecast for them. `autoregressive` falls back to the mean after
a burst, where bursts pass; `seasonal` follows the profile of a day that is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled

_TINY = 1e-9


@dataclass(frozen=True)
class Smoothing:
    """How fast a forecast follows what it sees, for each interval."""

    level: float = 0.3
    """Weight of the newest value in the level."""
    trend: float = 0.05
    """Weight of the newest change in the trend."""
    damping: float = 0.95
    """Share of the trend that is left an interval later: trends end."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """Of each column of a history."""

    expected: F64
    likely_most: F64
    """What is exceeded as rarely as was asked for, by how far forecasts were off lately."""


@compiled
def smoothed(history: F64, level_weight: float, trend_weight: float, damping: float) -> tuple[F64, F64]:
    """([intervals, columns] levels, trends an interval) as they stood after each interval."""
    intervals, columns = history.shape
    levels, trends = np.zeros((intervals, columns)), np.zeros((intervals, columns))
    for column in range(columns):
        level, trend = history[0, column], 0.0
        levels[0, column] = level
        for row in range(1, intervals):
            before = level
            level = level_weight * history[row, column] + (1.0 - level_weight) * (level + damping * trend)
            trend = trend_weight * (level - before) + (1.0 - trend_weight) * damping * trend
            levels[row, column] = level
            trends[row, column] = trend
    return levels, trends


def forecast(
    history: F64, steps: int, quantile: float = 0.9, smoothing: Smoothing | None = None, recent: int = 180
) -> Forecast:
    """So many intervals ahead; the bound is from forecasts for the last `recent` intervals.

    With fewer than ten forecasts to look back on, the bound is from the spread of the history itself.
    """
    shape = smoothing or Smoothing()
    values = np.ascontiguousarray(history, dtype=np.float64)
    levels, trends = smoothed(values, shape.level, shape.trend, shape.damping)
    then = np.maximum(levels + trends * _lasting(shape.damping, steps), 0.0)
    expected = then[-1]
    past = then[:-steps][-recent:]
    if len(past) < _ENOUGH:
        off = (values - levels) / np.maximum(levels, _TINY)
    else:
        off = (values[steps:][-recent:] - past) / np.maximum(past, _TINY)
    above = np.clip(np.quantile(off, quantile, axis=0), 0.0, _MOST_ABOVE)
    return Forecast(expected, np.asarray(expected * (1.0 + above)))


_ENOUGH = 10
_MOST_ABOVE = 3.0
"""A load that begins at nothing says little about how far forecasts are off."""


@dataclass(frozen=True)
class Doubt:
    """How forecasts are trusted before, and while, it is seen how good they are."""

    usual: float = 0.2
    """Error to begin with, as the logarithm of what came over what was forecast."""
    weight: float = 12.0
    """Forecasts that this is worth."""
    memory: float = 60.0
    """Intervals after which an error counts a third."""


def error_of(history: F64, steps: int, smoothing: Smoothing, doubt: Doubt) -> F64:
    """[columns] how far loads usually are above what was forecast: a root mean square of logarithms.

    Loads below what was forecast are no danger and count as none; where errors go both ways alike this is
    their root mean square. Few errors are seen while a load lasts, and neighbours are alike: a mean of
    squares makes more of them than a quantile does, and a prior stands in for those that are missing.
    """
    values = np.ascontiguousarray(history, dtype=np.float64)
    levels, trends = smoothed(values, smoothing.level, smoothing.trend, smoothing.damping)
    then = np.maximum(levels + trends * _lasting(smoothing.damping, steps), 0.0)[:-steps]
    floor = np.maximum(0.05 * values.max(axis=0), _TINY)
    above = np.maximum(np.log(np.maximum(values[steps:], floor) / np.maximum(then, floor)), 0.0)
    weights = np.exp(-np.arange(len(above))[::-1] / doubt.memory)[:, None]
    squares = (weights * 2.0 * above**2).sum(axis=0) + doubt.weight * doubt.usual**2
    return np.asarray(np.sqrt(squares / (weights.sum() + doubt.weight)))


def _lasting(damping: float, steps: int) -> float:
    """What a damped trend of one adds over so many steps."""
    return sum(damping**step for step in range(1, steps + 1))


def autoregressive(series: F64, steps: int, order: int = 6) -> float:
    """So many intervals ahead, each value a weighed sum of the `order` before it and of their mean.

    The weights are fitted by least squares with a little shrinking, so that a short or constant history is
    no trouble; what is forecast stays between nothing and twice the most that was seen.
    """
    most, mean = float(series.max()), float(series.mean())
    if len(series) < 3 * order or most <= 0.0:
        return mean
    centred = series - mean
    lags = np.stack([centred[place : len(series) - order + place] for place in range(order)], axis=1)
    gram = lags.T @ lags
    shrunk = gram + np.eye(order) * max(1e-3 * float(np.trace(gram)) / order, _TINY)
    weights = np.linalg.solve(shrunk, lags.T @ centred[order:])
    window = centred[-order:].copy()
    for _ in range(steps):
        step = np.clip(window @ weights, -mean, 2.0 * most - mean)
        window = np.append(window[1:], step)
    return float(mean + window[-1])


@dataclass(frozen=True, eq=False)
class DayProfile:
    """Loads by the time of day."""

    loads: F64
    """Of equal parts of a day, from midnight."""
    day_seconds: float = 86_400.0

    def at(self, moment: float) -> float:
        """Between the middles of two parts, in proportion."""
        parts = len(self.loads)
        place = (moment % self.day_seconds) / self.day_seconds * parts - 0.5
        before = int(np.floor(place))
        share = place - before
        return float((1.0 - share) * self.loads[before % parts] + share * self.loads[(before + 1) % parts])


def profile_of(moments: F64, loads: F64, parts: int = 96, day_seconds: float = 86_400.0) -> DayProfile | None:
    """The mean load of each part of a day; None while a part was never seen."""
    places = ((moments % day_seconds) / day_seconds * parts).astype(np.int64)
    counts = np.bincount(places, minlength=parts)
    if not counts.all():
        return None
    return DayProfile(np.bincount(places, weights=loads, minlength=parts) / counts, day_seconds)


def seasonal(profile: DayProfile, now: float, ahead: float, level: float) -> float:
    """The level that is seen now, carried along the profile: today is as far above it later as now."""
    return level * profile.at(now + ahead) / max(profile.at(now), _TINY)
