"""Load shapes drawn by chance: what a curriculum plays, so that no shape can be learned by heart.

A shape is a factor for every step of time, with a mean of one. Families are drawn alike, each with figures
of its own; times are drawn in what an instance takes to start, since a rise within half a start and one
within ten are different problems. `KEPT_BACK` are families that nothing is trained on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from proreus.kernels.arrays import F64

STEP = 10.0
"""Seconds for which a load is constant."""
_HIGHEST, _LOWEST = 25.0, 0.01
"""Times its mean that a load is within."""
Family = Literal[
    "swing", "ramps", "steps", "flash", "regimes", "quiet", "clients", "mixed", "sawtooth", "square", "spikes"
]
Draw = Callable[[np.random.Generator, F64, float], F64]
"""(chance, moments in starts, length of a step in starts) -> factors."""


def _swing(draw: np.random.Generator, at: F64, step: float) -> F64:
    """A day and its second harmonic, from a few starts long to far longer than the run."""
    period, phase = math.exp(draw.uniform(math.log(4.0), math.log(400.0))), draw.uniform(0.0, 2 * math.pi)
    high, second = draw.uniform(0.2, 0.8), draw.uniform(0.0, 0.25)
    angle = 2 * math.pi * at / period + phase
    return np.asarray(1.0 + high * np.cos(angle) + second * np.cos(2 * angle + draw.uniform(0, 6.28)))


def _ramps(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Straight lines, in logarithms, between levels; a line lasts a third of a start to ten."""
    ends, levels = [0.0], [draw.normal(0.0, 0.5)]
    while ends[-1] < at[-1]:
        ends.append(ends[-1] + math.exp(draw.uniform(math.log(0.3), math.log(10.0))))
        levels.append(draw.normal(0.0, 0.6) if draw.random() < 0.6 else levels[-1])
    return np.asarray(np.exp(np.interp(at, ends, levels)))


def _steps(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Levels that hold for a while and jump, as recorded loads do at the border of ten minutes."""
    holds, spread = math.exp(draw.uniform(math.log(1.0), math.log(12.0))), draw.uniform(0.15, 0.6)
    last = int(at[-1] / holds) + 2
    stay = draw.uniform(0.0, 0.9)
    level, levels = draw.normal(0.0, spread), []
    for _ in range(last + 1):
        level = stay * level + math.sqrt(1 - stay**2) * draw.normal(0.0, spread)
        levels.append(level)
    return np.asarray(np.exp(np.array(levels)[(at / holds + draw.random()).astype(np.int64)]))


def _flash(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Flash crowds of 2 to 20 times the load that come within half a start and pass within several."""
    load = np.ones_like(at)
    for _ in range(int(draw.integers(1, 4))):
        begins, rise = draw.uniform(0.0, at[-1]), math.exp(draw.uniform(math.log(0.1), math.log(2.0)))
        high, passes = math.exp(draw.uniform(0.0, math.log(19.0))), math.exp(draw.uniform(-0.5, 2.5))
        since = at - begins
        load += high * np.clip(since / rise, 0.0, 1.0) * np.exp(-np.maximum(since - rise, 0.0) / passes)
    return load


def _regimes(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Restless and calm by turns, around a level that wanders."""
    levels, level, spread = np.zeros(at.size), 0.0, 0.1
    for place in range(at.size):
        if draw.random() < step / 6.0:
            spread = draw.choice([0.03, 0.1, 0.3])
        keep = 0.5**step
        level = keep * level + math.sqrt(1.0 - keep**2) * draw.normal(0.0, spread * 2.0)
        levels[place] = level
    return np.asarray(np.exp(levels))


def _quiet(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Working hours and hours in which hardly anybody comes, or nobody; gradually, or at once."""
    period, share = math.exp(draw.uniform(math.log(6.0), math.log(60.0))), draw.uniform(0.3, 0.8)
    night = draw.uniform(0.02, 0.3) if draw.random() < 0.7 else 0.0
    soft = math.exp(draw.uniform(math.log(0.002), math.log(0.1)))
    lasts = (1.0 - share) * draw.uniform(0.2, 1.0)
    phase: F64 = (at / period + draw.random()) % 1.0
    deep = np.minimum(phase - share, share + lasts - phase) / soft
    return np.asarray(night + (1.0 - night) / (1.0 + np.exp(np.clip(deep, -30, 30))))


def _clients(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Several clients of very different size, each of which comes and goes by itself."""
    count = int(draw.integers(3, 30))
    shares = 1.0 / np.arange(1, count + 1) ** draw.uniform(0.6, 1.6)
    load = np.zeros_like(at)
    for share in shares / shares.sum():
        on, off = np.exp(draw.uniform(-0.5, 3.0, 2))
        ends, state = [0.0], bool(draw.random() < on / (on + off))
        states = [state]
        while ends[-1] < at[-1]:
            ends.append(ends[-1] + draw.exponential(on if state else off))
            state = not state
            states.append(state)
        busy = np.array(states)[np.searchsorted(ends, at, side="right") - 1]
        load += share * np.where(busy, 1.0, draw.uniform(0.0, 0.5)) * (on + off) / on
    return load


def _mixed(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Two families at once."""
    names = draw.choice(["swing", "ramps", "steps", "flash", "quiet"], 2, replace=False)
    return np.asarray(_FAMILIES[names[0]](draw, at, step) * _FAMILIES[names[1]](draw, at, step))


def _sawtooth(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Rises steadily and falls at once, or the other way round."""
    period, high = math.exp(draw.uniform(math.log(2.0), math.log(20.0))), draw.uniform(0.5, 4.0)
    place = (at / period + draw.random()) % 1.0
    return np.asarray(1.0 + high * (place if draw.random() < 0.5 else 1.0 - place))


def _square(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Two levels by the clock, as scheduled jobs make them."""
    period, share = math.exp(draw.uniform(math.log(2.0), math.log(20.0))), draw.uniform(0.1, 0.7)
    place = (at / period + draw.random()) % 1.0
    return np.where(place < share, 1.0 + draw.uniform(0.3, 4.0), 1.0)


def _spikes(draw: np.random.Generator, at: F64, step: float) -> F64:
    """Short spikes whose height has a heavy tail."""
    load, moment = np.ones_like(at), draw.exponential(2.0)
    while moment < at[-1]:
        high, lasts = min(0.3 * (1.0 - draw.random()) ** -0.8, 15.0), math.exp(draw.uniform(-2.0, 0.5))
        load += high * ((at >= moment) & (at < moment + lasts))
        moment += draw.exponential(3.0)
    return load


_FAMILIES: dict[str, Draw] = {
    "swing": _swing,
    "ramps": _ramps,
    "steps": _steps,
    "flash": _flash,
    "regimes": _regimes,
    "quiet": _quiet,
    "clients": _clients,
    "mixed": _mixed,
    "sawtooth": _sawtooth,
    "square": _square,
    "spikes": _spikes,
}
KEPT_BACK: tuple[Family, ...] = ("sawtooth", "square", "spikes")
"""Never trained on."""
TRAINED: tuple[Family, ...] = ("swing", "ramps", "steps", "flash", "regimes", "quiet", "clients", "mixed")


FAMILIES: tuple[Family, ...] = (*TRAINED, *KEPT_BACK)


def load_shape(family: Family, seconds: float, start_seconds: float, draw: np.random.Generator) -> F64:
    """[steps] factors around one for every `STEP` of that time, with the unrest that every load has."""
    steps = max(math.ceil(seconds / STEP), 1)
    step = STEP / max(start_seconds, STEP)
    at: F64 = (np.arange(steps, dtype=np.float64) + 0.5) * step
    factors = _FAMILIES[family](draw, at, step) * _unrest(draw, steps)
    return np.asarray(np.clip(factors / max(float(factors.mean()), 1e-9), _LOWEST, _HIGHEST))


def _unrest(draw: np.random.Generator, steps: int) -> F64:
    """A factor that forgets half of itself within half a minute to ten."""
    spread = draw.uniform(0.0, 0.3)
    keep = 0.5 ** (STEP / math.exp(draw.uniform(math.log(30.0), math.log(600.0))))
    noise, level = draw.normal(0.0, spread * math.sqrt(1.0 - keep**2), steps), draw.normal(0.0, spread)
    levels = np.zeros(steps)
    for place in range(steps):
        level = keep * level + noise[place]
        levels[place] = level
    return np.asarray(np.exp(levels))
