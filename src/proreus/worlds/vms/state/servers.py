"""Servers with two NUMA nodes as arrays, many clusters side by side: what is free, and what still fits where.

The world `vms` and the rules that play in it share these columns and the kernels that change them. For every
flavour (an amount that requests ask for) the places where it fits are kept as a row of bytes. When a server
changes, all flavours are compared with what it has left at once, and only the rows of those whose answer
changed are written; whoever asks "where does this fit?" reads a row and never scans servers.

Letters in shape comments: L lanes (clusters side by side), N servers, F flavours rounded up to a multiple of
8, P = 2N places (server * 2 + NUMA node) rounded up likewise: bytes can then also be read eight at a time.

Amounts are whole numbers of 1/2000 of a core or a GB: half of a thousandth is still exact, so what a deletion
gives back is what was taken, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from proreus.kernels.arrays import F32, F64, I32, U8, U64
from proreus.kernels.jit import compiled, compiled_inline
from proreus.kernels.structs import packable
from proreus.model.errors import InputError
from proreus.worlds.vms.model import NUMA_NODES, DoubleRule, ServerShape

UNITS = 2000
"""Of one core or one GB."""
PER_UNIT = 1.0 / UNITS
MOST_FLAVOURS = 4096
"""What fits where is kept for each."""
NOWHERE = -1
# The sizes of a public cloud as their NUMA nodes see them: (cores, GB, on both nodes). Whatever a trace asks
# for, it is always known how many more of these there is room for.
TYPICAL = (
    (1, 1, False),
    (1, 2, False),
    (1, 4, False),
    (2, 4, False),
    (2, 8, False),
    (4, 8, False),
    (2, 8, True),
    (4, 8, True),
    (4, 16, True),
    (6, 12, True),
    (8, 16, True),
    (12, 24, True),
    (16, 32, True),
    (24, 48, True),
    (32, 64, True),
)


@packable
class Flavours(NamedTuple):
    """What requests ask for, and the typical sizes."""

    need: I32  # [2, F] cpu and mem on each NUMA node that is used
    double: U8  # [F] 1: on both NUMA nodes of a server
    typical: I32  # [len(TYPICAL)] the flavour of each typical size


@packable
class Servers(NamedTuple):
    """Clusters and what is free in them."""

    capacity: I32  # [N, 2, 2] cpu, mem per NUMA node
    free: I32  # [L, N, 2, 2]
    shown: F32  # [L, N, 2, 2] the same in cores and GB, as observers see it
    fits: U8  # [L, F, P] 1 where the flavour fits
    words: U64  # [L, F, P / 8] the same bytes, eight at a time
    room: I32  # [L, F] places where the flavour fits
    before: U8  # [L, N, 2, F] the same as `fits`, by server
    before_words: U64  # [L, N, 2, F / 8]
    fresh: U8  # [2, F] room for what is worked out anew about one server
    fresh_words: U64  # [2, F / 8]

    def __reduce__(self) -> tuple[Callable[..., Servers], tuple[Any, ...]]:
        """Copied and pickled without the bytes: they would be arrays of their own, which nobody updates."""
        words = (self.words, self.before_words, self.fresh_words)
        return _with_bytes, (self.capacity, self.free, self.shown, self.room, *words)


def _with_bytes(capacity: I32, free: I32, shown: F32, room: I32, *words: U64) -> Servers:
    """Servers whose bytes are those of their words."""
    fitting, before, fresh = words
    return Servers(
        capacity=capacity,
        free=free,
        shown=shown,
        fits=fitting.view(np.uint8),
        words=fitting,
        room=room,
        before=before.view(np.uint8),
        before_words=before,
        fresh=fresh.view(np.uint8),
        fresh_words=fresh,
    )


def flavours_of(cpu: F64, mem: F64, rule: DoubleRule) -> tuple[Flavours, I32]:
    """The flavours of machines and the typical ones, smallest first, and the flavour of each: int32[V]."""
    # Thousandths, counted twice: half of any amount is a whole number.
    whole = np.rint(np.stack([cpu, mem], axis=1) * (UNITS // 2)).astype(np.int64) * 2
    asked = np.column_stack([whole, rule.splits(cpu, mem)])
    typical = np.array([(UNITS * (1 + both) * c, UNITS * (1 + both) * m, both) for c, m, both in TYPICAL])
    sizes, flavour = np.unique(np.concatenate([asked, typical]), axis=0, return_inverse=True)
    kinds: I32 = flavour.reshape(-1).astype(np.int32)
    count = len(sizes)
    if count > MOST_FLAVOURS:
        raise InputError(
            f"machines of {count:,} sizes, at most {MOST_FLAVOURS:,} are possible: round the amounts"
        )
    # The flavours that only fill the last word up fit nowhere.
    need = np.full((2, _whole_words(count)), np.iinfo(np.int32).max, dtype=np.int32)
    need[:, :count] = (sizes[:, :2] // (1 + sizes[:, 2:])).T
    double = np.zeros(need.shape[1], dtype=np.uint8)
    double[:count] = sizes[:, 2]
    return Flavours(need, double, kinds[len(cpu) :].copy()), kinds[: len(cpu)].copy()


def _whole_words(count: int) -> int:
    return -(-count // 8) * 8


def capacity_of(shapes: Sequence[ServerShape]) -> I32:
    """int32[N, 2, 2] of the servers, kind after kind."""
    rows = [
        np.broadcast_to(np.rint(np.array([shape.cpu, shape.mem]) * UNITS), (shape.count, NUMA_NODES, 2))
        for shape in shapes
    ]
    return np.concatenate(rows).astype(np.int32)


def new_servers(capacity: I32, flavours: Flavours, lanes: int) -> Servers:
    """Empty columns; `open_servers` puts servers into them."""
    servers, kinds = capacity.shape[0], flavours.need.shape[1]
    words = np.zeros((lanes, kinds, _whole_words(2 * servers) // 8), dtype=np.uint64)
    before = np.zeros((lanes, servers, NUMA_NODES, kinds // 8), dtype=np.uint64)
    fresh = np.zeros((NUMA_NODES, kinds // 8), dtype=np.uint64)
    return _with_bytes(
        capacity,
        np.zeros((lanes, servers, NUMA_NODES, 2), dtype=np.int32),
        np.zeros((lanes, servers, NUMA_NODES, 2), dtype=np.float32),
        np.zeros((lanes, kinds), dtype=np.int32),
        *(words, before, fresh),
    )


@compiled
def clear_servers(servers: Servers, lane: int) -> None:
    """A lane without any server: nothing is free, nothing fits."""
    servers.free[lane] = 0
    servers.shown[lane] = 0.0
    servers.words[lane] = 0
    servers.before_words[lane] = 0
    servers.room[lane] = 0


@compiled
def open_servers(servers: Servers, flavours: Flavours, lane: int, first: int, last: int) -> None:
    """Put the empty servers `first` to `last` - 1 to use."""
    for server in range(first, last):
        _fill(servers, lane, server)
        refresh(servers, flavours, lane, server)


@compiled
def take(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int) -> None:
    """A request of that flavour moves in; the caller has seen that it fits."""
    _shift(servers, flavours, lane, place, flavour, -1)
    refresh(servers, flavours, lane, place // 2)


@compiled
def give_back(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int) -> None:
    """A request of that flavour leaves the place that it took."""
    _shift(servers, flavours, lane, place, flavour, 1)
    refresh(servers, flavours, lane, place // 2)


@compiled_inline
def refresh(servers: Servers, flavours: Flavours, lane: int, server: int) -> None:
    """Bring what is shown of a server, and what fits on it, up to date with what is free."""
    _compare(servers, flavours, lane, server)
    _note(servers, lane, server)


@compiled_inline
def _fill(servers: Servers, lane: int, server: int) -> None:
    for numa in range(2):
        for kind in range(2):
            servers.free[lane, server, numa, kind] = servers.capacity[server, numa, kind]


@compiled_inline
def _shift(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int, sign: int) -> None:
    """Take or give back, by the sign, what the flavour needs."""
    free = servers.free
    cpu, mem = sign * flavours.need[0, flavour], sign * flavours.need[1, flavour]
    double = flavours.double[flavour]
    for numa in range(2):
        if double or numa == place % 2:
            free[lane, place // 2, numa, 0] += cpu
            free[lane, place // 2, numa, 1] += mem


@compiled_inline
def _compare(servers: Servers, flavours: Flavours, lane: int, server: int) -> None:
    """Which flavours fit on either NUMA node; plain enough for the compiler to do many at a time."""
    need, double, fresh = flavours.need, flavours.double, servers.fresh
    free, shown = servers.free, servers.shown
    cpu0, mem0 = free[lane, server, 0, 0], free[lane, server, 0, 1]
    cpu1, mem1 = free[lane, server, 1, 0], free[lane, server, 1, 1]
    shown[lane, server, 0, 0] = cpu0 * PER_UNIT
    shown[lane, server, 0, 1] = mem0 * PER_UNIT
    shown[lane, server, 1, 0] = cpu1 * PER_UNIT
    shown[lane, server, 1, 1] = mem1 * PER_UNIT
    for flavour in range(need.shape[1]):
        cpu, mem = need[0, flavour], need[1, flavour]
        first = np.uint8((cpu0 >= cpu) & (mem0 >= mem))
        second = np.uint8((cpu1 >= cpu) & (mem1 >= mem))
        alone = np.uint8(1) ^ double[flavour]
        fresh[0, flavour] = first & (second | alone)
        fresh[1, flavour] = second & (first | alone)


@compiled_inline
def _note(servers: Servers, lane: int, server: int) -> None:
    """Write down the flavours whose answer has changed, eight at a time."""
    fresh, before, fits, room = servers.fresh, servers.before, servers.fits, servers.room
    fresh_words, before_words = servers.fresh_words, servers.before_words
    for numa in range(2):
        for word in range(fresh_words.shape[1]):
            if fresh_words[numa, word] == before_words[lane, server, numa, word]:
                continue
            for flavour in range(8 * word, 8 * word + 8):
                now = fresh[numa, flavour]
                if now != before[lane, server, numa, flavour]:
                    fits[lane, flavour, 2 * server + numa] = now
                    room[lane, flavour] += 1 if now else -1
            before_words[lane, server, numa, word] = fresh_words[numa, word]


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


@compiled_inline
def left_over(servers: Servers, flavours: Flavours, lane: int, place: int, flavour: int) -> float:
    """Share of the scarcer resource that stays free where a request moves in; on both nodes the lesser."""
    least = 1.0
    for numa in range(2):
        if flavours.double[flavour] or numa == place % 2:
            for kind in range(2):
                free = servers.free[lane, place // 2, numa, kind] - flavours.need[kind, flavour]
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


@compiled
def share_in_use(servers: Servers, lane: int) -> float:
    """Of cores or of memory, whichever is scarcer. Servers that are still to be added count as full."""
    free, capacity = servers.free, servers.capacity
    most = 0.0
    for kind in range(2):
        left, whole = 0, 0
        for server in range(capacity.shape[0]):
            left += free[lane, server, 0, kind] + free[lane, server, 1, kind]
            whole += capacity[server, 0, kind] + capacity[server, 1, kind]
        most = max(most, (whole - left) / whole)
    return most
