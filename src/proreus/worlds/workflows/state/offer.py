"""Which ready task is on offer, where decisions are about one task at a time.

Where the makespan is the aim, the first of the ready ones. Where workflows arrive, one of the workflow with
the least work left: whoever is nearly done keeps others waiting least. Work of a workflow that can still be
in time counts for less than work of one that cannot. A task that is passed over is not offered again until
something happens, and so the policy decides which tasks wait, and the machines stay free for others.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.worlds.workflows.state.columns import AHEAD, NOW, PASSED, READIES, WorkflowsState, WorkflowsWork

_AS_LONG = 0.8
"""A task that waits makes those of its workflow wait that take at least so much of its time."""
_IN_TIME = 0.3
"""What a second of work counts for, of a workflow that can still be in time."""


@compiled
def offered(work: WorkflowsWork, state: WorkflowsState) -> int:
    first = state.ready[0]
    if work.option[AHEAD] == 1:
        return first
    best, least, speed = first, np.inf, _rented_speed(work, state)
    for at in range(state.tally[READIES]):
        task = state.ready[at]
        if state.passed[task]:
            continue
        left = _work_left(work, state, task, speed)
        if left < least:
            best, least = task, left
    return best


@compiled
def _work_left(work: WorkflowsWork, state: WorkflowsState, task: int, speed: float) -> float:
    """Of its workflow, seconds on a machine of speed 1 that are not placed; less where it can be in time."""
    workflow = work.workflow[task]
    left = state.to_do[workflow]
    rest = max(left / speed, (work.runtime[task] + work.tail[task]) / work.speed.max())
    in_time = state.figure[NOW] + rest < work.deadline[workflow]
    return left * _IN_TIME if in_time else left


@compiled
def _rented_speed(work: WorkflowsWork, state: WorkflowsState) -> float:
    """Of all machines that are paid for now, and no less than that of the fastest."""
    rented, fastest = 0.0, 0.0
    for node in range(work.speed.size):
        fastest = max(fastest, work.speed[node])
        if state.until[node] > state.figure[NOW]:
            rented += work.speed[node]
    return max(rented, fastest)


@compiled
def pass_over(work: WorkflowsWork, state: WorkflowsState) -> bool:
    """The task on offer waits; whether now all that may be offered do."""
    offered_task = offered(work, state)
    workflow, enough = work.workflow[offered_task], _AS_LONG * work.runtime[offered_task]
    for at in range(state.tally[READIES]):
        task = state.ready[at]
        if work.workflow[task] == workflow and work.runtime[task] >= enough and not state.passed[task]:
            state.passed[task] = 1
            state.tally[PASSED] += 1
    return all_passed(state)


@compiled
def all_passed(state: WorkflowsState) -> bool:
    """Nothing is left to be offered at this moment."""
    return state.tally[PASSED] >= state.tally[READIES]


@compiled
def offer_all(state: WorkflowsState) -> None:
    """Something happened: what was passed over may be offered again."""
    if state.tally[PASSED] > 0:
        for at in range(state.tally[READIES]):
            state.passed[state.ready[at]] = 0
        state.tally[PASSED] = 0
