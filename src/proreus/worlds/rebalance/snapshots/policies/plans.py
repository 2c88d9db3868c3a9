"""Plans as changes of machines and back: put in order, checked, and cut where they have led to most."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64
from proreus.worlds.rebalance.snapshots.policies.move_order import order_moves
from proreus.worlds.rebalance.snapshots.policies.search_state import whole_pieces
from proreus.worlds.rebalance.snapshots.state import Machines, copied, may_move, move


def ordered_plan(machines: Machines, kind: I64, change: I64, budget: int) -> tuple[I64, int]:
    """(plan, whole pieces once it is carried out) that makes the changes, as far as an order has room.

    kind: int64[V]; change: int64[P, 2, K], more (+) or fewer (-) of a kind, those on both nodes at the first.
    """
    at: dict[tuple[int, int, int], list[int]] = {}
    for v, key in enumerate(
        zip(machines.machine.tolist(), machines.numa.tolist(), kind.tolist(), strict=True)
    ):
        at.setdefault(key, []).append(v)
    leaving: list[int] = []
    places: list[tuple[int, int, int]] = []
    for p, numa, k in np.argwhere(change).tolist():
        count = int(change[p, numa, k])
        places.extend([(k, p, numa)] * count)
        leaving.extend(at.get((p, numa, k), [])[: max(-count, 0)])
    wanted = np.array(places, dtype=np.int64).reshape(-1, 3)
    plan = order_moves(copied(machines), kind, np.array(leaving, dtype=np.int64), wanted, budget)
    return best_part(machines, plan)


def change_of(machines: Machines, kind: I64, plan: I64) -> I64:
    """int64[P, 2, K]: what a plan changes, as `ordered_plan` takes it."""
    after = copied(machines)
    for v, p, numa in plan:
        move(after, v, p, numa)
    change = np.zeros((machines.free.shape[0], 2, int(kind.max(initial=-1)) + 1), dtype=np.int64)
    np.add.at(change, (after.machine, after.numa, kind), 1)
    np.add.at(change, (machines.machine, machines.numa, kind), -1)
    return change


def best_part(machines: Machines, plan: I64) -> tuple[I64, int]:
    """The plan up to where it has led to most pieces, and these: a circle may have left its end undone.

    Nothing after a migration that may not be made in its turn is handed out.
    """
    own = copied(machines)
    pieces = [whole_pieces(own)]
    for v, p, numa in plan:
        if not may_move(own, v, p, numa):
            break
        move(own, v, p, numa)
        pieces.append(whole_pieces(own))
    length = int(np.argmax(pieces))
    return plan[:length], pieces[length]
