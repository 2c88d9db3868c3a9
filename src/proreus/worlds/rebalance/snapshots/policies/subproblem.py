"""What each machine would change at given prices: the pieces of a plan, found machine by machine.

A plan moves as many of a kind away as it brings somewhere, and makes at most so many migrations. If a kind
has a price that a place pays for one that comes and gets for one that leaves, and every migration has a
price too, then machines no longer depend on each other: each makes the change that is worth most to it.
What they are worth together, plus the budget at its price, is more than any plan is worth (Lagrange), so
prices give a bound, and the changes they call forth are what good plans are made of.

Memory is left out here: a bound without it still holds, and changes without room are dropped by the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable
from proreus.worlds.rebalance.snapshots.model import CPU
from proreus.worlds.rebalance.snapshots.state import Machines

_NEVER = -1e18


@packable
class Contents(NamedTuple):
    """P machines, no two of them alike, as counts of K kinds."""

    free: I64  # [P, 2] free cores
    present: I64  # [P, 2, K] units; those on both NUMA nodes count at the first
    cpu: I64  # [K]
    double: Bool  # [K]
    welcome: Bool  # [P, K] whether a kind may come and leave here: it is movable and of this group
    most: I64  # [1] cores of the largest NUMA node
    size: I64  # [1] cores of a whole piece


@packable
class Changes(NamedTuple):
    """The best change of each NUMA node by itself, and of each machine with some that run on both nodes."""

    node: I64  # [P, 2, K] more (+) or fewer (-) of a kind
    node_worth: F64  # [P, 2] at the prices, beyond no change
    machine: I64  # [P, 2, K]
    machine_worth: F64  # [P] beyond no change; hugely negative where there is none


def contents_of(machines: Machines, kind: I64, representative: I64) -> tuple[Contents, I64]:
    """(the machines as counts, alike ones once; which of these each machine is).

    kind: int64[V], representative: int64[K].
    """
    places, kinds = machines.free.shape[0], representative.shape[0]
    present = np.zeros((places, 2, kinds), dtype=np.int64)
    np.add.at(present, (machines.machine, machines.numa, kind), 1)
    cpu, double = machines.demand[representative, CPU], machines.double[representative]
    groups = machines.group[machines.machine[representative]]
    welcome = machines.movable[representative][None, :] & (machines.group[:, None] == groups[None, :])
    free = machines.free[:, :, CPU]
    in_use = present @ np.where(double, 0, cpu) + (present[:, :1] @ np.where(double, cpu, 0))
    traits = np.column_stack([free, welcome, present.reshape(places, -1)])
    _, first, alike = np.unique(traits, axis=0, return_index=True, return_inverse=True)
    contents = Contents(
        free=free[first],
        present=present[first],
        cpu=cpu,
        double=double,
        welcome=welcome[first],
        most=np.array([int((free + in_use).max())]),
        size=machines.size,
    )
    return pack(contents), alike.ravel()


def no_changes(contents: Contents) -> Changes:
    """Room for the answers of `best_changes`."""
    shape = contents.present.shape
    return pack(
        Changes(
            node=np.zeros(shape, dtype=np.int64),
            node_worth=np.zeros(shape[:2]),
            machine=np.zeros(shape, dtype=np.int64),
            machine_worth=np.zeros(shape[0]),
        )
    )


@compiled
def best_changes(contents: Contents, prices: F64, span: tuple[int, int], changes: Changes) -> None:
    """Fill `changes` for the machines from span[0] up to span[1].

    prices: float64[K + 1], what a place pays for one more of each kind, and for each that comes besides.
    """
    kinds, most = contents.cpu.shape[0], contents.most[0]
    states = 2 * most + 1  # free cores from -most on: those on both nodes may make room in the end
    value = np.empty((3, kinds + 1, states))
    count = np.zeros((3, kinds, states), np.int64)
    for p in range(span[0], span[1]):
        for lane in range(3):
            _reach(contents, prices, (p, lane), value[lane], count[lane])
        for numa in range(2):
            end, worth = _best_end(contents, value[numa, kinds], (p, numa), 0)
            changes.node_worth[p, numa] = worth
            _trace(contents, count[numa], end, changes.node[p, numa])
        _with_doubles(contents, value, count, p, changes)


@compiled
def _reach(contents: Contents, prices: F64, lane: tuple[int, int], value: F64, count: I64) -> None:
    """Worth of the best change of kinds that ends with so many free cores, kind after kind.

    lane: machine, and 0 or 1 for what runs on that NUMA node alone, 2 for what runs on both, where
    the state is how many more cores are free. value: float64[K + 1, states], count: int64[K, states].
    """
    p, which = lane
    kinds, most = contents.cpu.shape[0], contents.most[0]
    states = 2 * most + 1
    value[0] = _NEVER
    value[0, most + (contents.free[p, which] if which < 2 else 0)] = 0.0
    for k in range(kinds):
        before, after, taken = value[k], value[k + 1], count[k]
        after[:] = before
        taken[:] = 0
        if contents.double[k] != (which == 2) or not contents.welcome[p, k]:
            continue
        cpu, comes = contents.cpu[k], -prices[k] - prices[kinds]
        # One that comes and an equal one that leaves are worth no more than neither: do one or the other.
        for a in range(states - cpu - 1, -1, -1):
            if after[a + cpu] + comes > after[a] and after[a + cpu] > _NEVER:
                after[a] = after[a + cpu] + comes
                taken[a] = taken[a + cpu] + 1
        here = contents.present[p, which % 2, k]
        for leave in range(1, here + 1):
            for a in range(leave * cpu, states):
                worth = before[a - leave * cpu] + leave * prices[k]
                if before[a - leave * cpu] > _NEVER and worth > after[a]:
                    after[a] = worth
                    taken[a] = -leave


@compiled
def _best_end(contents: Contents, value: F64, place: tuple[int, int], more: int) -> tuple[int, float]:
    """(state, worth) of the best end for a NUMA node that gets `more` free cores from those on both."""
    most, size = contents.most[0], contents.size[0]
    now = contents.free[place] // size
    best, end = _NEVER, 0
    for a in range(max(0, most - more), value.shape[0]):
        worth = value[a] + (a - most + more) // size - now
        if worth > best:
            best, end = worth, a
    return end, best


@compiled
def _with_doubles(contents: Contents, value: F64, count: I64, p: int, changes: Changes) -> None:
    """The best change of machine p in which some that run on both NUMA nodes come or leave."""
    kinds, most = contents.cpu.shape[0], contents.most[0]
    changes.machine_worth[p] = _NEVER
    both = value[2, kinds]
    best, at, ends = _NEVER, -1, (0, 0)
    for state in range(both.shape[0]):
        if both[state] <= _NEVER or (state == most and both[state] <= 0.0):
            continue
        first, worth = _best_end(contents, value[0, kinds], (p, 0), state - most)
        second, other = _best_end(contents, value[1, kinds], (p, 1), state - most)
        if worth + other + both[state] > best:
            best, at, ends = worth + other + both[state], state, (first, second)
    if at < 0 or best <= _NEVER / 2:
        return
    changes.machine_worth[p] = best
    _trace(contents, count[0], ends[0], changes.machine[p, 0])
    _trace(contents, count[1], ends[1], changes.machine[p, 1])
    kept = changes.machine[p, 0].copy()
    _trace(contents, count[2], at, changes.machine[p, 0])
    changes.machine[p, 0] += kept


@compiled
def _trace(contents: Contents, count: I64, end: int, change: I64) -> None:
    """change: int64[K], how many of each kind came (+) or left (-) on the way to `end`."""
    a = end
    for k in range(count.shape[0] - 1, -1, -1):
        change[k] = count[k, a]
        a += count[k, a] * contents.cpu[k]


# Virtual machines that are interchangeable: the same demand, in the same group of machines.


def kinds_of(machines: Machines) -> tuple[I64, I64]:
    """(kind of each virtual machine, one virtual machine of each kind): int64[V], int64[K]."""
    columns = np.column_stack(
        [
            machines.demand,
            machines.double,
            machines.movable,
            machines.group[machines.machine],
        ]
    ).astype(np.int64)
    _, first, kind = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return kind.ravel().astype(np.int64), first.astype(np.int64)
