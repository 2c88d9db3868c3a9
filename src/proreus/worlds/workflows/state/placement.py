"""Where a task would start on each machine, what that costs, and what a placement changes.

A machine runs one task at a time. A task goes into the first gap that is long enough, after its inputs have
come: from another machine each output takes its time, on the same machine none. Rent is paid for whole
periods from the moment at which a machine is rented; a machine is given back when what was paid is over.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.worlds.workflows.state import columns as c
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork


@compiled
def inputs_possible(work: WorkflowsWork, state: WorkflowsState, task: int) -> None:
    """Fill `state.possible`: the moment from which the task could start on each machine, busy or not.

    One pass over the parents, one over the machines: of the transfers only the last counts, and on the
    machine where that one starts, the last from elsewhere.
    """
    # Columns are named once: each mention of one inside a loop would count a reference.
    possible, until, node_of, finish = state.possible, state.until, state.node, state.finish
    parent, delay = work.parent, work.parent_delay
    now, boot = state.figure[c.NOW], work.term[c.BOOT]
    last, second, last_node = -np.inf, -np.inf, -1
    for node in range(possible.size):
        # A machine that is not rented has to boot first.
        possible[node] = now if until[node] > now else now + boot
    for edge in range(work.parent_from[task], work.parent_from[task + 1]):
        before = parent[edge]
        node, here = node_of[before], finish[before]
        possible[node] = max(possible[node], here)
        there = here + delay[edge]
        if node == last_node:
            last = max(last, there)
        elif there > last:
            last, second, last_node = there, last, node
        else:
            second = max(second, there)
    for node in range(possible.size):
        possible[node] = max(possible[node], second if node == last_node else last)


@compiled
def earliest_start(state: WorkflowsState, node: int, possible: float, seconds: float) -> float:
    """When a task of that length would start on the machine, `possible` or later: in a gap or at the end."""
    if possible >= state.busy_until[node]:
        return possible
    begin = possible
    for slot in range(first_after(state, node, possible), state.slots[node]):
        if state.slot_start[node, slot] - begin >= seconds:
            return begin
        begin = max(begin, state.slot_end[node, slot])
    return begin


@compiled
def first_after(state: WorkflowsState, node: int, moment: float) -> int:
    """The first slot of the machine that ends after the moment."""
    low, high = state.past[node], state.slots[node]
    while low < high:
        middle = (low + high) // 2
        if state.slot_end[node, middle] <= moment:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def earliest_finish(work: WorkflowsWork, state: WorkflowsState, task: int, node: int) -> float:
    """When the task would end there; `inputs_possible` was asked before."""
    seconds = work.duration[task, node]
    return earliest_start(state, node, state.possible[node], seconds) + seconds


@compiled
def first_to_end(work: WorkflowsWork, state: WorkflowsState, task: int) -> tuple[int, float]:
    """(the machine on which the task would end first, when); the lowest of equals."""
    inputs_possible(work, state, task)
    possible, busy_until, duration = state.possible, state.busy_until, work.duration
    best, first = 0, np.inf
    for node in range(possible.size):
        seconds = duration[task, node]
        start = possible[node]
        if start + seconds >= first:
            continue  # not even in a gap
        if start < busy_until[node]:
            start = earliest_start(state, node, start, seconds)
        if start + seconds < first:
            best, first = node, start + seconds
    return best, first


@compiled
def paid_until(work: WorkflowsWork, state: WorkflowsState, node: int, finish: float) -> float:
    """To when the machine is paid if its last task ends then."""
    now, period = state.figure[c.NOW], work.term[c.BILLING]
    is_rented = state.until[node] > now
    if is_rented and finish <= state.until[node]:
        return state.until[node]
    since = state.since[node] if is_rented else now
    until = since + max(np.ceil((finish - since) / period), 1.0) * period
    return until if until >= finish else until + period  # where the division rounded down


@compiled
def added_rent(work: WorkflowsWork, state: WorkflowsState, node: int, finish: float) -> float:
    """Dollars that a task which ends then on that machine adds to the rent."""
    now = state.figure[c.NOW]
    paid = state.until[node] if state.until[node] > now else now
    return (paid_until(work, state, node, finish) - paid) * work.price[node]


@compiled
def penalty_of(work: WorkflowsWork, workflow: int, end: float) -> float:
    """Dollars for a workflow that ends then."""
    late = end - work.deadline[workflow]
    return work.term[c.LATE_FEE] + late * work.term[c.LATE_RATE] if late > 0.0 else 0.0


@compiled
def place(work: WorkflowsWork, state: WorkflowsState, task: int, node: int) -> float:
    """Place a ready task; dollars of rent and penalty that it adds."""
    inputs_possible(work, state, task)
    seconds = work.duration[task, node]
    start = earliest_start(state, node, state.possible[node], seconds)
    finish = start + seconds
    rent = _rent(work, state, node, finish)
    _take_slot(state, node, start, finish)
    state.worked[node] += seconds
    state.status[task] = c.PLACED
    state.node[task], state.start[task], state.finish[task] = node, start, finish
    state.tally[c.PLACEMENTS] += 1
    state.figure[c.BACKLOG] -= work.runtime[task]
    state.figure[c.RENT] += rent
    state.figure[c.HORIZON] = max(state.figure[c.HORIZON], finish)
    _push_end(state, task)
    workflow = work.workflow[task]
    state.end[workflow] = max(state.end[workflow], finish)
    state.unplaced[workflow] -= 1
    state.to_do[workflow] -= work.runtime[task]
    return rent + (_close(work, state, workflow) if state.unplaced[workflow] == 0 else 0.0)


@compiled
def _close(work: WorkflowsWork, state: WorkflowsState, workflow: int) -> float:
    """All tasks of a workflow are placed, so that its end is known: the penalty."""
    end = state.end[workflow]
    penalty = penalty_of(work, workflow, end)
    state.tally[c.WHOLE] += 1
    state.figure[c.RESPONSE] += end - work.arrival[workflow]
    if end > work.deadline[workflow]:
        state.tally[c.LATE] += 1
        state.figure[c.LATENESS] += end - work.deadline[workflow]
    state.figure[c.PENALTY] += penalty
    return penalty


@compiled
def _rent(work: WorkflowsWork, state: WorkflowsState, node: int, finish: float) -> float:
    now = state.figure[c.NOW]
    until = paid_until(work, state, node, finish)
    if state.until[node] <= now:
        state.since[node] = state.until[node] = now
        state.tally[c.RENTALS] += 1
    added = until - state.until[node]
    state.rented[node] += added
    state.until[node] = until
    return added * work.price[node]


@compiled
def _take_slot(state: WorkflowsState, node: int, start: float, finish: float) -> None:
    place = first_after(state, node, start)
    for slot in range(state.slots[node], place, -1):
        state.slot_start[node, slot] = state.slot_start[node, slot - 1]
        state.slot_end[node, slot] = state.slot_end[node, slot - 1]
    state.slot_start[node, place], state.slot_end[node, place] = start, finish
    state.slots[node] += 1
    state.busy_until[node] = max(state.busy_until[node], finish)


@compiled
def _push_end(state: WorkflowsState, task: int) -> None:
    at, moment = state.tally[c.HEAPED], state.finish[task]
    state.tally[c.HEAPED] += 1
    while at > 0:
        above = (at - 1) // 2
        if not _sooner(moment, task, state.ending[above], state.ender[above]):
            break
        state.ending[at], state.ender[at] = state.ending[above], state.ender[above]
        at = above
    state.ending[at], state.ender[at] = moment, task


@compiled
def pop_end(state: WorkflowsState) -> int:
    """The placed task that ends next; it leaves the heap."""
    first = state.ender[0]
    state.tally[c.HEAPED] -= 1
    size = state.tally[c.HEAPED]
    moment, task, at = state.ending[size], state.ender[size], 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        right = below + 1
        if right < size and _sooner(
            state.ending[right], state.ender[right], state.ending[below], state.ender[below]
        ):
            below = right
        if not _sooner(state.ending[below], state.ender[below], moment, task):
            break
        state.ending[at], state.ender[at] = state.ending[below], state.ender[below]
        at = below
    state.ending[at], state.ender[at] = moment, task
    return first


@compiled
def _sooner(moment: float, task: int, other: float, other_task: int) -> bool:
    return moment < other or (moment == other and task < other_task)


@compiled
def add_ready(work: WorkflowsWork, state: WorkflowsState, task: int) -> None:
    """A task may be placed: it takes its turn among the ready ones, the most urgent first."""
    count, urgency = state.tally[c.READIES], work.latest[task]
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        other = state.ready[middle]
        if work.latest[other] < urgency or (work.latest[other] == urgency and other < task):
            low = middle + 1
        else:
            high = middle
    for at in range(count, low, -1):
        state.ready[at] = state.ready[at - 1]
    state.ready[low] = task
    state.tally[c.READIES] += 1


@compiled
def remove_ready(state: WorkflowsState, task: int) -> None:
    """It is placed."""
    count = state.tally[c.READIES]
    at = 0
    while state.ready[at] != task:
        at += 1
    for after in range(at, count - 1):
        state.ready[after] = state.ready[after + 1]
    state.tally[c.READIES] -= 1


@compiled
def next_event(work: WorkflowsWork, state: WorkflowsState) -> float:
    """When a task ends or a workflow arrives next; infinite: nothing will happen by itself."""
    moment = np.inf
    if state.tally[c.HEAPED] > 0:
        moment = state.ending[0]
    if state.tally[c.ARRIVED] < work.arrival.size:
        moment = min(moment, work.arrival[state.tally[c.ARRIVED]])
    return moment


@compiled
def may_wait(work: WorkflowsWork, state: WorkflowsState) -> bool:
    """Something will happen by itself; a plan waits for nothing."""
    return work.option[c.AHEAD] == 0 and next_event(work, state) < np.inf
