"""A decision as rows: one for each ready task in the window on each machine, one for waiting; and a context.

Rows of slots without a task are zeros. Where the makespan is the aim, features that do not name it are zero,
and where it is not those that do: one network serves both, and learning one leaves the other alone.
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
    CAME,
    LATE_FEE,
    LATE_RATE,
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
)

VERSION = "workflows-1"
PAIR_FEATURES = (
    "places",
    "waits",
    "dollars of rent",
    "dollars of newly paid time behind it that others will use, as work has come so far",
    "dollars of the fee, if the rest runs at this speed or is spread over what is rented",
    "dollars of lateness if the rest runs at this speed",
    "dollars that all workflows which are here would pay for that time",
    "lateness, in spans of the deadline",
    "lateness of the task, in spans of the deadline",
    "log seconds until it starts",
    "log seconds that it takes",
    "the machine is rented",
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
    "log speed that work asks for as it has come so far",
)
PAIRS = len(PAIR_FEATURES)
SIZES = (len(FEATURES), len(CONTEXT))
_MOST = 8.0
_HALF_AN_HOUR = 1800.0
"""Before the first arrival nothing came for so long, or so it is taken."""


def rows_for(machines: int) -> int:
    """Rows of a decision, one for each numbered action."""
    return WINDOW * machines + 1


@compiled
def encode(work: Work, state: State, rows: F32, context: F32, fits: U8) -> None:
    """Fill rows [R, F], context [G] and fits [R]: which rows are legal actions."""
    nodes = work.speed.size
    rows[:] = 0.0
    fits[:] = 0
    _fill_context(work, state, context)
    for slot in range(min(state.tally[READIES], WINDOW)):
        inputs_possible(work, state, state.ready[slot])
        _fill_slot(work, state, rows[slot * nodes : (slot + 1) * nodes], slot)
        fits[slot * nodes : (slot + 1) * nodes] = 1
    rows[WINDOW * nodes, 1] = 1.0
    fits[WINDOW * nodes] = may_wait(work, state)


@compiled
def _fill_slot(work: Work, state: State, rows: F32, slot: int) -> None:
    """The rows of one ready task."""
    task, now, fastest = state.ready[slot], state.figure[NOW], work.speed.max()
    dearest, (rented, promised) = max(work.price.max(), 1e-12), _rented_speed(work, state)
    plan = work.option[BY_MAKESPAN] == 1
    first, first_with_rest = np.inf, np.inf
    for node in range(work.speed.size):
        row, seconds = rows[node], work.duration[task, node]
        start = earliest_start(state, node, state.possible[node], seconds)
        finish = start + seconds
        first = min(first, finish)
        first_with_rest = min(first_with_rest, finish + work.tail[task] / work.speed[node])
        row[0] = 1.0
        for feature in range(work.graph.shape[1]):
            row[PAIRS + feature] = work.graph[task, feature]
        if plan:
            row[19] = slot
            continue
        row[9] = np.log1p(start - now) / 8.0
        row[10] = np.log1p(seconds) / 8.0
        row[13] = work.price[node] / dearest
        row[14] = np.log(work.speed[node] / fastest) / 3.0
        row[15] = np.log1p(state.possible[node] - now) / 8.0
        row[16] = slot
        _fill_money(work, state, row, (task, node), (finish, fastest, rented, promised))
    for node in range(work.speed.size if plan else 0):
        seconds = work.duration[task, node]
        finish = earliest_start(state, node, state.possible[node], seconds) + seconds
        rest = work.tail[task] / work.speed[node]
        scale = max(work.up[task], 1e-9)
        rows[node, 18] = min((finish - first) / scale, _MOST)
        rows[node, 20] = min((finish + rest - first_with_rest) / scale, _MOST)


@compiled
def _rented_speed(work: Work, state: State) -> tuple[float, float]:
    """(speed of all machines that are paid for now, runtime that they have been given and not done)."""
    total, promised = 0.0, 0.0
    for node in range(work.speed.size):
        if state.until[node] > state.figure[NOW]:
            total += work.speed[node]
            promised += work.speed[node] * max(state.busy_until[node] - state.figure[NOW], 0.0)
    return total, promised


@compiled
def _speed_asked(work: Work, state: State) -> float:
    """Of machines that would keep up with the work as it has come so far."""
    since = state.figure[NOW] - work.arrival[0] + _HALF_AN_HOUR
    return state.figure[CAME] / since


@compiled
def _bent(dollars: float) -> float:
    """As they are up to four, then ever slower: large amounts stay apart and small."""
    return dollars if dollars < 4.0 else 4.0 + 4.0 * np.log(dollars / 4.0)


@compiled
def _fill_money(
    work: Work, state: State, row: F32, pair: tuple[int, int], known: tuple[float, float, float, float]
) -> None:
    """What a placement means for rent and deadline.

    known = (finish, fastest speed, speed rented, runtime that is promised to what is rented).
    """
    (task, node), (finish, fastest, rented, promised) = pair, known
    now, workflow = state.figure[NOW], work.workflow[task]
    deadline, rate = work.deadline[workflow], work.term[LATE_RATE]
    span = deadline - work.arrival[workflow]
    after = finish + work.tail[task] / work.speed[node]
    is_rented = state.until[node] > now
    row[2] = _bent(added_rent(work, state, node, finish))
    with_it = rented if is_rented else rented + work.speed[node]
    paid = paid_until(work, state, node, finish)
    if not is_rented or paid > state.until[node]:
        used = min(_speed_asked(work, state) / with_it, 1.0)
        row[3] = _bent((paid - finish) * work.price[node] * used)
    spread = now + (promised + state.to_do[workflow]) / with_it
    if max(after, spread) > deadline:
        row[4] = work.term[LATE_FEE]
    row[5] = _bent(max(after - deadline, 0.0) * rate)
    here = state.tally[ARRIVED] - state.tally[OVER]
    row[6] = _bent(here * rate * (after - now))
    row[7] = min(max((after - deadline) / span, -1.0), 3.0)
    row[8] = min(max((finish - work.sub_deadline[task]) / span, -1.0), 3.0)
    row[11] = is_rented
    row[12] = _bent(max(state.busy_until[node] - now, 0.0) / work.term[BILLING])
    soonest = now + (work.runtime[task] + work.tail[task]) / fastest
    row[17] = min(max((deadline - soonest) / span, -1.0), 1.0)


@compiled
def _fill_context(work: Work, state: State, context: F32) -> None:
    now, nodes = state.figure[NOW], work.speed.size
    rented, busy, price = 0, 0, 0.0
    for node in range(nodes):
        if state.until[node] > now:
            rented += 1
            price += work.price[node]
        if state.busy_until[node] > now:
            busy += 1
    context[0] = work.option[BY_MAKESPAN]
    context[1] = np.log1p(state.tally[READIES]) / 6.0
    context[2] = rented / nodes
    context[3] = busy / nodes
    context[4] = np.log1p(state.tally[ARRIVED] - state.tally[OVER]) / 4.0
    hours = max(state.figure[BACKLOG], 0.0) / 3600.0 / max(_rented_speed(work, state)[0], 1.0)
    context[5] = np.log1p(hours) / 4.0
    context[6] = min(price * 3600.0 / 10.0, _MOST)
    context[7] = np.log1p(_speed_asked(work, state)) / 6.0
