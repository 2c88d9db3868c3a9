"""From where everything shall be to migrations one after the other, each of which has room when it is made.

The search and the exact solver decide which places lose and which gain a virtual machine of a kind; equal
ones are interchangeable, so who goes where is open until here. Where a circle leaves nobody room, one
virtual machine is parked on a third machine, which costs a migration more; what the budget does not allow
stays undone.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.worlds.rebalance.snapshots.state import Machines, may_move, move

PLAN_COLUMNS = 3
"""A plan is int64[n, 3]: virtual machine, machine, NUMA node."""


@compiled
def order_moves(machines: Machines, kind: I64, leaving: I64, places: I64, budget: int) -> I64:
    """The plan that empties `leaving` into `places`; `machines` ends where the plan does.

    kind: int64[V]; leaving: int64[n], virtual machines; places: int64[n, 3], kind, machine, NUMA node, as
    many of a kind as leave. Returns int64[at most budget, 3].
    """
    count = leaving.shape[0]
    waiting, open_places = leaving.copy(), places.copy()
    kinds = 1 + places[:, 0].max() if count > 0 else 0
    wanted = np.zeros((machines.free.shape[0], kinds), np.int64)  # places to fill, by machine and kind
    for t in range(count):
        wanted[places[t, 1], places[t, 0]] += 1
    plan = np.empty((budget, PLAN_COLUMNS), np.int64)
    made = 0
    while count > 0 and made < budget:
        t, s = _next_pair(machines, kind, waiting[:count], open_places[:count], wanted)
        if t >= 0:
            v, p, numa = waiting[s], open_places[t, 1], open_places[t, 2]
            wanted[p, kind[v]] -= 1
            count -= 1
            waiting[s] = waiting[count]
            open_places[t] = open_places[count]
        else:
            v, p, numa = _parking(machines, waiting[:count], wanted)
            # A parked one needs a second migration: without budget for both, parking gains nothing.
            if v < 0 or made + 2 > budget:
                break
        move(machines, v, p, numa)
        plan[made, 0], plan[made, 1], plan[made, 2] = v, p, numa
        made += 1
    return plan[:made].copy()


@compiled
def _next_pair(machines: Machines, kind: I64, waiting: I64, places: I64, wanted: I64) -> tuple[int, int]:
    """(place, who goes there) for a place that has room now, or (-1, -1).

    Whoever leaves room that another place waits for goes first; most of all one whose own machine shall gain
    one of its kind, since that place has to be filled by somebody else.
    """
    best_t, best_s, best_score = -1, -1, -1
    for t in range(places.shape[0]):
        for s in range(waiting.shape[0]):
            v = waiting[s]
            if kind[v] != places[t, 0] or not may_move(machines, v, places[t, 1], places[t, 2]):
                continue
            here = machines.machine[v]
            score = 2 if wanted[here, kind[v]] > 0 else (1 if wanted[here].sum() > 0 else 0)
            if score == 2:
                return t, s
            if score > best_score:
                best_t, best_s, best_score = t, s, score
    return best_t, best_s


@compiled
def _parking(machines: Machines, waiting: I64, wanted: I64) -> tuple[int, int, int]:
    """(who, machine, NUMA node) to park so that a place gets room, or (-1, -1, -1)."""
    for s in range(waiting.shape[0]):
        v = waiting[s]
        if wanted[machines.machine[v]].sum() == 0:
            continue
        for p in range(machines.free.shape[0]):
            if wanted[p].sum() > 0:
                continue
            for numa in range(2):
                if may_move(machines, v, p, numa):
                    return v, p, numa
    return -1, -1, -1
