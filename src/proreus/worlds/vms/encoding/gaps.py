"""What a placement does to the gaps of a server: out of which gaps the machine takes its room.

A gap is the share of a NUMA node that is free, of cores or of memory, whichever is scarcer; a server's gap
for machines on both nodes is the lesser of the two. A machine makes gaps smaller, and each stretch of a gap
is worth something of its own: to break the last large gap of a server, or the last one that four cores fit
in, is another thing than to take the same room out of the middle. So the worth of gaps is a curve, and a
place is as good as what it takes off the curve. All is in shares, per share that is asked for: the same
weights serve servers of any size and any number.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.vms.encoding.place import PlaceColumns, seen_of
from proreus.worlds.vms.state.servers import Flavours, Servers

GAP_VERSION = "gaps-1"

_OF_NODE = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
_OF_SERVER = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
"""Where stretches of a gap begin; the last ends at 1."""


def _stretches(begins: tuple[float, ...], whose: str) -> tuple[str, ...]:
    ends = (*begins[1:], 1.0)
    return tuple(
        f"taken from {100 * first:g} to {100 * last:g} % free {whose}"
        for first, last in zip(begins, ends, strict=True)
    )


GAP_FEATURES = (
    *_stretches(_OF_NODE, "of a node"),
    *_stretches(_OF_SERVER, "on both nodes"),
    "scarcer free here",
    "cpu and mem difference, growth",
    "difference of the nodes",
)
KNOTS = 41
"""Of a curve: every begin of a stretch is one of them."""
_STRETCHES = len(_OF_NODE) + len(_OF_SERVER)


def curves_of(weights: F64) -> F64:
    """float64[2, knots]: what gaps of a NUMA node and of a server are worth."""
    nodes = len(_OF_NODE)
    return np.stack([_curve(weights[:nodes], _OF_NODE), _curve(weights[nodes:_STRETCHES], _OF_SERVER)])


def _curve(slopes: F64, begins: tuple[float, ...]) -> F64:
    """What a gap is worth at each knot: the slopes of its stretches, added up."""
    gap, first, last = np.arange(KNOTS)[:, None] / (KNOTS - 1), np.array(begins), np.array([*begins[1:], 1.0])
    curve: F64 = (np.clip(np.minimum(gap, last) - first, 0.0, None) * slopes).sum(axis=1)
    return curve


@compiled_inline
def _read(curve: F64, gap: float) -> float:
    at = gap * (KNOTS - 1)
    knot = min(int(at), KNOTS - 2)
    return curve[knot] + (at - knot) * (curve[knot + 1] - curve[knot])


@compiled_inline
def weigh_gaps(seen: PlaceColumns, flavour: int, place: int, worth: F64, weights: F64) -> float:
    """The weighted sum of the features of a place for a request of that flavour, which fits there.

    worth [2, knots]: the curves of the weights [features].
    """
    free, capacity, need = seen.free, seen.capacity, seen.need
    server, here = place // 2, place % 2
    there, both = 1 - here, seen.double[flavour]
    cpu = free[server, here, 0] / capacity[server, here, 0]
    mem = free[server, here, 1] / capacity[server, here, 1]
    cpu_there = free[server, there, 0] / capacity[server, there, 0]
    mem_there = free[server, there, 1] / capacity[server, there, 1]
    asked_cpu = need[0, flavour] / capacity[server, here, 0]
    asked_mem = need[1, flavour] / capacity[server, here, 1]
    gap, gap_there = min(cpu, mem), min(cpu_there, mem_there)
    left, left_there = min(cpu - asked_cpu, mem - asked_mem), gap_there
    taken = _read(worth[0], gap) - _read(worth[0], left)
    uneven = abs(cpu - asked_cpu - mem + asked_mem) - abs(cpu - mem)
    least = left
    if both:
        left_there = min(cpu_there - asked_cpu, mem_there - asked_mem)
        taken += _read(worth[0], gap_there) - _read(worth[0], left_there)
        uneven += abs(cpu_there - asked_cpu - mem_there + asked_mem) - abs(cpu_there - mem_there)
        least = min(left, left_there)
    taken += _read(worth[1], min(gap, gap_there)) - _read(worth[1], min(left, left_there))
    asked = max(asked_cpu, asked_mem)
    score = (taken + weights[_STRETCHES + 1] * uneven) / asked
    return score + weights[_STRETCHES] * least + weights[_STRETCHES + 2] * abs(left - left_there)


def encode_gaps(servers: Servers, flavours: Flavours, lane: int, flavour: int, place: int) -> F64:
    """float64[features] for a request of that flavour at that place, where it fits: each weighed alone."""
    return np.array([_weighed(servers, flavours, lane, (flavour, place), scorer) for scorer in _EACH_ALONE])


@compiled
def _weighed(
    servers: Servers, flavours: Flavours, lane: int, choice: tuple[int, int], scorer: tuple[F64, F64]
) -> float:
    seen = seen_of(servers, flavours, lane, np.zeros(flavours.typical.size, dtype=np.int64))
    return weigh_gaps(seen, choice[0], choice[1], scorer[0], scorer[1])


_EACH_ALONE = tuple((curves_of(alone), alone) for alone in np.eye(len(GAP_FEATURES)))
"""The curves of each feature with a weight of 1, and the weights."""
