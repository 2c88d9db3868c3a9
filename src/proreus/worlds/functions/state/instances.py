"""Instances on nodes: who has room, what is reserved, which nodes are active; no clock but the one given."""

from __future__ import annotations

from proreus.kernels.compiled import compiled
from proreus.worlds.functions.state.columns import (
    ABSENT,
    ACTIVE,
    BUSY,
    CONCURRENCY,
    CPU,
    EPISODE,
    FIRST_HELD,
    FREE,
    FUNCTION,
    HOLDS,
    IDLE,
    INSTANCES,
    LAST_HELD,
    LIVE,
    MEMORY,
    NOBODY,
    NODE,
    OLDER,
    OLDEST,
    OPEN,
    PHASE,
    PRICE,
    STARTING,
    STARTS,
    STARTS_UP,
    TAKEN,
    WAKER,
    WAKING,
    WARMING,
    WORKING,
    YOUNGER,
    YOUNGEST,
    Runs,
    Work,
)


@compiled
def row_of(work: Work, runs: Runs, lane: int, function: int) -> int:
    """Where what a function needs stands in `need` and `standard`."""
    return int(work.first_function[runs.tally[lane, EPISODE]] + function)


@compiled
def fits(work: Work, runs: Runs, lane: int, function: int, node: int) -> bool:
    """Whether a node has room for one more instance."""
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    cpu = runs.node[lane, node, CPU] + work.need[row, CPU] <= work.capacity[node, CPU]
    memory = runs.node[lane, node, MEMORY] + work.need[row, MEMORY] <= work.capacity[node, MEMORY]
    return bool(cpu and memory and runs.tally[lane, FREE] > 0)


@compiled
def fits_somewhere(work: Work, runs: Runs, lane: int, function: int) -> bool:
    """Whether any node has room for one more instance."""
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    cpu, memory = work.need[row, CPU], work.need[row, MEMORY]
    if runs.tally[lane, FREE] == 0:
        return False
    for node in range(work.price.size):
        if (
            runs.node[lane, node, CPU] + cpu <= work.capacity[node, CPU]
            and runs.node[lane, node, MEMORY] + memory <= work.capacity[node, MEMORY]
        ):
            return True
    return False


@compiled
def may_wait(runs: Runs, lane: int, function: int) -> bool:
    """Whether there is an instance of the function to wait for: a queue that nobody serves is no choice."""
    return bool(runs.of[lane, function, INSTANCES] > 0)


@compiled
def with_room(work: Work, runs: Runs, lane: int, function: int) -> int:
    """The oldest instance that has a free slot, one that is ready before one that starts."""
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    most = work.need[row, CONCURRENCY]
    found, one = NOBODY, runs.of[lane, function, OLDEST]
    while one != NOBODY:
        if runs.instance[lane, one, TAKEN] < most:
            if runs.instance[lane, one, PHASE] != STARTS_UP:
                return int(one)
            if found == NOBODY:
                found = one
        one = runs.instance[lane, one, YOUNGER]
    return int(found)


@compiled
def open_instance(work: Work, runs: Runs, lane: int, function: int, node: int, now: float) -> int:
    """A new instance of a function on a node, which starts; its number."""
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    runs.tally[lane, FREE] -= 1
    one = runs.free[lane, runs.tally[lane, FREE]]
    columns = runs.instance
    columns[lane, one, FUNCTION] = function
    columns[lane, one, NODE] = node
    columns[lane, one, TAKEN] = 0
    columns[lane, one, PHASE] = STARTS_UP
    columns[lane, one, FIRST_HELD] = NOBODY
    columns[lane, one, LAST_HELD] = NOBODY
    older = runs.of[lane, function, YOUNGEST]
    columns[lane, one, OLDER] = older
    columns[lane, one, YOUNGER] = NOBODY
    if older == NOBODY:
        runs.of[lane, function, OLDEST] = one
    else:
        columns[lane, older, YOUNGER] = one
    runs.of[lane, function, YOUNGEST] = one
    runs.of[lane, function, INSTANCES] += 1
    runs.of[lane, function, OPEN] += work.need[row, CONCURRENCY]
    runs.replicas[lane, node, function] += 1
    runs.node[lane, node, CPU] += work.need[row, CPU]
    runs.node[lane, node, MEMORY] += work.need[row, MEMORY]
    runs.node[lane, node, WARMING] += 1
    if runs.node[lane, node, HOLDS] == 0:
        runs.since[lane, node] = now
        runs.tally[lane, ACTIVE] += 1
        runs.tally[lane, PRICE] += work.price[node]
    runs.node[lane, node, HOLDS] += 1
    runs.tally[lane, LIVE] += 1
    runs.tally[lane, STARTING] += 1
    runs.tally[lane, STARTS] += 1
    return int(one)


@compiled
def close_instance(work: Work, runs: Runs, lane: int, one: int, now: float) -> None:
    """An idle instance goes; its node is paid no longer once it holds none."""
    columns = runs.instance
    function, node = columns[lane, one, FUNCTION], columns[lane, one, NODE]
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    older, younger = columns[lane, one, OLDER], columns[lane, one, YOUNGER]
    if older == NOBODY:
        runs.of[lane, function, OLDEST] = younger
    else:
        columns[lane, older, YOUNGER] = younger
    if younger == NOBODY:
        runs.of[lane, function, YOUNGEST] = older
    else:
        columns[lane, younger, OLDER] = older
    columns[lane, one, PHASE] = ABSENT
    runs.free[lane, runs.tally[lane, FREE]] = one
    runs.tally[lane, FREE] += 1
    runs.of[lane, function, INSTANCES] -= 1
    runs.of[lane, function, OPEN] -= work.need[row, CONCURRENCY]
    runs.replicas[lane, node, function] -= 1
    runs.node[lane, node, CPU] -= work.need[row, CPU]
    runs.node[lane, node, MEMORY] -= work.need[row, MEMORY]
    runs.node[lane, node, HOLDS] -= 1
    runs.tally[lane, LIVE] -= 1
    if runs.node[lane, node, HOLDS] == 0:
        runs.active[lane, node] += now - runs.since[lane, node]
        runs.tally[lane, ACTIVE] -= 1
        runs.tally[lane, PRICE] -= work.price[node]


@compiled
def become_busy(runs: Runs, lane: int, one: int) -> None:
    """An instance that started or idled serves."""
    node = runs.instance[lane, one, NODE]
    if runs.instance[lane, one, PHASE] == STARTS_UP:
        runs.tally[lane, STARTING] -= 1
        runs.node[lane, node, WARMING] -= 1
    runs.instance[lane, one, PHASE] = BUSY
    runs.node[lane, node, WORKING] += 1
    sleep(runs, lane, one)


@compiled
def become_idle(runs: Runs, lane: int, one: int) -> None:
    """An instance has served all that it had."""
    runs.instance[lane, one, PHASE] = IDLE
    runs.node[lane, runs.instance[lane, one, NODE], WORKING] -= 1


@compiled
def wake_at(runs: Runs, lane: int, one: int, when: float) -> None:
    """An instance will be ready, or be given up, at that time."""
    place = runs.tally[lane, WAKING]
    runs.wake[lane, one] = when
    runs.waking[lane, place] = one
    runs.place[lane, one] = place
    runs.tally[lane, WAKING] = place + 1
    first = runs.tally[lane, WAKER]
    if place == 0 or (
        first != NOBODY
        and (when < runs.wake[lane, first] or (when == runs.wake[lane, first] and one < first))
    ):
        runs.tally[lane, WAKER] = one


@compiled
def sleep(runs: Runs, lane: int, one: int) -> None:
    """Nothing will happen any more to an instance that was to wake."""
    last, place = runs.tally[lane, WAKING] - 1, runs.place[lane, one]
    other = runs.waking[lane, last]
    runs.waking[lane, place] = other
    runs.place[lane, other] = place
    runs.tally[lane, WAKING] = last
    if runs.tally[lane, WAKER] == one:
        runs.tally[lane, WAKER] = NOBODY


@compiled
def first_to_wake(runs: Runs, lane: int) -> int:
    """The instance that is ready or given up next, the lowest number of equals; NOBODY: none is."""
    if runs.tally[lane, WAKER] != NOBODY:
        return int(runs.tally[lane, WAKER])
    first, earliest = NOBODY, 0.0
    for place in range(runs.tally[lane, WAKING]):
        one = runs.waking[lane, place]
        when = runs.wake[lane, one]
        if first == NOBODY or when < earliest or (when == earliest and one < first):
            first, earliest = one, when
    runs.tally[lane, WAKER] = first
    return int(first)
