"""What a forecast sees of a load: ratios of its recent past, at time scales of what a start takes.

Nothing depends on how large the load is, nor on how long a start takes in seconds: the same weights forecast
ten requests a second with starts of half a minute, and a million tokens a second with starts of ten minutes.
"""

from __future__ import annotations

import math

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled

VERSION = "inference-load-4"
FEATURES = (
    "log last interval over the level",
    "log mean of a quarter start",
    "log mean of a start",
    "log mean of two starts",
    "log mean of four starts",
    "log mean of eight starts",
    "log mean of the whole history",
    "slope over half a start, in levels a start",
    "slope over a start",
    "slope over two starts",
    "log noise from one interval to the next",
    "how far loads were off a start later, root mean square",
    "the same, rises alone",
    "the same, in the last two starts",
    "log highest half start over the level",
    "log lowest half start over the level",
    "log intervals of a start",
    "log starts that are known, up to eight",
)
SIZE = len(FEATURES)
_TINY = 1e-9
_MOST = 4.0


@compiled
def _mean(series: F64, first: int, end: int) -> float:
    total = 0.0
    for place in range(first, end):
        total += series[place]
    return total / max(end - first, 1)


@compiled
def _slope(series: F64, first: int, end: int) -> float:
    """Of the line of least squares, a step."""
    count = end - first
    if count < 2:
        return 0.0
    middle, mean = (count - 1) / 2.0, _mean(series, first, end)
    top, bottom = 0.0, 0.0
    for place in range(count):
        away = place - middle
        top += away * (series[first + place] - mean)
        bottom += away * away
    return top / bottom


@compiled
def load_features(series: F64, known: int, steps: float, out: F64) -> float:
    """Fill `out` from the first `known` values; the level that all is in proportion to.

    `steps`: intervals that a start takes.
    """
    window = int(max(math.ceil(steps * 0.5), 2))
    whole = _mean(series, 0, known)
    level = max(_mean(series, max(known - window, 0), known), 0.02 * whole, _TINY)
    floor = 0.02 * level
    out[0] = math.log(max(series[known - 1], floor) / level)
    place = 1
    for share in (0.25, 1.0, 2.0, 4.0, 8.0):
        width = int(max(math.ceil(steps * share), 1))
        out[place] = math.log(max(_mean(series, max(known - width, 0), known), floor) / level)
        place += 1
    out[6] = math.log(max(whole, floor) / level)
    place = 7
    for share in (0.5, 1.0, 2.0):
        width = int(max(math.ceil(steps * share), 3))
        out[place] = _slope(series, max(known - width, 0), known) * steps / level
        place += 1
    width = int(max(math.ceil(steps * 2.0), 8))
    squares, count = 0.0, 0
    for moment in range(max(known - width, 1), known):
        change = (series[moment] - series[moment - 1]) / level
        squares += change * change
        count += 1
    out[10] = math.log(math.sqrt(squares / max(2.0 * count, 1.0)) + 0.01)
    lag = int(max(round(steps), 1))
    half = max(lag // 4, 1)
    both, rises, lately, pairs, late_pairs = 0.0, 0.0, 0.0, 0, 0
    highest, lowest = level, level
    moment = half
    while moment <= known:
        now = _mean(series, moment - half, moment)
        if moment >= window:
            smooth = _mean(series, moment - window, moment)
            highest = max(highest, smooth)
            lowest = min(lowest, max(smooth, floor))
        if moment - half - lag >= 0:
            before = max(_mean(series, moment - half - lag, moment - lag), floor)
            off = math.log(max(now, floor) / before)
            off = min(max(off, -_MOST), _MOST)
            both += off * off
            rises += max(off, 0.0) * max(off, 0.0)
            pairs += 1
            if known - moment < 2 * lag:
                lately += off * off
                late_pairs += 1
        moment += half
    out[11] = math.sqrt(both / max(pairs, 1))
    out[12] = math.sqrt(rises / max(pairs, 1))
    out[13] = math.sqrt(lately / max(late_pairs, 1))
    out[14] = math.log(highest / level)
    out[15] = math.log(lowest / level)
    out[16] = math.log(max(steps, 0.5))
    # The longest mean but one is over eight: a constant load must not look different an hour later.
    out[17] = math.log(min(max(known / max(steps, 0.5), 0.1), 8.0))
    for place in range(out.size):
        out[place] = min(max(out[place], -_MOST), _MOST)
    return level


def features_of(series: F64, steps: float) -> tuple[F64, float]:
    """([F] features, the level) of a whole history."""
    found = np.zeros(SIZE)
    level = load_features(np.ascontiguousarray(series, dtype=np.float64), len(series), float(steps), found)
    return found, level
