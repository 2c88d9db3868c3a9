"""What a learned policy sees of a move: numbers that mean the same whatever the number of pods and nodes.

For every forecast: how much the move takes off what is above the threshold, and above a level below it, on
the two nodes together, and by how much the fuller of the two falls. Then the least of each over all
forecasts: what the move is worth whichever of them comes true. Then the pod's size, how full the nodes are,
how much of the budget is spent, and a constant: a move must be worth more than nothing.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.compiled import compiled
from proreus.worlds.rebalance.windows.state import (
    BUDGET,
    DAY,
    FORECASTS,
    LAST,
    LEFT,
    MEAN,
    Hosting,
    use_of,
    use_with,
)

VERSION = "moves-2"
PER_FORECAST = ("relief", "early_relief", "levelling")
FEATURES = (
    *(f"{kind}_{name}" for kind in FORECASTS for name in PER_FORECAST),
    *(f"sure_{name}" for name in PER_FORECAST),
    "size",
    "change",
    "source",
    "target",
    "spent",
    "constant",
)
EARLY = 0.25
"""How far below the threshold relief already counts a little."""
_KINDS, _OWN = len(FORECASTS), len(PER_FORECAST)


@compiled
def encode_move(hosting: Hosting, pod: int, node: int, features: F64) -> None:
    """Fill `features` [FEATURES] for a move of the pod to the node."""
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
    rest = sure + _OWN
    features[rest] = 10.0 * _size(hosting, MEAN, pod)
    features[rest + 1] = 10.0 * (_size(hosting, LAST, pod) - _size(hosting, DAY, pod))
    features[rest + 2] = use_of(hosting, MEAN, source)
    features[rest + 3] = use_of(hosting, MEAN, node)
    features[rest + 4] = 1.0 - hosting.tally[LEFT] / max(hosting.tally[BUDGET], 1)
    features[rest + 5] = 1.0


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
    for pod in range(hosting.where.size):
        for node in range(nodes):
            if hosting.where[pod] != node:
                encode_move(hosting, pod, node, table[pod * nodes + node])


def encode_moves(hosting: Hosting) -> F64:
    """[pods * nodes + 1, FEATURES]: every move as pod * nodes + node; zeros for staying and for stopping."""
    table = np.zeros((hosting.where.size * hosting.pods.size + 1, len(FEATURES)))
    _encode_all(hosting, table)
    return table
