"""What a learned policy sees of a place for a virtual machine: the server as the machine would leave it.

Every feature depends on the request, on the server in question and on how many places are left for the
typical sizes in the whole cluster: never on a server's number. So one set of weights serves any number of
servers, and servers in the same state are treated alike. "Here" is the NUMA node that takes the machine (the
fuller one where it takes both), "there" the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I32, I64, U8
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.vms.state.servers import TYPICAL, Flavours, Servers

VERSION = "vms-1"

_SIZES = tuple(f"{cores}c{gb}g{' on both' if both else ''}" for cores, gb, both in TYPICAL)
FEATURES = (
    "cpu free here",
    "mem free here",
    "cpu free there",
    "mem free there",
    "cpu free here, squared",
    "mem free here, squared",
    "cpu free there, squared",
    "mem free there, squared",
    "scarcer free here",
    "scarcer free there",
    "cpu difference of the nodes",
    "mem difference of the nodes",
    "cpu and mem difference here",
    "cpu free here and there, product",
    "server was empty",
    "node was empty",
    *(f"places lost for {size}" for size in _SIZES),
    *(f"share of all places lost for {size}" for size in _SIZES),
)
_COUNT = len(FEATURES)
_LOST = 16


class PlaceColumns(NamedTuple):
    """The columns of one lane that features are made of; bound once, they cost nothing in a loop."""

    free: I32  # [N, 2, 2]
    capacity: I32  # [N, 2, 2]
    before: U8  # [N, 2, F]
    room: I32  # [F]
    need: I32  # [2, F]
    double: U8  # [F]
    typical: I32  # [sizes]
    lost: I64  # [sizes] room for places lost


@compiled_inline
def seen_of(servers: Servers, flavours: Flavours, lane: int, lost: I64) -> PlaceColumns:
    """That of a lane; `lost` is room for int64[sizes]."""
    return PlaceColumns(
        servers.free[lane],
        servers.capacity,
        servers.before[lane],
        servers.room[lane],
        flavours.need,
        flavours.double,
        flavours.typical,
        lost,
    )


@compiled_inline
def weigh_place(seen: PlaceColumns, flavour: int, place: int, weights: F64) -> float:
    """The weighted sum of the features of a place for a request of that flavour, which fits there.

    Features are added in their order; those that are zero are left out, which changes no digit.
    """
    free, capacity, need, lost = seen.free, seen.capacity, seen.need, seen.lost
    server, here = place // 2, place % 2
    both = seen.double[flavour]
    if both:
        # Of two nodes that give the same, the fuller one counts as "here".
        first = free[server, 0, 0] / capacity[server, 0, 0] + free[server, 0, 1] / capacity[server, 0, 1]
        other = free[server, 1, 0] / capacity[server, 1, 0] + free[server, 1, 1] / capacity[server, 1, 1]
        here = 0 if first <= other else 1
    there = 1 - here
    cpu_here = free[server, here, 0] - need[0, flavour]
    mem_here = free[server, here, 1] - need[1, flavour]
    cpu_there = free[server, there, 0] - both * need[0, flavour]
    mem_there = free[server, there, 1] - both * need[1, flavour]
    cpu, mem = cpu_here / capacity[server, here, 0], mem_here / capacity[server, here, 1]
    cpu_other, mem_other = cpu_there / capacity[server, there, 0], mem_there / capacity[server, there, 1]
    score = weights[0] * cpu
    score += weights[1] * mem
    score += weights[2] * cpu_other
    score += weights[3] * mem_other
    score += weights[4] * (cpu * cpu)
    score += weights[5] * (mem * mem)
    score += weights[6] * (cpu_other * cpu_other)
    score += weights[7] * (mem_other * mem_other)
    score += weights[8] * min(cpu, mem)
    score += weights[9] * min(cpu_other, mem_other)
    score += weights[10] * abs(cpu - cpu_other)
    score += weights[11] * abs(mem - mem_other)
    score += weights[12] * abs(cpu - mem)
    score += weights[13] * (cpu * cpu_other)
    if free[server, here, 0] == capacity[server, here, 0]:
        if free[server, there, 0] == capacity[server, there, 0]:
            score += weights[14]
        score += weights[15]
    sizes = seen.typical.size
    for size in range(sizes):
        kind = seen.typical[size]
        fits_here = cpu_here >= need[0, kind] and mem_here >= need[1, kind]
        fits_there = cpu_there >= need[0, kind] and mem_there >= need[1, kind]
        left = (2 if fits_here and fits_there else 0) if seen.double[kind] else fits_here + fits_there
        lost[size] = seen.before[server, 0, kind] + seen.before[server, 1, kind] - left
    for size in range(sizes):
        if lost[size]:
            score += weights[_LOST + size] * lost[size]
    for size in range(sizes):
        if lost[size]:
            score += weights[_LOST + sizes + size] * (lost[size] / max(seen.room[seen.typical[size]], 1))
    return score


@compiled
def encode_place(servers: Servers, flavours: Flavours, lane: int, flavour: int, place: int) -> F64:
    """float64[features] for a request of that flavour at that place, where it fits: each weighed alone."""
    seen = seen_of(servers, flavours, lane, np.zeros(flavours.typical.size, dtype=np.int64))
    features, alone = np.zeros(_COUNT), np.zeros(_COUNT)
    for feature in range(_COUNT):
        alone[feature] = 1.0
        features[feature] = weigh_place(seen, flavour, place, alone)
        alone[feature] = 0.0
    return features
