"""A decision as rows: one for each ready task in the window on each machine, one for waiting; and a context.

Rows of slots without a task are zeros. Features of money and deadlines are zero where the makespan is the
aim, and those of the makespan where it is not, so that one network serves both.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, U8
from proreus.kernels.compiled import compiled
from proreus.worlds.workflows.model import WINDOW
from proreus.worlds.workflows.state.columns import (
    ARRIVED,
    BACKLOG,
    BILLING,
    BY_MAKESPAN,
    NOW,
    OVER,
    READIES,
    State,
    Work,
)
from proreus.worlds.workflows.state.graph import GRAPH_FEATURES
from proreus.worlds.workflows.state.placement import (
    added_rent,
    earliest_start,
    inputs_possible,
    may_wait,
    paid_until,
    penalty_of,
)

VERSION = "workflows-1"
PAIR_FEATURES = (
    "places",
    "waits",
    "dollars of rent",
    "dollars of penalty if the rest runs at this speed",
    "lateness then, in spans of the deadline",
    "lateness of the task, in spans of the deadline",
    "log seconds until it starts",
    "log seconds that it takes",
    "the machine is rented",
    "share of a period that stays paid and idle",
    "periods until the machine is free",
    "price, of the dearest",
    "log speed, of the fastest",
    "log seconds until its inputs are there",
    "slot",
    "slack on the fastest machine, in spans of the deadline",
    "makespan: ends later than elsewhere, in ranks",
    "makespan: slot",
    "makespan: ends later than elsewhere with the rest at this speed, in ranks",
)
FEATURES = (*PAIR_FEATURES, *GRAPH_FEATURES)
CONTEXT = (
    "makespan is the aim",
    "log ready tasks",
    "share of machines that are rented",
    "share of machines that are busy",
    "log workflows that are not over",
    "log hours of runtime not placed yet, per rented speed",
    "dollars an hour of what is rented",
)
PAIRS = len(PAIR_FEATURES)
SIZES = (len(FEATURES), len(CONTEXT))
_MOST = 8.0


def rows_for(machines: int) -> int:
    """Rows of a decision, one for each numbered action."""
    return WINDOW * machines + 1


@compiled
def encode(work: Work, state: State, rows: F32, context: F32, fits: U8) -> None:
    """Fill rows [R, F], context [G] and fits [R]: which rows are legal actions."""
    nodes = work.speed.size
    rows[:] = 0.0
    fits[:] = 0
    fastest, dearest = work.speed.max(), max(work.price.max(), 1e-12)
    for slot in range(min(state.tally[READIES], WINDOW)):
        task = state.ready[slot]
        inputs_possible(work, state, task)
        _fill_slot(work, state, rows[slot * nodes : (slot + 1) * nodes], slot, (fastest, dearest))
        fits[slot * nodes : (slot + 1) * nodes] = 1
    rows[WINDOW * nodes, 1] = 1.0
    fits[WINDOW * nodes] = may_wait(work, state)
    _fill_context(work, state, context)


@compiled
def _fill_slot(work: Work, state: State, rows: F32, slot: int, most: tuple[float, float]) -> None:
    """The rows of one ready task; most = (fastest speed, highest price)."""
    fastest, dearest = most
    task, now = state.ready[slot], state.figure[NOW]
    plan = work.option[BY_MAKESPAN] == 1
    first, first_with_rest = np.inf, np.inf
    for node in range(work.speed.size):
        row, seconds = rows[node], work.duration[task, node]
        start = earliest_start(state, node, state.possible[node], seconds)
        finish = start + seconds
        first = min(first, finish)
        first_with_rest = min(first_with_rest, finish + work.tail[task] / work.speed[node])
        row[0] = 1.0
        row[6] = np.log1p(start - now) / 8.0
        row[7] = np.log1p(seconds) / 8.0
        row[11] = work.price[node] / dearest
        row[12] = np.log(work.speed[node] / fastest) / 3.0
        row[13] = np.log1p(state.possible[node] - now) / 8.0
        for feature in range(work.graph.shape[1]):
            row[PAIRS + feature] = work.graph[task, feature]
        if plan:
            row[16], row[17] = finish, slot
            row[18] = finish + work.tail[task] / work.speed[node]
        else:
            row[14] = slot
            _fill_money(work, state, row, (task, node), (finish, fastest))
    if plan:
        for node in range(work.speed.size):
            seconds = work.duration[task, node]
            finish = earliest_start(state, node, state.possible[node], seconds) + seconds
            rest = work.tail[task] / work.speed[node]
            scale = max(work.up[task], 1e-9)
            rows[node, 16] = min((finish - first) / scale, _MOST)
            rows[node, 18] = min((finish + rest - first_with_rest) / scale, _MOST)


@compiled
def _fill_money(work: Work, state: State, row: F32, pair: tuple[int, int], ends: tuple[float, float]) -> None:
    """What a placement means for rent and deadline; pair = (task, node), ends = (finish, fastest speed)."""
    (task, node), (finish, fastest) = pair, ends
    now, period, workflow = state.figure[NOW], work.term[BILLING], work.workflow[task]
    deadline = work.deadline[workflow]
    span = deadline - work.arrival[workflow]
    after = finish + work.tail[task] / work.speed[node]
    row[2] = min(added_rent(work, state, node, finish), _MOST)
    row[3] = min(penalty_of(work, workflow, after), _MOST)
    row[4] = min(max((after - deadline) / span, -1.0), 3.0)
    row[5] = min(max((finish - work.sub_deadline[task]) / span, -1.0), 3.0)
    row[8] = state.until[node] > now
    paid = paid_until(work, state, node, finish) - max(state.busy_until[node], finish)
    row[9] = min(paid / period, _MOST)
    row[10] = min(max(state.busy_until[node] - now, 0.0) / period, _MOST)
    soonest = now + (work.runtime[task] + work.tail[task]) / fastest
    row[15] = min(max((deadline - soonest) / span, -1.0), 1.0)


@compiled
def _fill_context(work: Work, state: State, context: F32) -> None:
    now, nodes = state.figure[NOW], work.speed.size
    rented, busy, speed, price = 0, 0, 0.0, 0.0
    for node in range(nodes):
        if state.until[node] > now:
            rented += 1
            speed += work.speed[node]
            price += work.price[node]
        if state.busy_until[node] > now:
            busy += 1
    context[0] = work.option[BY_MAKESPAN]
    context[1] = np.log1p(state.tally[READIES]) / 6.0
    context[2] = rented / nodes
    context[3] = busy / nodes
    context[4] = np.log1p(state.tally[ARRIVED] - state.tally[OVER]) / 4.0
    hours = max(state.figure[BACKLOG], 0.0) / 3600.0 / max(speed, 1.0)
    context[5] = np.log1p(hours) / 4.0
    context[6] = min(price * 3600.0 / 10.0, _MOST)
