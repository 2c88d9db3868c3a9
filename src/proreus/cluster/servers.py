"""Servers with two NUMA nodes as arrays, many clusters side by side: what is free, and what still fits where.

The world `vms` and the rules that play in it share these columns and the three kernels that change them. For
every flavour (an amount that requests ask for) the places where it fits are kept as bytes and brought up to
date for the one server that changes; whoever asks "where does this fit?" reads a row and never scans servers.

Letters in shape comments: L lanes (clusters side by side), N servers, F flavours, P = 2N places (server * 2 +
NUMA node) rounded up to a multiple of 8, so that a row of bytes is also a row of 64-bit words.

Amounts are whole numbers of 1/2000 of a core or a GB: half of a thousandth is still exact, so what a deletion
gives back is what was taken, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proreus.cluster.columns import Bool
from proreus.cluster.compiled import compiled
from proreus.cluster.packed import packable
from proreus.model.vm import NUMA_NODES, DoubleRule, Floats, ServerShape

I32: TypeAlias = NDArray[np.int32]
U8: TypeAlias = NDArray[np.uint8]
F32: TypeAlias = NDArray[np.float32]
U64: TypeAlias = NDArray[np.uint64]

UNITS = 2000
"""Of one core or one GB."""
CPU, MEM = 0, 1
NOWHERE = -1


@packable
class Flavours(NamedTuple):
    """What requests ask for."""

    need: I32  # [F, 2] cpu, mem on each NUMA node that is used
    double: Bool  # [F] on both NUMA nodes of a server


@packable
class Servers(NamedTuple):
    """Clusters and what is free in them."""

    capacity: I32  # [N, 2, 2] cpu, mem per NUMA node
    free: I32  # [L, N, 2, 2]
    shown: F32  # [L, N, 2, 2] the same in cores and GB, as observers see it
    fits: U8  # [L, F, P] 1 where the flavour fits
    words: U64  # [L, F, P / 8] the same bytes, eight at a time
    room: I32  # [L, F] places where the flavour fits


def flavours_of(cpu: Floats, mem: Floats, rule: DoubleRule) -> tuple[Flavours, I32]:
    """The flavours of machines, smallest first, and the flavour of each: int32[V]."""
    # Thousandths, counted twice: half of any amount is a whole number.
    whole = np.rint(np.stack([cpu, mem], axis=1) * (UNITS // 2)).astype(np.int64) * 2
    found, flavour = np.unique(
        np.column_stack([whole, rule.splits(cpu, mem)]), axis=0, return_inverse=True
    )
    need = found[:, :2] // (1 + found[:, 2:])
    return Flavours(need.astype(np.int32), found[:, 2] == 1), flavour.reshape(-1).astype(np.int32)


def capacity_of(shapes: Sequence[ServerShape]) -> I32:
    """int32[N, 2, 2] of the servers, kind after kind."""
    rows = [
        np.broadcast_to(np.rint(np.array([shape.cpu, shape.mem]) * UNITS), (shape.count, NUMA_NODES, 2))
        for shape in shapes
    ]
    return np.concatenate(rows).astype(np.int32)


def new_servers(capacity: I32, flavours: Flavours, lanes: int) -> Servers:
    """Empty columns; `open_servers` puts servers into them."""
    servers, kinds = capacity.shape[0], flavours.need.shape[0]
    words = np.zeros((lanes, kinds, -(-2 * servers // 8)), dtype=np.uint64)
    return Servers(
        capacity=capacity,
        free=np.zeros((lanes, servers, NUMA_NODES, 2), dtype=np.int32),
        shown=np.zeros((lanes, servers, NUMA_NODES, 2), dtype=np.float32),
        fits=words.view(np.uint8),
        words=words,
        room=np.zeros((lanes, kinds), dtype=np.int32),
    )


@compiled
def clear_servers(servers: Servers, lane: int) -> None:
    """A lane without any server: nothing is free, nothing fits."""
    servers.free[lane] = 0
    servers.shown[lane] = 0.0
    servers.words[lane] = 0
    servers.room[lane] = 0


@compiled
def open_servers(servers: Servers, flavours: Flavours, lane: int, first: int, last: int) -> None:
    """Put the empty servers `first` to `last` - 1 to use."""
    for server in range(first, last):
        for numa in range(2):
            for kind in range(2):
                servers.free[lane, server, numa, kind] = servers.capacity[server, numa, kind]
        refresh(servers, flavours, lane, server)


@compiled
def take(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int) -> None:
    """A request of that flavour moves in; the caller has seen that it fits."""
    _change(servers, flavours, lane, place, flavour, -1)


@compiled
def give_back(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int) -> None:
    """A request of that flavour leaves the place that it took."""
    _change(servers, flavours, lane, place, flavour, 1)


@compiled
def _change(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int, sign: int) -> None:
    server = place // 2
    cpu, mem = sign * flavours.need[flavour, 0], sign * flavours.need[flavour, 1]
    if flavours.double[flavour]:
        for numa in range(2):
            servers.free[lane, server, numa, 0] += cpu
            servers.free[lane, server, numa, 1] += mem
    else:
        servers.free[lane, server, place % 2, 0] += cpu
        servers.free[lane, server, place % 2, 1] += mem
    refresh(servers, flavours, lane, server)


@compiled
def refresh(servers: Servers, flavours: Flavours, lane: int, server: int) -> None:
    """Bring what is shown of a server, and what fits on it, up to date with what is free."""
    free, shown = servers.free[lane, server], servers.shown[lane, server]
    fits, room = servers.fits[lane], servers.room[lane]
    need, double = flavours.need, flavours.double
    cpu0, mem0, cpu1, mem1 = free[0, 0], free[0, 1], free[1, 0], free[1, 1]
    shown[0, 0], shown[0, 1] = np.float32(cpu0 / UNITS), np.float32(mem0 / UNITS)
    shown[1, 0], shown[1, 1] = np.float32(cpu1 / UNITS), np.float32(mem1 / UNITS)
    left, right = 2 * server, 2 * server + 1
    for flavour in range(need.shape[0]):
        cpu, mem = need[flavour, 0], need[flavour, 1]
        first = np.uint8((cpu0 >= cpu) & (mem0 >= mem))
        second = np.uint8((cpu1 >= cpu) & (mem1 >= mem))
        if double[flavour]:
            first &= second
            second = first
        room[flavour] += np.int32(first + second) - np.int32(fits[flavour, left] + fits[flavour, right])
        fits[flavour, left], fits[flavour, right] = first, second


@compiled
def first_place(servers: Servers, lane: int, flavour: int) -> int:
    """The lowest place where the flavour fits, or NOWHERE; looks at eight places at a time."""
    words = servers.words[lane, flavour]
    for w in range(words.size):
        if words[w] != 0:
            for place in range(8 * w, 8 * w + 8):
                if servers.fits[lane, flavour, place]:
                    return place
    return NOWHERE


@compiled
def left_over(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int) -> float:
    """Share of the scarcer resource that stays free where a request moves in; of the fuller node if on both."""
    least = 1.0
    for numa in range(2):
        if flavours.double[flavour] or numa == place % 2:
            for kind in range(2):
                free = servers.free[lane, place // 2, numa, kind] - flavours.need[flavour, kind]
                least = min(least, free / servers.capacity[place // 2, numa, kind])
    return least


@compiled
def tightest_place(servers: Servers, flavours: Flavours, lane: int, flavour: int) -> int:
    """The place that is left with least once the request is in, the lowest among equals, or NOWHERE."""
    words, fits = servers.words[lane, flavour], servers.fits[lane, flavour]
    best, least = NOWHERE, 2.0
    for w in range(words.size):
        if words[w] == 0:
            continue
        for place in range(8 * w, 8 * w + 8):
            if fits[place]:
                rest = left_over(servers, flavours, lane, place, flavour)
                if rest < least:
                    best, least = place, rest
    return best
