"""What happens to requests: they run, wait in a queue or for a start, end or are dropped.

A request that starts on a node adds what it uses to what others use there. Its time is stretched by the
scarcest resource at that moment, and stays so:

    seconds x max(1, CPU used / CPU, network used / network, disk used / disk)
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I32, I64
from proreus.kernels.jit import compiled
from proreus.worlds.functions.state.columns import (
    BUSY_CPU,
    CLIP,
    COLD,
    CPU,
    CPU_USE,
    DISK,
    DROPPED,
    EPISODE,
    FIRST_HELD,
    FUNCTION,
    GIVEN_UP,
    HEAD,
    HEAPED,
    HELD,
    HELD_BACK,
    LAST_HELD,
    LOST,
    NET,
    NOBODY,
    NODE,
    NOW,
    OPEN,
    QUEUED,
    RFRT,
    RUNNING,
    RUNS,
    SHARE,
    TAIL,
    TAKEN,
    WAITING,
    WAITS_FOR_ROOM,
    FunctionsWork,
    Runs,
)


@compiled
def run_on(work: FunctionsWork, runs: Runs, lane: int, request: int, one: int) -> None:
    """A request begins to run on an instance that is ready."""
    episode, now = runs.tally[lane, EPISODE], runs.figure[lane, NOW]
    row = work.first_function[episode] + runs.instance[lane, one, FUNCTION]
    node = runs.instance[lane, one, NODE]
    stretch = load_node(runs.node[lane], node, work.need, row, work.capacity)
    runs.status[lane, request] = RUNS
    runs.host[lane, request] = one
    if runs.began.shape[1]:
        runs.began[lane, request] = now
        runs.server[lane, request] = node
    ends = now + work.seconds[work.first[episode] + request] * stretch
    join_running(runs.due[lane], runs.who[lane], runs.tally[lane, HEAPED], ends, request)
    runs.tally[lane, HEAPED] += 1


@compiled
def load_node(node: I64, place: int, need: I64, row: int, capacity: I64) -> float:
    """A request uses CPU, network and disk of a node; how much longer it takes there. `node` of a lane."""
    node[place, BUSY_CPU] += need[row, CPU_USE]
    node[place, NET] += need[row, NET]
    node[place, DISK] += need[row, DISK]
    stretch = max(1.0, node[place, BUSY_CPU] / capacity[place, CPU])
    stretch = max(stretch, node[place, NET] / capacity[place, NET])
    return max(stretch, node[place, DISK] / capacity[place, DISK])


@compiled
def unload_node(node: I64, place: int, need: I64, row: int) -> None:
    """What a request used of a node is free again."""
    node[place, BUSY_CPU] -= need[row, CPU_USE]
    node[place, NET] -= need[row, NET]
    node[place, DISK] -= need[row, DISK]


@compiled
def join_running(due: F64, who: I32, running: int, when: float, request: int) -> None:
    """Among those that run, the next one to end last; of equal times the request that came first ends first.

    To count who ends before and to move those are loops without branches, which take several at a time: some
    sixty requests run, and a heap of them, whose branches nobody can foresee, takes longer.
    """
    sooner = 0
    for other in range(running):
        sooner += due[other] < when
    place = running - sooner
    while place > 0 and due[place - 1] == when and who[place - 1] < request:
        place -= 1
    # Unsigned numbers, as Numba would ask of others at each step whether they count from the end.
    first, step = np.uint64(place), np.uint64(1)
    behind = np.uint64(running)
    while behind > first:
        due[behind] = due[behind - step]
        behind -= step
    behind = np.uint64(running)
    while behind > first:
        who[behind] = who[behind - step]
        behind -= step
    due[first], who[first] = when, request


@compiled
def take_slot(runs: Runs, lane: int, one: int) -> None:
    """A request has a slot of an instance that starts."""
    function = runs.instance[lane, one, FUNCTION]
    runs.instance[lane, one, TAKEN] += 1
    runs.of[lane, function, OPEN] -= 1
    runs.of[lane, function, RUNNING] += 1


@compiled
def hold(runs: Runs, lane: int, request: int, one: int) -> None:
    """A request waits for its instance to start."""
    runs.status[lane, request] = HELD_BACK
    runs.tally[lane, HELD] += 1
    runs.tally[lane, COLD] += 1
    runs.link[lane, request] = NOBODY
    if runs.instance[lane, one, FIRST_HELD] == NOBODY:
        runs.instance[lane, one, FIRST_HELD] = request
    else:
        runs.link[lane, runs.instance[lane, one, LAST_HELD]] = request
    runs.instance[lane, one, LAST_HELD] = request


@compiled
def queue_up(runs: Runs, lane: int, request: int, function: int) -> None:
    """A request waits for an instance."""
    runs.status[lane, request] = WAITS_FOR_ROOM
    runs.link[lane, request] = NOBODY
    if runs.of[lane, function, WAITING] == 0:
        runs.of[lane, function, HEAD] = request
    else:
        runs.link[lane, runs.of[lane, function, TAIL]] = request
    runs.of[lane, function, TAIL] = request
    runs.of[lane, function, WAITING] += 1
    runs.tally[lane, QUEUED] += 1


@compiled
def next_in_queue(runs: Runs, lane: int, function: int) -> int:
    """The request that waits longest leaves the queue."""
    request = runs.of[lane, function, HEAD]
    runs.of[lane, function, HEAD] = runs.link[lane, request]
    runs.of[lane, function, WAITING] -= 1
    runs.tally[lane, QUEUED] -= 1
    return int(request)


@compiled
def drop(runs: Runs, lane: int, request: int) -> None:
    """A request is turned away, or has waited too long."""
    runs.status[lane, request] = GIVEN_UP
    runs.tally[lane, DROPPED] += 1
    runs.figure[lane, RFRT] += CLIP
    runs.figure[lane, SHARE] += 1.0
    runs.figure[lane, LOST] += 1.0
