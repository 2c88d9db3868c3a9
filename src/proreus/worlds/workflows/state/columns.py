"""The arrays of the world `workflows`: the work, which never changes, and one run over it.

Letters in shape comments: T tasks, E edges, W workflows, N machines, G features of a task's place in its
graph.
"""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F32, F64, I8, I32, I64
from proreus.kernels.structs import packable


@packable
class WorkflowsWork(NamedTuple):
    """Tasks of all workflows one after the other, each workflow's in an order in which they could run."""

    duration: F64  # [T, N] seconds on each machine
    runtime: F64  # [T] seconds on a machine of speed 1
    workflow: I32  # [T]
    parent_from: I32  # [T + 1] where the parents of a task begin in `parent`
    parent: I32  # [E]
    parent_delay: F64  # [E] seconds that the parent's output takes to another machine
    child_from: I32  # [T + 1]
    child: I32  # [E]
    child_delay: F64  # [E]
    up: F64  # [T] HEFT's upward rank: mean seconds from the task's start to the workflow's end
    down: F64  # [T] its downward rank: mean seconds from the workflow's start to the task's
    tail: F64  # [T] seconds of runtime on the longest path behind the task
    latest: F64  # [T] when it should start: deadline - up; the order of ready tasks
    sub_deadline: F64  # [T] its share of the way to the deadline; infinite where there is none
    graph: F32  # [T, G] what the task's neighbourhood looks like, by message passing
    arrival: F64  # [W]
    deadline: F64  # [W]
    first: I32  # [W + 1] where the tasks of a workflow begin
    bound: F64  # [W] no schedule can be shorter, seconds
    speed: F64  # [N]
    price: F64  # [N] dollars a second
    kind: I32  # [N] machines of one kind are alike
    term: F64  # [TERMS]
    option: I64  # [OPTIONS]


# Of `term`: seconds of one rental, seconds to boot, dollars of being late at all and of each second.
BILLING, BOOT, LATE_FEE, LATE_RATE = range(4)
TERMS = 4
# Of `option`: 1 where tasks are placed as soon as their parents are; 1 where the makespan is the aim.
AHEAD, BY_MAKESPAN = range(2)
OPTIONS = 2


@packable
class WorkflowsState(NamedTuple):
    status: I8  # [T] FUTURE .. DONE
    missing: I32  # [T] parents that it still waits for
    node: I32  # [T] -1: not placed
    start: F64  # [T]
    finish: F64  # [T]
    ready: I32  # [T] the tasks that may be placed, most urgent first
    turn: I64  # [T] the how-manieth task to become ready
    passed: I8  # [T] 1 where a ready task was passed over at this moment
    unplaced: I32  # [W] tasks of each workflow
    to_do: F64  # [W] runtime of its tasks that are not placed
    end: F64  # [W] of the last of its tasks that are placed
    slot_start: F64  # [N, T] what each machine does when, in order of time
    slot_end: F64  # [N, T]
    slots: I32  # [N]
    past: I32  # [N] slots that ended before now
    busy_until: F64  # [N] the end of the last slot
    since: F64  # [N] when the machine was rented
    until: F64  # [N] to when it is paid; not rented once that is past
    rented: F64  # [N] seconds of all its rentals
    worked: F64  # [N] seconds of all its slots
    ending: F64  # [T] heap of the times at which placed tasks end
    ender: I32  # [T] the task of each
    possible: F64  # [N] scratch: when the inputs of a task can be on each machine
    tally: I64  # [TALLIES]
    figure: F64  # [FIGURES]


FUTURE, PENDING, READY, PLACED, DONE = range(5)

# Of `tally`: ready tasks, workflows that came, tasks placed and done, tasks in the heap, tasks that became
# ready, workflows placed, late and ended, rentals, 1 while the policy waits for something to happen, tasks
# passed over.
READIES, ARRIVED, PLACEMENTS, ENDED, HEAPED, TURNS, WHOLE, LATE, OVER, RENTALS, WAITING, PASSED = range(12)
TALLIES = 12

# Of `figure`: the clock; dollars of rent and of penalties; seconds that workflows were late; their time from
# arrival to end; the end of the last task placed; runtime of tasks that have come and are not placed, and of
# all that have come.
NOW, RENT, PENALTY, LATENESS, RESPONSE, HORIZON, BACKLOG, CAME = range(8)
FIGURES = 8

WAITS, PASSES = -1, -2
"""In place of a task: nothing is placed now; the task on offer is not."""
