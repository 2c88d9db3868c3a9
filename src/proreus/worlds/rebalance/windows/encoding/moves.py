"""What a learned policy sees of a move: numbers that mean the same whatever the number of pods and nodes.

For every forecast: how much the move takes off what is above the threshold, and above a level below it, on
the two nodes together, and by how much the fuller of the two falls. Then the least of each over all
forecasts: what the move is worth whichever of them comes true. Then the pod's size, how full the nodes are,
how much of the budget is spent, and a constant: a move must be worth more than nothing. Last, by six views
of what comes next, what the move takes off the requests that are likely to find their node above the
threshold, surely and perhaps, and off the sum of squared shares; older checkpoints do not weigh these.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.worlds.rebalance.windows.state import (
    BUDGET,
    DAY,
    FORECASTS,
    LAST,
    LEFT,
    MEAN,
    PEAK,
    TREND,
    Hosting,
    use_of,
    use_with,
)

VERSION = "moves-2"
PER_FORECAST = ("relief", "early_relief", "levelling")
VIEWS = ("last", "mean", "both", "high", "trend", "day")
"""Forecasts, and means of two: of the last window and the hour's mean (both), of its mean and peak (high)."""
PER_VIEW = ("risk", "unrest", "evenness")
FEATURES = (
    *(f"{kind}_{name}" for kind in FORECASTS for name in PER_FORECAST),
    *(f"sure_{name}" for name in PER_FORECAST),
    "size",
    "change",
    "source",
    "target",
    "spent",
    "constant",
    *(f"{view}_{name}" for view in VIEWS for name in PER_VIEW),
)
FIRST_SIZE, BASIC = FEATURES.index("size"), FEATURES.index("constant") + 1
"""Where the features of no forecast begin, and those of views, before which older checkpoints end."""
EARLY = 0.25
"""How far below the threshold relief already counts a little."""
SHARP, BLUNT, LEAST = 0.6, 1.2, 0.05
"""How far from the threshold requests may still find a node on its other side: so many times the root of the
squared sizes of its pods, for a few large ones scatter more than many small ones; and the least of it."""
_KINDS, _OWN = len(FORECASTS), len(PER_FORECAST)
EVENNESS = 10.0
"""A unit of the feature, in sums of squared shares, is a tenth."""
VIEWED = len(VIEWS) * len(PER_VIEW)
_VIEWS = ((LAST, LAST), (MEAN, MEAN), (LAST, MEAN), (MEAN, PEAK), (TREND, TREND), (DAY, DAY))


@compiled
def encode_move(hosting: Hosting, squares: F64, move: tuple[int, int], features: F64) -> None:
    """Fill `features` [FEATURES] for a move (pod, node); squares: see `fill_squares`."""
    pod, node = move
    encode_forecasts(hosting, pod, node, features)
    encode_sizes(hosting, pod, node, features)
    views, room = features[BASIC:], np.empty(VIEWED)
    view_node(hosting, squares, hosting.where[pod], (pod, 0), views)
    for viewed, comes, sign in ((node, 0, 1.0), (hosting.where[pod], -1, -1.0), (node, 1, -1.0)):
        view_node(hosting, squares, viewed, (pod, comes), room)
        for place in range(VIEWED):
            views[place] += sign * room[place]


@compiled
def fill_squares(hosting: Hosting, squares: F64) -> None:
    """Fill `squares` [N, 2]: what the pods of a node ask for by the mean of the last hour, each squared."""
    squares[:] = 0.0
    for pod in range(hosting.where.size):
        for resource in range(2):
            squares[hosting.where[pod], resource] += hosting.forecast[MEAN, pod, resource] ** 2


@compiled
def encode_forecasts(hosting: Hosting, pod: int, node: int, features: F64) -> None:
    """Fill the features of `features` [FEATURES] that come before FIRST_SIZE."""
    source = hosting.where[pod]
    threshold = hosting.threshold[0]
    sure = _OWN * _KINDS
    for kind in range(_KINDS):
        relief, early = 0.0, 0.0
        for resource in range(2):
            amount = hosting.forecast[kind, pod, resource]
            here = hosting.load[kind, source, resource] / hosting.capacity[source, resource]
            there = hosting.load[kind, node, resource] / hosting.capacity[node, resource]
            here_after = here - amount / hosting.capacity[source, resource]
            there_after = there + amount / hosting.capacity[node, resource]
            relief += max(0.0, here - threshold) - max(0.0, here_after - threshold)
            relief += max(0.0, there - threshold) - max(0.0, there_after - threshold)
            level = threshold - EARLY
            early += max(0.0, here - level) ** 2 - max(0.0, here_after - level) ** 2
            early += max(0.0, there - level) ** 2 - max(0.0, there_after - level) ** 2
        fullest = max(use_of(hosting, kind, source), use_of(hosting, kind, node))
        after = max(_use_without(hosting, kind, pod), use_with(hosting, kind, node, pod))
        features[_OWN * kind] = 10.0 * relief
        features[_OWN * kind + 1] = 10.0 * early
        features[_OWN * kind + 2] = 10.0 * (fullest - after)
        for own in range(_OWN):
            value = features[_OWN * kind + own]
            features[sure + own] = value if kind == 0 else min(features[sure + own], value)


@compiled
def encode_sizes(hosting: Hosting, pod: int, node: int, features: F64) -> None:
    """Fill those from FIRST_SIZE up to BASIC."""
    source, rest = hosting.where[pod], FIRST_SIZE
    features[rest] = 10.0 * _size(hosting, MEAN, pod)
    features[rest + 1] = 10.0 * (_size(hosting, LAST, pod) - _size(hosting, DAY, pod))
    features[rest + 2] = use_of(hosting, MEAN, source)
    features[rest + 3] = use_of(hosting, MEAN, node)
    features[rest + 4] = 1.0 - hosting.tally[LEFT] / max(hosting.tally[BUDGET], 1)
    features[rest + 5] = 1.0


@compiled
def view_node(hosting: Hosting, squares: F64, node: int, change: tuple[int, int], views: F64) -> None:
    """Fill `views` [VIEWED]: how bad a node is by every view, as it is, or with the pod of change = (pod, 1
    where it comes, -1 where it goes, 0 where nothing changes)."""
    pod, comes = change
    cpu, mem = 1.0 / hosting.capacity[node, 0], 1.0 / hosting.capacity[node, 1]
    limit = hosting.threshold[0]
    # Requests that a node serves, in those of a node with as many pods as others.
    requests = 5.0 * (hosting.pods[node] + comes) * hosting.pods.size / hosting.where.size
    scatter_cpu = cpu * np.sqrt(max(squares[node, 0] + comes * hosting.forecast[MEAN, pod, 0] ** 2, 0.0))
    scatter_mem = mem * np.sqrt(max(squares[node, 1] + comes * hosting.forecast[MEAN, pod, 1] ** 2, 0.0))
    sharp_cpu, sharp_mem = 1.0 / (LEAST + SHARP * scatter_cpu), 1.0 / (LEAST + SHARP * scatter_mem)
    blunt_cpu, blunt_mem = 1.0 / (LEAST + BLUNT * scatter_cpu), 1.0 / (LEAST + BLUNT * scatter_mem)
    for view in range(len(_VIEWS)):
        first, second = _VIEWS[view]
        used_cpu = hosting.load[first, node, 0] + hosting.load[second, node, 0]
        used_mem = hosting.load[first, node, 1] + hosting.load[second, node, 1]
        if comes != 0:
            used_cpu += comes * (hosting.forecast[first, pod, 0] + hosting.forecast[second, pod, 0])
            used_mem += comes * (hosting.forecast[first, pod, 1] + hosting.forecast[second, pod, 1])
        used_cpu *= 0.5 * cpu
        used_mem *= 0.5 * mem
        over_cpu, over_mem = used_cpu - limit, used_mem - limit
        views[3 * view] = requests * (1.0 - _calm(over_cpu * sharp_cpu) * _calm(over_mem * sharp_mem))
        views[3 * view + 1] = requests * (1.0 - _calm(over_cpu * blunt_cpu) * _calm(over_mem * blunt_mem))
        views[3 * view + 2] = EVENNESS * (used_cpu * used_cpu + used_mem * used_mem)


@compiled
def _calm(x: float) -> float:
    """How likely a resource stays below the threshold, by how far it is above: 1 up to -1, 0 from 1 on."""
    t = min(max(0.5 * (1.0 - x), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


@compiled
def _use_without(hosting: Hosting, kind: int, pod: int) -> float:
    source = hosting.where[pod]
    return max(
        (hosting.load[kind, source, 0] - hosting.forecast[kind, pod, 0]) / hosting.capacity[source, 0],
        (hosting.load[kind, source, 1] - hosting.forecast[kind, pod, 1]) / hosting.capacity[source, 1],
    )


@compiled
def _size(hosting: Hosting, kind: int, pod: int) -> float:
    """Share of its node that the pod asks for."""
    source = hosting.where[pod]
    return max(
        hosting.forecast[kind, pod, 0] / hosting.capacity[source, 0],
        hosting.forecast[kind, pod, 1] / hosting.capacity[source, 1],
    )


@compiled
def _encode_all(hosting: Hosting, table: F64) -> None:
    nodes = hosting.pods.size
    squares = np.empty((nodes, 2))
    fill_squares(hosting, squares)
    for pod in range(hosting.where.size):
        for node in range(nodes):
            if hosting.where[pod] != node:
                encode_move(hosting, squares, (pod, node), table[pod * nodes + node])


def encode_moves(hosting: Hosting) -> F64:
    """[pods * nodes + 1, FEATURES]: every move as pod * nodes + node; zeros for staying and for stopping."""
    table = np.zeros((hosting.where.size * hosting.pods.size + 1, len(FEATURES)))
    _encode_all(hosting, table)
    return table
