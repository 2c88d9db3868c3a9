"""How many instances to hold: the kernel of the learned controller, the same in training and when it decides.

From quantiles of the load for when a start would be done comes what must be ordered now; from quantiles of
its peak until then, what must not be drained. How rare an overload is to be, how far instances are used and
how long one waits before it drains are figures that a linear layer sets at every decision, within bounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import packable
from proreus.worlds.inference.encoding.load_history import SIZE as LOAD_FEATURES
from proreus.worlds.inference.encoding.load_history import load_features
from proreus.worlds.inference.state.quantile_forecast import QUANTILES, SCORES, TARGETS

FIGURES = (
    "rise score",
    "fall score",
    "three starts",
    "use",
    "beside",
    "hold",
    "clear",
    "loss score",
    "strain",
    "lean",
    "apart",
)
RISE, FALL, THREE, USE, BESIDE, HOLD, CLEAR, LOSS, STRAIN, LEAN, APART = range(len(FIGURES))
LOW = np.array([0.0, 0.0, 0.0, 0.70, -0.8, 0.0, 4.0, 0.0, 0.0, -1.5, 0.0])
HIGH = np.array([3.2, 3.2, 1.0, 1.05, 4.0, 2.0, 120.0, 3.0, 1.5, 1.5, 1.5])
BESIDE_LOAD = (
    "log instances that the load keeps busy",
    "error budget that is left",
    "share of promises missed",
    "pools beyond the first",
    "models beyond the first",
    "log instances below a few, where any does any work",
    "log instances above a few",
    "log times that an instance is paid for, since promises were missed",
)
INPUTS = LOAD_FEATURES + len(BESIDE_LOAD)
NEEDS = 64
(M_STRAIN, M_LOSSES, M_EXPOSURE, M_EXPECTED, M_MET, M_ENDED, M_HEAD, M_LATE, M_OWED, M_OWING) = range(10)
RING = 10
MEMORY = RING + 2 * NEEDS
"""Numbers that a controller remembers: the above, and a ring of (moment, needed)."""
_MOST_STRAIN = 2.0
_RELAXES = 0.995
"""What is left of a strain a decision later, while promises are kept."""
_LATE, _WAITS, _LATE_DECISIONS, _ALARM = 0.05, 1.0, 3.0, 0.5
"""Missed promises, and seconds that prompts wait, for so many decisions with room to spare, that say by
themselves that instances do less than is believed; and how much is believed of it at each. What is late
without a queue no further instance would mend."""
_PAID_BACK = 45.0
"""Seconds after a queue is gone that was to be expected, until what is late says anything of instances: those
that waited in it end late."""
_BUDGET_SECONDS = 86_400.0
"""Over which the error budget is reckoned: what was missed long ago neither binds nor frees."""
_MAY_MISS, _TIMES = 0.01, 20.0
"""Share of requests that may be served otherwise than promised, and how many times all instances are paid for
again where all are: with much missed already, a promise more is worth fewer instances."""
LEAST_LOAD = 0.1
"""Instances that a load keeps busy below which it is nothing: single requests in a silent hour are no
waves."""
_LONGER = 0.25
"""Starts that are waited before any is drained, for each time that patience is more than usual: a search may
have found that it pays to wait for nothing."""
_LEAST_SCORE = -1.2
"""Of the forecast, however little promises count."""
_FEW = 3.0
"""Instances that a load keeps busy: with fewer, one more is much; with many more, jumps cost most."""
_SCORES = np.array(SCORES)
_QUANTILES = len(QUANTILES)


@packable
class ReserveNet(NamedTuple):
    """Weights of the forecast, and of the layer that sets the figures."""

    mean: F64
    spread: F64
    first: F64
    first_bias: F64
    second: F64
    second_bias: F64
    last: F64
    last_bias: F64
    figures: F64  # [figures, inputs]
    figures_bias: F64


class Demand(NamedTuple):
    """What is known at a decision."""

    steps: float
    """Intervals that a start takes, and the one that passes before the next decision."""
    now: float
    interval: float
    active: float
    coming: float
    readies: float
    """Instance-seconds that those that start now will have served by the end of a start."""
    backlog: float
    """Instance-seconds that wait."""
    ended: float
    """Requests since the last decision."""
    met: float
    """Share of those that were served as promised."""
    wait: float
    """Mean seconds until a prompt began."""
    life: float
    """Mean seconds after which an instance is taken away, as it is known; 0: none is."""
    caution: float
    """How much more than usual promises count against GPU-hours; 1: as usual."""
    patience: float
    """How much longer than usual one waits before any is drained; 1: as usual."""
    pools: float
    models: float = 1.0
    """Language models that share the pools: each rounds its instances up for itself."""
    apart: float = 0.0
    """Models beyond the first, and pools beyond the first where none can do another's work."""


class Foreseen(NamedTuple):
    """A forecast at a decision."""

    level: float
    features: F64
    """[features] of the load so far"""
    quantiles: F64
    """[targets, quantiles] logarithms of ratios to the level"""


@compiled
def forecast_quantiles(net: ReserveNet, features: F64, out: F64) -> None:
    """Fill [targets, quantiles] with logarithms of ratios to the level; as `LoadForecaster.quantiles`."""
    hidden = np.empty(net.first_bias.size)
    for row in range(net.first_bias.size):
        total = net.first_bias[row]
        for column in range(features.size):
            total += net.first[row, column] * (features[column] - net.mean[column]) / net.spread[column]
        hidden[row] = math.tanh(total)
    deeper = np.empty(net.second_bias.size)
    for row in range(net.second_bias.size):
        total = net.second_bias[row]
        for column in range(hidden.size):
            total += net.second[row, column] * hidden[column]
        deeper[row] = math.tanh(total)
    for target in range(out.shape[0]):
        above = 0.0
        median = 0.0
        for place in (1, 0, 2, 3, 4):
            row = target * _QUANTILES + place
            raw = net.last_bias[row]
            for column in range(deeper.size):
                raw += net.last[row, column] * deeper[column]
            if place == 1:
                median = raw
                value = raw
            else:
                distance = math.log1p(math.exp(min(raw - 1.0, 30.0)))
                if place == 0:
                    value = median - distance
                else:
                    above += distance
                    value = median + above
            out[target, place] = min(max(value, -3.5), 3.5)


@compiled
def exceeded_at(quantiles: F64, score: float) -> float:
    """As `quantile_forecast.at_score`."""
    place = 0
    while place < _QUANTILES - 2 and _SCORES[place + 1] < score:
        place += 1
    share = (score - _SCORES[place]) / (_SCORES[place + 1] - _SCORES[place])
    return (1.0 - share) * quantiles[place] + share * quantiles[place + 1]


@compiled
def set_figures(net: ReserveNet, inputs: F64, low: F64, high: F64, out: F64) -> None:
    """The figures for one decision."""
    for row in range(out.size):
        raised = net.figures_bias[row]
        for column in range(inputs.size):
            raised += net.figures[row, column] * inputs[column]
        out[row] = low[row] + (high[row] - low[row]) / (1.0 + math.exp(-min(max(raised, -30.0), 30.0)))


@compiled
def loss_rate(memory: F64, life: float, seconds: float) -> float:
    """How often an instance is taken away, a second: as was seen, and as is known of their `life`; 0: never.

    `seconds`: of a start.
    """
    if memory[M_LOSSES] <= 0.0 and life <= 0.0:
        return 0.0
    # What is known counts as two losses in as much time.
    known = 2.0 if life > 0.0 else 0.0
    return (memory[M_LOSSES] + known) / (memory[M_EXPOSURE] + max(known * life, 2.0 * seconds))


@compiled
def foresee(net: ReserveNet, series: F64, steps: float, features: F64, quantiles: F64) -> float:
    """Fill [features] and [targets, quantiles] for what follows a series; the level that both go by."""
    level = load_features(np.maximum(series, LEAST_LOAD), series.size, steps, features)
    forecast_quantiles(net, features, quantiles)
    return level


@compiled
def foreseen_of(net: ReserveNet, series: F64, steps: float) -> Foreseen:
    """The same, in arrays of its own."""
    features, quantiles = np.zeros(LOAD_FEATURES), np.empty((len(TARGETS), _QUANTILES))
    level = foresee(net, series, steps, features, quantiles)
    return Foreseen(level, features, quantiles)


@compiled
def wanted_total(net: ReserveNet, series: F64, demand: Demand, memory: F64, told: F64) -> tuple[int, int]:
    """(instances that there must be, instances that there may be at most) of all pools together.

    `memory` is changed; `told` is filled with level, then, peak, strain, what is held for losses, the queue,
    the score, the use, what was missed so far, what is held beside the forecast, and the caution.
    """
    return total_for(net, foreseen_of(net, series, demand.steps), demand, memory, told)


@compiled
def total_for(net: ReserveNet, foreseen: Foreseen, demand: Demand, memory: F64, told: F64) -> tuple[int, int]:
    """The same, where the forecast is known."""
    level, quantiles = foreseen.level, foreseen.quantiles
    inputs = np.empty(INPUTS)
    inputs[:LOAD_FEATURES] = foreseen.features
    kept = max(1.0 - demand.interval / _BUDGET_SECONDS, 0.0)
    memory[M_MET] = kept * memory[M_MET] + demand.met * demand.ended
    memory[M_ENDED] = kept * memory[M_ENDED] + demand.ended
    missed = 1.0 - (memory[M_MET] + 100.0) / (memory[M_ENDED] + 100.0)
    inputs[LOAD_FEATURES] = math.log(max(level, 0.05))
    inputs[LOAD_FEATURES + 1] = max(1.0 - 100.0 * missed, -3.0)
    inputs[LOAD_FEATURES + 2] = 1.0 - demand.met if demand.ended > 0 else 0.0
    inputs[LOAD_FEATURES + 3] = demand.pools - 1.0
    inputs[LOAD_FEATURES + 4] = demand.models - 1.0
    size = math.log(max(level, LEAST_LOAD) / _FEW)
    # Instances that stand apart are few for each load: one that looks small is none of theirs.
    inputs[LOAD_FEATURES + 5] = min(size, 0.0) if demand.apart <= 0.0 else 0.0
    inputs[LOAD_FEATURES + 6] = max(size, 0.0)
    inputs[LOAD_FEATURES + 7] = math.log(1.0 + _TIMES * max(missed - _MAY_MISS, 0.0))
    figures = np.empty(len(FIGURES))
    set_figures(net, inputs, LOW, HIGH, figures)
    use = figures[USE]
    late = 1.0 - demand.met if demand.ended > 0 else 0.0
    # Late though instances were not full: they can do less than their ability says. But what waits since more
    # came than they can do is late as well, until it is worked off.
    load = level * memory[M_STRAIN] / max(demand.active * use, 0.01)
    last = level * math.exp(foreseen.features[0]) * memory[M_STRAIN]
    owed = max(memory[M_OWED] + (last - demand.active * use) * demand.interval, 0.0)
    memory[M_OWED] = 0.0 if demand.wait < _WAITS and demand.backlog < demand.active else owed
    if memory[M_OWED] > 0.0:
        memory[M_OWING] = demand.now
    if load < 1.0 and late > _LATE and demand.now - memory[M_OWING] > _PAID_BACK:
        memory[M_LATE] = memory[M_LATE] + 1.0 if demand.wait > _WAITS else 0.0
        if demand.backlog < 2.0 * demand.active:
            memory[M_STRAIN] *= 1.0 + figures[STRAIN] * min(late, 0.3) * min(demand.ended / 50.0, 1.0)
        if memory[M_LATE] >= _LATE_DECISIONS:
            memory[M_STRAIN] *= 1.0 + _ALARM * min(late, 0.3)
    else:
        memory[M_LATE] = 0.0
        if late < 0.01:
            memory[M_STRAIN] = 1.0 + (memory[M_STRAIN] - 1.0) * _RELAXES
    memory[M_STRAIN] = min(max(memory[M_STRAIN], 1.0), _MOST_STRAIN)
    strain = memory[M_STRAIN]
    # Where nothing is held beside the forecast, who wants more promises wants a rarer overload.
    leans = math.log(max(demand.caution, 0.1)) + figures[LEAN]
    caution = math.exp(leans)
    rise, fall = max(figures[RISE] + leans, _LEAST_SCORE), max(figures[FALL] + leans, _LEAST_SCORE)
    then = level * math.exp(exceeded_at(quantiles[0], rise))
    peak = level * math.exp(exceeded_at(quantiles[1], fall))
    later = level * math.exp(exceeded_at(quantiles[2], fall))
    peak = (1.0 - figures[THREE]) * peak + figures[THREE] * later
    seconds = demand.steps * demand.interval
    cleared = max(demand.active * use - level * strain, 0.0) * seconds + demand.readies
    queue = max(demand.backlog * strain - cleared, 0.0) / figures[CLEAR]
    lost = 0.0
    if memory[M_EXPECTED] > demand.active:
        memory[M_LOSSES] += memory[M_EXPECTED] - demand.active
    memory[M_EXPOSURE] += demand.active * demand.interval
    rate = loss_rate(memory, demand.life, seconds)
    if rate > 0.0:
        mean = rate * max(demand.coming, 1.0) * seconds
        lost = mean + figures[LOSS] * math.sqrt(mean)
    # Where less than one instance is busy, only the load's share of the reserve is held: none for silence.
    beside = figures[BESIDE] * (math.sqrt(level) if level > 1.0 else level)
    beside = beside * caution if beside > 0.0 else beside / caution
    # What stands apart is rounded up by itself.
    spare = figures[APART] * demand.apart
    must = (then * strain + beside) / use + queue + lost + spare
    may = max((peak * strain + beside) / use + queue + lost + spare, must)
    head = int(memory[M_HEAD])
    memory[RING + 2 * head], memory[RING + 1 + 2 * head] = demand.now, may
    memory[M_HEAD] = float((head + 1) % NEEDS)
    hold = max(figures[HOLD] * demand.patience, _LONGER * (demand.patience - 1.0))
    since = demand.now - hold * seconds
    for place in range(NEEDS):
        if memory[RING + 2 * place] > since:
            may = max(may, memory[RING + 1 + 2 * place])
    told[0], told[1], told[2], told[3], told[4], told[5] = level, then, peak, strain, lost, queue
    told[6], told[7], told[8], told[9], told[10] = rise, use, missed, beside, caution
    return math.ceil(min(must, 1e6) - 1e-9), math.ceil(min(may, 1e6) - 1e-9)


TOLD = 11


def first_memory() -> F64:
    """Of a controller that has seen nothing."""
    memory = np.zeros(MEMORY)
    memory[M_STRAIN] = 1.0
    memory[RING::2] = -1e18
    return memory
