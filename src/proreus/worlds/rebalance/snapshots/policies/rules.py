"""Rules for snapshots: what a simple hand would migrate next. Kernels return (vm, machine, NUMA node) or -1.

Ties fall to the smaller virtual machine, then to the lower numbers of virtual machine, machine and NUMA node.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64, U64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.rebalance.snapshots.state import Machines, fits, fragment_drop, may_move

FIRST_FIT, BEST_FIT = 0, 1
Choice = tuple[int, int, int]

_RANDOM_TRIES = 64


@compiled
def greedy_move(machines: Machines, kind: I64, representative: I64) -> Choice:
    """The migration that shrinks the fragments most; (-1, -1, -1) where none shrinks them.

    What a machine gains by losing a virtual machine and what another loses by getting it are independent, so
    per kind only the best place matters, and the best one on another machine for those who are there already.
    kind: int64[V]; representative: int64[K].
    """
    places = best_places(machines, representative)
    best, best_cpu = 0, 0
    choice = (-1, -1, -1)
    for v in range(machines.machine.shape[0]):
        if not machines.movable[v]:
            continue
        rank = 0 if places[kind[v], 0, 0] != machines.machine[v] else 1
        p, numa, cost = places[kind[v], rank]
        if p < 0:
            continue
        drop, cpu = relief(machines, v) - cost, machines.demand[v, 0]
        if drop > best or (drop == best and best > 0 and cpu < best_cpu):
            best, best_cpu, choice = drop, cpu, (v, p, numa)
    return choice


@compiled
def best_places(machines: Machines, representative: I64) -> I64:
    """int64[K, 2, 3]: per kind the place whose fragments grow least (machine, NUMA node, growth), and the
    best one on any other machine; -1 where there is none."""
    kinds = representative.shape[0]
    places = np.full((kinds, 2, 3), -1, np.int64)
    for k in range(kinds):
        v = representative[k]
        group = machines.group[machines.machine[v]]
        for p in range(machines.free.shape[0]):
            if machines.group[p] != group:
                continue
            for numa in range(1 if machines.double[v] else 2):
                if not fits(machines, v, p, numa):
                    continue
                growth = _growth(machines, v, p, numa)
                if places[k, 0, 0] < 0 or growth < places[k, 0, 2]:
                    if places[k, 0, 0] != p:
                        places[k, 1] = places[k, 0]
                    places[k, 0, 0], places[k, 0, 1], places[k, 0, 2] = p, numa, growth
                elif places[k, 0, 0] != p and (places[k, 1, 0] < 0 or growth < places[k, 1, 2]):
                    places[k, 1, 0], places[k, 1, 1], places[k, 1, 2] = p, numa, growth
    return places


@compiled
def _growth(machines: Machines, v: int, p: int, numa: int) -> int:
    """By how many cores the fragments of p grow when v comes to (p, numa)."""
    free, size, cpu = machines.free, machines.size[0], machines.demand[v, 0]
    growth = 0
    for k in range(2):
        if machines.double[v] or k == numa:
            growth += (free[p, k, 0] - cpu) % size - free[p, k, 0] % size
    return growth


@compiled
def relief(machines: Machines, v: int) -> int:
    """By how many cores the fragments of v's own machine shrink without it."""
    size, here, cpu = machines.size[0], machines.machine[v], machines.demand[v, 0]
    drop = 0
    for k in range(2):
        if machines.double[v] or k == machines.numa[v]:
            drop += machines.free[here, k, 0] % size - (machines.free[here, k, 0] + cpu) % size
    return drop


@compiled
def fitting_move(machines: Machines, how: int) -> Choice:
    """Who leaves is chosen by what its machine gains, where it goes by fit alone.

    Virtual machines are tried in the order of how much the fragments of their own machine shrink without
    them; each goes to the first place with room (FIRST_FIT) or to the one with least room left (BEST_FIT).
    The first migration that shrinks the fragments of both machines together is made.
    """
    count = machines.machine.shape[0]
    if count == 0:
        return -1, -1, -1
    gain = np.empty(count, np.int64)
    for v in range(count):
        gain[v] = relief(machines, v)
    order = np.argsort(machines.demand[:, 0] - gain * (1 + machines.demand[:, 0].max()), kind="mergesort")
    for v in order:
        if gain[v] <= 0:
            break
        p, numa = _fitting_place(machines, v, how)
        if p >= 0 and fragment_drop(machines, v, p, numa) > 0:
            return v, p, numa
    return -1, -1, -1


@compiled
def _fitting_place(machines: Machines, v: int, how: int) -> tuple[int, int]:
    least, place = -1, (-1, -1)
    for p in range(machines.free.shape[0]):
        for numa in range(2):
            if not may_move(machines, v, p, numa):
                continue
            if how == FIRST_FIT:
                return p, numa
            left = (
                machines.free[p, 0, 0] + machines.free[p, 1, 0]
                if machines.double[v]
                else machines.free[p, numa, 0]
            )
            if least < 0 or left < least:
                least, place = left, (p, numa)
    return place


@compiled
def hottest_move(machines: Machines) -> Choice:
    """The largest virtual machine of the fullest machine goes to the emptiest one that may take it.

    It stops where the move would only exchange the two: the emptiest would become as full as the fullest was.
    """
    free = machines.free
    hot, least = -1, 0
    for p in range(free.shape[0]):
        room = free[p, 0, 0] + free[p, 1, 0]
        if hot < 0 or room < least:
            hot, least = p, room
    choice, largest, most_room = (-1, -1, -1), 0, 0
    for v in range(machines.machine.shape[0]):
        if machines.machine[v] != hot or not machines.movable[v]:
            continue
        cpu = machines.demand[v, 0] * (2 if machines.double[v] else 1)
        if cpu < largest:
            continue
        for p in range(free.shape[0]):
            room = free[p, 0, 0] + free[p, 1, 0]
            if room - cpu <= least or (cpu == largest and room <= most_room):
                continue
            for numa in range(2):
                if may_move(machines, v, p, numa):
                    choice, largest, most_room = (v, p, numa), cpu, room
                    break
    return choice


@compiled
def random_move(machines: Machines, rng: U64) -> Choice:
    """Any legal migration, by lot; (-1, -1, -1) where there is none. rng: uint64[1]."""
    vms, places = machines.machine.shape[0], machines.free.shape[0]
    if vms == 0:
        return -1, -1, -1
    for _ in range(_RANDOM_TRIES):
        v, p, numa = next_below(rng, vms), next_below(rng, places), next_below(rng, 2)
        if may_move(machines, v, p, numa):
            return v, p, numa
    # Few are legal: look from a random place on, so that one is found if there is one.
    start = next_below(rng, vms * places * 2)
    for k in range(vms * places * 2):
        i = (start + k) % (vms * places * 2)
        v, p, numa = i // (places * 2), i // 2 % places, i % 2
        if may_move(machines, v, p, numa):
            return v, p, numa
    return -1, -1, -1
