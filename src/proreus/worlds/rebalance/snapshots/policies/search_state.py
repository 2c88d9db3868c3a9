"""The books of a search over placements: who is not at home, and which NUMA nodes have how much room.

Equal virtual machines are interchangeable: if one leaves and an equal one takes its place, nobody has
moved. So when one comes to a place that an equal one is missing from, the two exchange names and one of
them is at home.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable
from proreus.worlds.rebalance.snapshots.model import CPU
from proreus.worlds.rebalance.snapshots.policies.move_order import order_moves
from proreus.worlds.rebalance.snapshots.state import Machines, fragment_cores, free_cores, move


@packable
class Away(NamedTuple):
    """V virtual machines of K kinds on P machines with up to F free cores a NUMA node; room for n away."""

    kind: I64  # [V]
    home: I64  # [V] machine in the snapshot
    home_numa: I64  # [V]
    home_free: I64  # [P, 2, 2] free amounts in the snapshot
    listed: I64  # [n] those away, the first `gone` of them
    slot: I64  # [V] where in `listed`, -1: at home
    balance: I64  # [P, 2, K] units of a kind above (+) or below (-) the snapshot
    shelf: I64  # [F + 1, 2P] NUMA nodes (2 * machine + node) by free cores, the first `stored` of each row
    shelf_slot: I64  # [2P] where in its row
    shelf_room: I64  # [2P] which row
    stored: I64  # [F + 1]
    gone: I64  # [1] how many are away
    spent: I64  # [1] migrations that takes


def all_at_home(machines: Machines, kind: I64, most_away: int) -> Away:
    """The books of a snapshot as it is; kind: int64[V]."""
    count, places = kind.shape[0], machines.free.shape[0]
    room = machines.free[:, :, CPU].ravel()
    # No NUMA node ever has more free than it has free now and in use by somebody.
    in_use = np.zeros(2 * places, dtype=np.int64)
    for part in (0, 1):
        there = machines.double | (machines.numa == part)
        np.add.at(in_use, 2 * machines.machine[there] + part, machines.demand[there, CPU])
    shelf = np.zeros((int((room + in_use).max()) + 1, 2 * places), dtype=np.int64)
    stored = np.zeros(shelf.shape[0], dtype=np.int64)
    slot = np.zeros(2 * places, dtype=np.int64)
    for place, free in enumerate(room):
        slot[place] = stored[free]
        shelf[free, stored[free]] = place
        stored[free] += 1
    return pack(
        Away(
            kind=kind,
            home=machines.machine.copy(),
            home_numa=machines.numa.copy(),
            home_free=machines.free.copy(),
            listed=np.zeros(most_away, dtype=np.int64),
            slot=np.full(count, -1, dtype=np.int64),
            balance=np.zeros((places, 2, int(kind.max()) + 1), dtype=np.int64),
            shelf=shelf,
            shelf_slot=slot,
            shelf_room=room.copy(),
            stored=stored,
            gone=np.zeros(1, dtype=np.int64),
            spent=np.zeros(1, dtype=np.int64),
        )
    )


@compiled
def whole_pieces(machines: Machines) -> int:
    """Whole pieces of free cores."""
    return (free_cores(machines) - fragment_cores(machines)) // machines.size[0]


@compiled
def _distance(away: Away, v: int, p: int, numa: int) -> int:
    """Migrations from v's home to (p, numa): the other NUMA node of its machine is reached by a detour
    only."""
    if away.home[v] != p:
        return 1
    return 0 if away.home_numa[v] == numa else 2


@compiled
def distance_change(machines: Machines, away: Away, v: int, p: int, numa: int) -> int:
    """How many more migrations it takes once v is at (p, numa)."""
    k = away.kind[v]
    before = _distance(away, v, machines.machine[v], machines.numa[v])
    if away.balance[p, numa, k] >= 0:
        return _distance(away, v, p, numa) - before
    # One of its kind is missing there: that one is at home now, and v takes over its place.
    host = _missing_from(away, k, p, numa)
    if host == v:
        return -before
    there, there_numa = machines.machine[host], machines.numa[host]
    return _distance(away, v, there, there_numa) - before - _distance(away, host, there, there_numa)


@compiled
def carry_out(machines: Machines, away: Away, v: int, p: int, numa: int) -> None:
    """Move v and keep the books: equal ones change names so that as few as possible are away."""
    k, here, here_numa = away.kind[v], machines.machine[v], machines.numa[v]
    away.spent[0] += distance_change(machines, away, v, p, numa)
    host = _missing_from(away, k, p, numa) if away.balance[p, numa, k] < 0 else -1
    move(machines, v, p, numa)
    away.balance[here, here_numa, k] -= 1
    away.balance[p, numa, k] += 1
    _put_on_shelves(machines, away, here)
    _put_on_shelves(machines, away, p)
    if host >= 0 and host != v:
        machines.machine[v], machines.numa[v] = machines.machine[host], machines.numa[host]
        machines.machine[host], machines.numa[host] = p, numa
    if host >= 0:
        _come_home(away, host)
    if host != v and away.slot[v] < 0:
        away.listed[away.gone[0]] = v
        away.slot[v] = away.gone[0]
        away.gone[0] += 1


@compiled
def _missing_from(away: Away, k: int, p: int, numa: int) -> int:
    """One of kind k whose home is (p, numa) and who is away."""
    for i in range(away.gone[0]):
        other = away.listed[i]
        if away.kind[other] == k and away.home[other] == p and away.home_numa[other] == numa:
            return other
    return -1


@compiled
def mover(machines: Machines, away: Away, v: int) -> int:
    """v, or an equal one in the same place that is away already: if that one goes on, nobody else leaves
    home."""
    if away.slot[v] >= 0 or away.balance[machines.machine[v], machines.numa[v], away.kind[v]] <= 0:
        return v
    for i in range(away.gone[0]):
        other = away.listed[i]
        if (
            away.kind[other] == away.kind[v]
            and machines.machine[other] == machines.machine[v]
            and machines.numa[other] == machines.numa[v]
        ):
            return other
    return v


@compiled
def _come_home(away: Away, v: int) -> None:
    away.gone[0] -= 1
    last = away.listed[away.gone[0]]
    away.listed[away.slot[v]] = last
    away.slot[last] = away.slot[v]
    away.slot[v] = -1


@compiled
def _put_on_shelves(machines: Machines, away: Away, p: int) -> None:
    """Keep the shelves of NUMA nodes by free cores, after the free cores of p have changed."""
    for numa in range(2):
        place, room = 2 * p + numa, machines.free[p, numa, 0]
        before = away.shelf_room[place]
        if before == room:
            continue
        away.stored[before] -= 1
        last = away.shelf[before, away.stored[before]]
        away.shelf[before, away.shelf_slot[place]] = last
        away.shelf_slot[last] = away.shelf_slot[place]
        away.shelf[room, away.stored[room]] = place
        away.shelf_slot[place] = away.stored[room]
        away.shelf_room[place] = room
        away.stored[room] += 1


@compiled
def as_plan(machines: Machines, away: Away, budget: int) -> tuple[int, I64]:
    """(whole pieces, plan) of the present placement, its migrations put into an order that has room."""
    count = away.gone[0]
    leaving = away.listed[:count].copy()
    places = np.empty((count, 3), np.int64)
    here_free = machines.free.copy()
    here = np.empty((count, 2), np.int64)
    for i in range(count):
        v = leaving[i]
        here[i, 0], here[i, 1] = machines.machine[v], machines.numa[v]
        places[i, 0], places[i, 1], places[i, 2] = away.kind[v], here[i, 0], here[i, 1]
    for i in range(count):
        machines.machine[leaving[i]], machines.numa[leaving[i]] = (
            away.home[leaving[i]],
            away.home_numa[leaving[i]],
        )
    machines.free[:] = away.home_free
    plan = order_moves(machines, away.kind, leaving, places, budget)
    pieces = whole_pieces(machines)
    machines.free[:] = here_free
    for i in range(count):
        machines.machine[leaving[i]], machines.numa[leaving[i]] = here[i, 0], here[i, 1]
    return pieces, plan
