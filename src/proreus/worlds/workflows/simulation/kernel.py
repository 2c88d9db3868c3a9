"""The clock: arrivals and ends of tasks, and what they make ready.

At one moment tasks end first, then workflows arrive; then decisions, one at a time.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.worlds.workflows.state import columns as c
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork
from proreus.worlds.workflows.state.offer import all_passed, offer_all, pass_over
from proreus.worlds.workflows.state.placement import add_ready, next_event, place, pop_end, remove_ready


@compiled
def begin(work: WorkflowsWork, state: WorkflowsState) -> None:
    """The beginning of a run: nothing has come, nothing is rented."""
    state.status[:] = c.FUTURE
    state.node[:] = -1
    state.start[:] = 0.0
    state.finish[:] = 0.0
    state.turn[:] = 0
    state.passed[:] = 0
    state.end[:] = 0.0
    state.slots[:] = 0
    state.past[:] = 0
    state.busy_until[:] = 0.0
    state.since[:] = 0.0
    state.until[:] = -1.0
    state.rented[:] = 0.0
    state.worked[:] = 0.0
    state.tally[:] = 0
    state.figure[:] = 0.0
    state.figure[c.NOW] = work.arrival[0]
    state.figure[c.HORIZON] = work.arrival[0]
    for task in range(state.status.size):
        state.missing[task] = work.parent_from[task + 1] - work.parent_from[task]
    for workflow in range(work.arrival.size):
        state.unplaced[workflow] = work.first[workflow + 1] - work.first[workflow]
        state.to_do[workflow] = work.runtime[work.first[workflow] : work.first[workflow + 1]].sum()
    advance(work, state)


@compiled
def advance(work: WorkflowsWork, state: WorkflowsState) -> None:
    """Run on until somebody must decide, or to the end of the run."""
    _happen(work, state)  # a task that takes no time has ended by now
    while state.tally[c.READIES] == 0 or state.tally[c.WAITING] == 1:
        moment = next_event(work, state)
        if moment == np.inf:
            return
        state.tally[c.WAITING] = 0
        offer_all(state)
        state.figure[c.NOW] = max(state.figure[c.NOW], moment)
        _happen(work, state)
        _forget_past(state)


@compiled
def _happen(work: WorkflowsWork, state: WorkflowsState) -> None:
    """What is due: tasks end, then workflows arrive."""
    now = state.figure[c.NOW]
    while state.tally[c.HEAPED] > 0 and state.ending[0] <= now:
        _end(work, state, pop_end(state))
    while state.tally[c.ARRIVED] < work.arrival.size and work.arrival[state.tally[c.ARRIVED]] <= now:
        _arrive(work, state)


@compiled
def _forget_past(state: WorkflowsState) -> None:
    now = state.figure[c.NOW]
    for node in range(state.slots.size):
        past = state.past[node]
        while past < state.slots[node] and state.slot_end[node, past] <= now:
            past += 1
        state.past[node] = past


@compiled
def _arrive(work: WorkflowsWork, state: WorkflowsState) -> None:
    workflow = state.tally[c.ARRIVED]
    state.tally[c.ARRIVED] += 1
    for task in range(work.first[workflow], work.first[workflow + 1]):
        state.status[task] = c.PENDING
        state.figure[c.BACKLOG] += work.runtime[task]
        state.figure[c.CAME] += work.runtime[task]
        if state.missing[task] == 0:
            _make_ready(work, state, task)


@compiled
def _end(work: WorkflowsWork, state: WorkflowsState, task: int) -> None:
    state.status[task] = c.DONE
    state.tally[c.ENDED] += 1
    workflow = work.workflow[task]
    if state.unplaced[workflow] == 0 and state.finish[task] == state.end[workflow]:
        _count_over(work, state, workflow)
    if work.option[c.AHEAD] == 0:
        _tell_children(work, state, task)


@compiled
def _count_over(work: WorkflowsWork, state: WorkflowsState, workflow: int) -> None:
    """A workflow is over with the last of its tasks; several may end at that moment."""
    for task in range(work.first[workflow], work.first[workflow + 1]):
        if state.status[task] != c.DONE:
            return
    state.tally[c.OVER] += 1


@compiled
def _tell_children(work: WorkflowsWork, state: WorkflowsState, task: int) -> None:
    for edge in range(work.child_from[task], work.child_from[task + 1]):
        child = work.child[edge]
        state.missing[child] -= 1
        if state.missing[child] == 0:
            _make_ready(work, state, child)


@compiled
def _make_ready(work: WorkflowsWork, state: WorkflowsState, task: int) -> None:
    state.status[task] = c.READY
    state.turn[task] = state.tally[c.TURNS]
    state.tally[c.TURNS] += 1
    add_ready(work, state, task)


@compiled
def put(work: WorkflowsWork, state: WorkflowsState, task: int, node: int) -> float:
    """Carry out a legal decision and run on; what it was worth (task WAITS, PASSES: nothing is placed).

    Where workflows have deadlines minus the dollars of rent and penalty; else minus what it adds to the
    makespan, in lower bounds.
    """
    if task < 0:
        state.tally[c.WAITING] = 1 if task == c.WAITS else pass_over(work, state)
        advance(work, state)
        return 0.0
    horizon = state.figure[c.HORIZON]
    remove_ready(state, task)
    if state.passed[task]:
        state.passed[task] = 0
        state.tally[c.PASSED] -= 1
    dollars = place(work, state, task, node)
    if state.tally[c.PASSED] > 0:
        state.tally[c.WAITING] = all_passed(state)
    if work.option[c.AHEAD] == 1:
        _tell_children(work, state, task)
    worth = -dollars
    if work.option[c.BY_MAKESPAN] == 1:
        worth = -(state.figure[c.HORIZON] - horizon) / work.bound.sum()
    advance(work, state)
    return worth


@compiled
def is_over(state: WorkflowsState) -> bool:
    """Nobody will have to decide any more."""
    return state.tally[c.READIES] == 0
