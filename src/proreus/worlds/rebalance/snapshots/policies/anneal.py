"""Simulated annealing over snapshots: which virtual machines to move, within a budget, to break up fragments.

A proposal takes one virtual machine (more often one that is already away from home) to a place with room,
to its home, or to the home of an equal one. The energy counts whole pieces; a small bonus for large
remainders leads the way to the next piece. The budget may be overdrawn a little on the way, since a detour
often leads to a better plan; what is kept never overdraws it.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below, next_unit
from proreus.worlds.rebalance.snapshots.policies.rules import greedy_move
from proreus.worlds.rebalance.snapshots.policies.search_state import (
    Away,
    as_plan,
    carry_out,
    distance_change,
    mover,
    whole_pieces,
)
from proreus.worlds.rebalance.snapshots.state import Machines, may_move

# Found on generated snapshots and the public one, by the share of the optimum that five million proposals
# reach.
HOT, WARM, COLD = 0.1, 0.05, 0.02
MOVE_COST = 0.02
OVERDRAFT, OVERDRAFT_COST = 5, 0.3
REMAINDER_BONUS, REMAINDER_POWER = 0.3, 1.5
_AWAY_FIRST, _HOMEWARD = 0.4, 0.4  # shares of proposals
_RELIEVING, _FILLING, _SPARING = 0.3, 0.3, 0.8
_TRIES = 16
_COOLING = 1024
_PAUSE = 10_000  # proposals until a placement that found no order is put in order again


@compiled
def anneal(
    machines: Machines, away: Away, representative: I64, walk: tuple[int, int, bool], rng: U64
) -> tuple[int, I64]:
    """(whole pieces, plan) of the best placement found; `machines` and `away` end where the walk does.

    representative: int64[K], one virtual machine of each kind; walk = (budget, proposals, whether to start
    where the greedy rule ends, and not so hot). The plan is int64[at most budget, 3], in an order in which
    each migration has room; rng: uint64[1].
    """
    budget, proposals, from_greedy = walk
    size = machines.size[0]
    bonus = np.zeros(size)
    for r in range(size):
        bonus[r] = REMAINDER_BONUS * (r / size) ** REMAINDER_POWER
    best, plan = whole_pieces(machines), np.empty((0, 3), np.int64)
    temperature = HOT
    if from_greedy:
        _go_greedily(machines, away, representative, budget)
        reached, ordered = as_plan(machines, away, budget)
        if reached > best:
            best, plan = reached, ordered
        temperature = WARM
    pieces = whole_pieces(machines)
    cooling = (COLD / temperature) ** (_COOLING / max(proposals, _COOLING))
    try_again = 0
    for step in range(proposals):
        if step % _COOLING == 0:
            temperature *= cooling
        v, p, numa = _propose(machines, away, rng)
        if p < 0 or not may_move(machines, v, p, numa):
            continue
        cost = distance_change(machines, away, v, p, numa)
        if away.spent[0] + cost > budget + OVERDRAFT:
            continue
        gain, smooth = _gain(machines, bonus, v, p, numa)
        over = max(0, away.spent[0] + cost - budget) - max(0, away.spent[0] - budget)
        worth = gain + smooth - MOVE_COST * cost - OVERDRAFT_COST * over
        if worth < 0 and next_unit(rng) >= np.exp(worth / temperature):
            continue
        carry_out(machines, away, v, p, numa)
        pieces += gain
        if pieces > best and away.spent[0] <= budget and step >= try_again:
            reached, ordered = as_plan(machines, away, budget)
            if reached > best:
                best, plan = reached, ordered
            if reached < pieces:
                try_again = step + _PAUSE
    return best, plan


@compiled
def _go_greedily(machines: Machines, away: Away, representative: I64, budget: int) -> None:
    """Carry out what the greedy rule would."""
    while away.spent[0] < budget:
        v, p, numa = greedy_move(machines, away.kind, representative)
        if v < 0:
            break
        v = mover(machines, away, v)
        if away.spent[0] + distance_change(machines, away, v, p, numa) > budget:
            break
        carry_out(machines, away, v, p, numa)


@compiled
def _propose(machines: Machines, away: Away, rng: U64) -> tuple[int, int, int]:
    """(virtual machine, machine, NUMA node), or -1 where nothing can be proposed."""
    count = away.gone[0]
    lot = next_unit(rng)
    if count > 0 and lot < _AWAY_FIRST:
        v = away.listed[next_below(rng, count)]
        if next_unit(rng) < _HOMEWARD:
            host = away.listed[next_below(rng, count)]
            if away.kind[host] != away.kind[v]:
                host = v
            return v, away.home[host], away.home_numa[host]
    else:
        v = next_below(rng, away.kind.shape[0])
        if lot < _AWAY_FIRST + _RELIEVING:
            for _ in range(_TRIES):
                if _relieves(machines, v):
                    break
                v = next_below(rng, away.kind.shape[0])
    place = _place_with_room(machines, away, machines.demand[v, 0], rng)
    return mover(machines, away, v), place // 2, 0 if machines.double[v] else place % 2


@compiled
def _relieves(machines: Machines, v: int) -> bool:
    """Whether a NUMA node has one more whole piece without v."""
    size, cpu, here = machines.size[0], machines.demand[v, 0], machines.machine[v]
    if machines.double[v]:
        return (
            machines.free[here, 0, 0] % size + cpu >= size or machines.free[here, 1, 0] % size + cpu >= size
        )
    return machines.free[here, machines.numa[v], 0] % size + cpu >= size


@compiled
def _place_with_room(machines: Machines, away: Away, cpu: int, rng: U64) -> int:
    """A NUMA node (2 * machine + node) with at least `cpu` free cores, by lot; often one that loses no whole
    piece by taking them, or is filled by them; negative where none was found."""
    size, most = machines.size[0], away.stored.shape[0] - 1
    if cpu > most:
        return -2
    if away.stored[cpu] > 0 and next_unit(rng) < _FILLING:
        return away.shelf[cpu, next_below(rng, away.stored[cpu])]
    for _ in range(_TRIES):
        room = cpu + next_below(rng, most - cpu + 1)
        if away.stored[room] == 0 or (room % size < cpu % size and next_unit(rng) < _SPARING):
            continue
        return away.shelf[room, next_below(rng, away.stored[room])]
    return -2


@compiled
def _gain(machines: Machines, bonus: F64, v: int, p: int, numa: int) -> tuple[int, float]:
    """(more whole pieces, larger bonus for remainders) when v goes to (p, numa)."""
    free, size, cpu, here = machines.free, machines.size[0], machines.demand[v, 0], machines.machine[v]
    pieces, smooth = 0, 0.0
    for k in range(2):
        if machines.double[v] or k == machines.numa[v]:
            before, after = free[here, k, 0], free[here, k, 0] + cpu
            pieces += after // size - before // size
            smooth += bonus[after % size] - bonus[before % size]
        if machines.double[v] or k == numa:
            before, after = free[p, k, 0], free[p, k, 0] - cpu
            pieces += after // size - before // size
            smooth += bonus[after % size] - bonus[before % size]
    return pieces, smooth
