"""A decision about the task on offer as rows: one for each machine, one for passing it over; and a context.

Where the makespan is the aim, features that do not name it are zero,
and where it is not those that do: one network serves both, and learning one leaves the other alone.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, U8
from proreus.kernels.jit import compiled
from proreus.worlds.workflows.state import columns as c
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork
from proreus.worlds.workflows.state.graph import GRAPH_FEATURES
from proreus.worlds.workflows.state.offer import offered
from proreus.worlds.workflows.state.placement import (
    added_rent,
    earliest_finish,
    earliest_start,
    inputs_possible,
    may_wait,
    paid_until,
)

VERSION = "workflows-2"
PAIR_FEATURES = (
    "places",
    "passes",
    "dollars of rent",
    "dollars of newly paid time behind it that others will use",
    "dollars of the fee, if the rest runs at this speed or is spread over what is rented",
    "dollars of its own time, if the rest runs at this speed",
    "dollars of its own time until all work that is here is done, where it waits for that",
    "dollars of everyone's time until all work that is here is done",
    "dollars of its own time until the machine is free",
    "the machine is not free",
    "lateness, in spans of the deadline",
    "lateness of the task, in spans of the deadline",
    "log seconds until it starts",
    "log seconds that it takes",
    "log seconds until its inputs are there",
    "the machine is rented",
    "price, of the dearest",
    "log speed, of the fastest",
    "slack on the fastest machine, in spans of the deadline",
    "makespan: ends later than elsewhere, in ranks",
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
LARGEST_FEATURE = 200.0
_LINEAR = 32.0
"""Dollars are told as they are up to here."""
_HALF_AN_HOUR = 1800.0
"""Before the first arrival nothing came for so long, or so it is taken."""
_NOT_READY = 0.6
"""What work behind the ready tasks counts of that which is here: it cannot be done yet."""
_AS_SO_FAR = 0.7
"""How much of the work that comes, if it goes on as so far, will find the machine."""
_HARDLY_ANY = 0.05
"""Speed that is rented where nothing is."""


def rows_for(machines: int) -> int:
    """Rows of a decision, one for each numbered action."""
    return machines + 1


@compiled
def encode(work: WorkflowsWork, state: WorkflowsState, rows: F32, context: F32, fits: U8) -> None:
    """Fill rows [R, F], context [G] and fits [R]: which rows are legal actions."""
    nodes, task = work.speed.size, offered(work, state)
    rows[:] = 0.0
    fits[:] = 1
    fits[nodes] = may_wait(work, state)
    _fill_context(work, state, context)
    inputs_possible(work, state, task)
    rows[:nodes, 0] = 1.0
    rows[nodes, 1] = 1.0
    if work.option[c.BY_MAKESPAN] == 1:
        _fill_plan(work, state, rows, task)
        return
    here = _work_here(work, state)
    for node in range(nodes):
        for feature in range(work.graph.shape[1]):
            rows[node, PAIRS + feature] = work.graph[task, feature]
        _fill_place(work, state, rows[node], (task, node), here)
    _fill_pass(work, state, rows[nodes], task, here)


@compiled
def _fill_plan(work: WorkflowsWork, state: WorkflowsState, rows: F32, task: int) -> None:
    """How much later the task would end on each machine than on the best."""
    first, first_with_rest, scale = np.inf, np.inf, max(work.up[task], 1e-9)
    for again in range(2):
        for node in range(work.speed.size):
            finish = earliest_finish(work, state, task, node)
            with_rest = finish + work.tail[task] / work.speed[node]
            if again == 0:
                first, first_with_rest = min(first, finish), min(first_with_rest, with_rest)
            else:
                rows[node, PAIRS - 2] = min((finish - first) / scale, _MOST)
                rows[node, PAIRS - 1] = min((with_rest - first_with_rest) / scale, _MOST)


@compiled
def _work_here(work: WorkflowsWork, state: WorkflowsState) -> tuple[float, float, float, float]:
    """(speed rented, work given to it and not done, that and what waits, speed that work asks for)."""
    rented, promised = _rented_speed(work, state)
    ready = 0.0
    for at in range(state.tally[c.READIES]):
        ready += work.runtime[state.ready[at]]
    behind = max(state.figure[c.BACKLOG] - ready, 0.0)
    return rented, promised, promised + ready + _NOT_READY * behind, _speed_asked(work, state)


@compiled
def _rented_speed(work: WorkflowsWork, state: WorkflowsState) -> tuple[float, float]:
    """(speed of all machines that are paid for now, runtime that they have been given and not done)."""
    total, promised = 0.0, 0.0
    for node in range(work.speed.size):
        if state.until[node] > state.figure[c.NOW]:
            total += work.speed[node]
            promised += work.speed[node] * max(state.busy_until[node] - state.figure[c.NOW], 0.0)
    return total, promised


@compiled
def _speed_asked(work: WorkflowsWork, state: WorkflowsState) -> float:
    """Of machines that would keep up with the work as it has come so far."""
    since = state.figure[c.NOW] - work.arrival[0] + _HALF_AN_HOUR
    return state.figure[c.CAME] / since


@compiled
def _bent(dollars: float) -> float:
    """As they are up to a point, then ever slower: large amounts stay apart."""
    if dollars < _LINEAR:
        return dollars
    return min(_LINEAR * (1.0 + np.log(dollars / _LINEAR)), LARGEST_FEATURE)


@compiled
def _fill_place(
    work: WorkflowsWork,
    state: WorkflowsState,
    row: F32,
    pair: tuple[int, int],
    here: tuple[float, float, float, float],
) -> None:
    """What a placement means for rent and deadline; here: `_work_here`."""
    (task, node), (rented, promised, waiting, asked) = pair, here
    now, workflow, rate = state.figure[c.NOW], work.workflow[task], work.term[c.LATE_RATE]
    deadline = work.deadline[workflow]
    span = deadline - work.arrival[workflow]
    seconds, possible = work.duration[task, node], state.possible[node]
    start = earliest_start(state, node, possible, seconds)
    finish = start + seconds
    after = finish + work.tail[task] / work.speed[node]
    is_rented = state.until[node] > now
    with_it = rented if is_rented else rented + work.speed[node]
    paid = paid_until(work, state, node, finish)
    row[2] = _bent(added_rent(work, state, node, finish))
    if not is_rented or paid > state.until[node]:
        behind = max(paid - finish, 1e-9)
        others = (_AS_SO_FAR * asked * behind + max(waiting - work.runtime[task], 0.0)) / with_it
        row[3] = _bent(behind * work.price[node] * min(others / behind, 1.0))
    if max(after, now + (promised + state.to_do[workflow]) / with_it) > deadline:
        row[4] = work.term[c.LATE_FEE]
    row[5] = _bent(rate * (after - now))
    row[7] = _bent((state.tally[c.ARRIVED] - state.tally[c.OVER]) * rate * waiting / with_it)
    row[8] = _bent(rate * (start - possible))
    row[9] = start > possible
    row[10] = min(max((after - deadline) / span, -1.0), 3.0)
    row[11] = min(max((finish - work.sub_deadline[task]) / span, -1.0), 3.0)
    row[12] = np.log1p(start - now) / 8.0
    row[13] = np.log1p(seconds) / 8.0
    row[14] = np.log1p(possible - now) / 8.0
    row[15] = is_rented
    row[16] = work.price[node] / max(work.price.max(), 1e-12)
    row[17] = np.log(work.speed[node] / work.speed.max()) / 3.0
    soonest = now + (work.runtime[task] + work.tail[task]) / work.speed.max()
    row[18] = min(max((deadline - soonest) / span, -1.0), 1.0)


@compiled
def _fill_pass(
    work: WorkflowsWork, state: WorkflowsState, row: F32, task: int, here: tuple[float, float, float, float]
) -> None:
    """What it means to wait, until about all work that is here is done; here: `_work_here`."""
    rented, promised, waiting, _ = here
    workflow, rate = work.workflow[task], work.term[c.LATE_RATE]
    speed = max(rented, _HARDLY_ANY)
    rest, drained = (work.runtime[task] + work.tail[task]) / work.speed.max(), waiting / speed
    spread = (promised + state.to_do[workflow]) / speed
    if state.figure[c.NOW] + max(rest, spread) > work.deadline[workflow]:
        row[4] = work.term[c.LATE_FEE]
    row[5] = _bent(rate * rest)
    row[6] = _bent(rate * drained)
    row[7] = _bent((state.tally[c.ARRIVED] - state.tally[c.OVER]) * rate * drained)


@compiled
def _fill_context(work: WorkflowsWork, state: WorkflowsState, context: F32) -> None:
    now, nodes = state.figure[c.NOW], work.speed.size
    rented, busy, price = 0, 0, 0.0
    for node in range(nodes):
        if state.until[node] > now:
            rented += 1
            price += work.price[node]
        if state.busy_until[node] > now:
            busy += 1
    context[0] = work.option[c.BY_MAKESPAN]
    context[1] = np.log1p(state.tally[c.READIES]) / 6.0
    context[2] = rented / nodes
    context[3] = busy / nodes
    context[4] = np.log1p(state.tally[c.ARRIVED] - state.tally[c.OVER]) / 4.0
    hours = max(state.figure[c.BACKLOG], 0.0) / 3600.0 / max(_rented_speed(work, state)[0], 1.0)
    context[5] = np.log1p(hours) / 4.0
    context[6] = min(price * 3600.0 / 10.0, _MOST)
    context[7] = np.log1p(_speed_asked(work, state)) / 6.0
