"""Instances on nodes: who has room, what is reserved, which nodes are active; no clock but the one given."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
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
    NOW,
    OLDER,
    OLDEST,
    OPEN,
    PHASE,
    PRICE,
    RESTING,
    RESTS,
    SPARE,
    STARTED,
    STARTING,
    STARTS,
    STARTS_UP,
    TAKEN,
    WAKES,
    WARMING,
    WORKING,
    YOUNGER,
    YOUNGEST,
    FunctionsWork,
    Runs,
)


@compiled
def row_of(work: FunctionsWork, runs: Runs, lane: int, function: int) -> int:
    """Where what a function needs stands in `need` and `standard`."""
    return int(work.first_function[runs.tally[lane, EPISODE]] + function)


@compiled
def fits(work: FunctionsWork, runs: Runs, lane: int, function: int, node: int) -> bool:
    """Whether a node has room for one more instance."""
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    cpu = runs.node[lane, node, CPU] + work.need[row, CPU] <= work.capacity[node, CPU]
    memory = runs.node[lane, node, MEMORY] + work.need[row, MEMORY] <= work.capacity[node, MEMORY]
    return bool(cpu and memory and runs.tally[lane, FREE] > 0)


@compiled
def fits_somewhere(work: FunctionsWork, runs: Runs, lane: int, function: int) -> bool:
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
def starting_with_room(work: FunctionsWork, runs: Runs, lane: int, function: int) -> int:
    """The oldest instance that starts and has a free slot."""
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    most = work.need[row, CONCURRENCY]
    one = runs.of[lane, function, OLDEST]
    while runs.instance[lane, one, PHASE] != STARTS_UP or runs.instance[lane, one, TAKEN] >= most:
        one = runs.instance[lane, one, YOUNGER]
    return int(one)


@compiled
def pass_spare_on(of: I64, instance: I64, function: int, most: int) -> None:
    """The oldest ready instance with a free slot is full or goes: a younger one takes its part.

    `of` and `instance` of a lane, as in all kernels that the loop over events calls.
    """
    one = instance[of[function, SPARE], YOUNGER]
    while one != NOBODY and (instance[one, PHASE] == STARTS_UP or instance[one, TAKEN] >= most):
        one = instance[one, YOUNGER]
    of[function, SPARE] = one


@compiled
def offer_room(of: I64, instance: I64, one: int) -> None:
    """A ready instance has a free slot."""
    function = instance[one, FUNCTION]
    spare = of[function, SPARE]
    if spare == NOBODY or instance[one, STARTED] < instance[spare, STARTED]:
        of[function, SPARE] = one


@compiled
def open_instance(work: FunctionsWork, runs: Runs, lane: int, function: int, node: int) -> int:
    """A new instance of a function on a node, which starts now; its number."""
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    runs.tally[lane, FREE] -= 1
    column = runs.free[lane, runs.tally[lane, FREE]]
    columns = runs.instance
    columns[lane, column, FUNCTION] = function
    columns[lane, column, NODE] = node
    columns[lane, column, TAKEN] = 0
    columns[lane, column, PHASE] = STARTS_UP
    columns[lane, column, FIRST_HELD] = NOBODY
    columns[lane, column, LAST_HELD] = NOBODY
    columns[lane, column, STARTED] = runs.tally[lane, STARTS]
    older = runs.of[lane, function, YOUNGEST]
    columns[lane, column, OLDER] = older
    columns[lane, column, YOUNGER] = NOBODY
    if older == NOBODY:
        runs.of[lane, function, OLDEST] = column
    else:
        columns[lane, older, YOUNGER] = column
    runs.of[lane, function, YOUNGEST] = column
    runs.of[lane, function, INSTANCES] += 1
    runs.of[lane, function, OPEN] += work.need[row, CONCURRENCY]
    runs.replicas[lane, node, function] += 1
    runs.node[lane, node, CPU] += work.need[row, CPU]
    runs.node[lane, node, MEMORY] += work.need[row, MEMORY]
    runs.node[lane, node, WARMING] += 1
    if runs.node[lane, node, HOLDS] == 0:
        runs.since[lane, node] = runs.figure[lane, NOW]
        runs.tally[lane, ACTIVE] += 1
        runs.tally[lane, PRICE] += work.price[node]
    runs.node[lane, node, HOLDS] += 1
    runs.tally[lane, LIVE] += 1
    runs.warming[lane, runs.tally[lane, STARTING]] = column
    runs.tally[lane, STARTING] += 1
    runs.tally[lane, STARTS] += 1
    return int(column)


@compiled
def ready_at(runs: Runs, lane: int, one: int, when: float) -> None:
    """An instance that starts will be ready at that time."""
    runs.wake[lane, one] = when
    runs.figure[lane, WAKES] = min(runs.figure[lane, WAKES], when)


@compiled
def close_instance(work: FunctionsWork, runs: Runs, lane: int, one: int, now: float) -> None:
    """An idle instance goes; its node is paid no longer once it holds none."""
    columns = runs.instance
    function, node = columns[lane, one, FUNCTION], columns[lane, one, NODE]
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    if runs.of[lane, function, SPARE] == one:
        pass_spare_on(runs.of[lane], columns[lane], function, work.need[row, CONCURRENCY])
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
def become_ready(work: FunctionsWork, runs: Runs, lane: int, one: int) -> None:
    """An instance has started, and serves what it held."""
    node, function = runs.instance[lane, one, NODE], runs.instance[lane, one, FUNCTION]
    runs.tally[lane, STARTING] -= 1
    runs.node[lane, node, WARMING] -= 1
    place = 0
    while runs.warming[lane, place] != one:
        place += 1
    runs.warming[lane, place] = runs.warming[lane, runs.tally[lane, STARTING]]
    become_busy(runs.instance[lane], runs.node[lane], one)
    row = work.first_function[runs.tally[lane, EPISODE]] + function
    if runs.instance[lane, one, TAKEN] < work.need[row, CONCURRENCY]:
        offer_room(runs.of[lane], runs.instance[lane], one)


@compiled
def become_busy(instance: I64, node: I64, one: int) -> None:
    """An instance serves."""
    instance[one, PHASE] = BUSY
    node[instance[one, NODE], WORKING] += 1


@compiled
def become_idle(instance: I64, node: I64, one: int) -> None:
    """An instance has served all that it had."""
    instance[one, PHASE] = IDLE
    node[instance[one, NODE], WORKING] -= 1


@compiled
def idle_until(runs: Runs, lane: int, one: int, when: float) -> None:
    """An idle instance will be given up at that time."""
    runs.wake[lane, one] = when
    runs.figure[lane, RESTS] = min(runs.figure[lane, RESTS], when)
    runs.figure[lane, WAKES] = min(runs.figure[lane, WAKES], when)
    if not runs.noted[lane, one]:
        runs.noted[lane, one] = True
        runs.resting[lane, runs.tally[lane, RESTING]] = one
        runs.tally[lane, RESTING] += 1


@compiled
def first_to_wake(runs: Runs, lane: int) -> int:
    """The instance that is ready or given up next, the lowest number of equals; NOBODY: none is."""
    first, earliest = NOBODY, np.inf
    for place in range(runs.tally[lane, STARTING]):
        one = runs.warming[lane, place]
        when = runs.wake[lane, one]
        if when < earliest or (when == earliest and one < first):
            first, earliest = one, when
    if runs.figure[lane, RESTS] <= earliest:
        one = _first_given_up(runs, lane)
        when = runs.figure[lane, RESTS]
        if one != NOBODY and (when < earliest or (when == earliest and one < first)):
            first, earliest = one, when
    runs.figure[lane, WAKES] = min(earliest, runs.figure[lane, RESTS])
    return int(first)


@compiled
def _first_given_up(runs: Runs, lane: int) -> int:
    """Of those that idle. Whoever serves again stays noted until met here: most idle again before that."""
    first, earliest, place = NOBODY, np.inf, 0
    while place < runs.tally[lane, RESTING]:
        one = runs.resting[lane, place]
        when = runs.wake[lane, one]
        if runs.instance[lane, one, PHASE] != IDLE:
            runs.noted[lane, one] = False
            runs.tally[lane, RESTING] -= 1
            runs.resting[lane, place] = runs.resting[lane, runs.tally[lane, RESTING]]
            continue
        if when < earliest or (when == earliest and one < first):
            first, earliest = one, when
        place += 1
    runs.figure[lane, RESTS] = earliest
    return int(first)
