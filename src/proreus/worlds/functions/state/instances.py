"""Instances on nodes: who has room, what is reserved, which nodes are active; no clock but the one given."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64
from proreus.kernels.indices import unsigned, unsigned_word
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.spares import offer_room, take_place, withdraw


@compiled
def row_of(work: FunctionsWork, runs: Runs, lane: int, function: int) -> int:
    """Where what a function needs stands in `need` and `standard`."""
    return int(work.first_function[runs.tally[lane, c.EPISODE]] + function)


@compiled
def fits(work: FunctionsWork, runs: Runs, lane: int, function: int, node: int) -> bool:
    """Whether a node has room for one more instance."""
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    cpu = runs.node[lane, node, c.CPU] + work.need[row, c.CPU] <= work.capacity[node, c.CPU]
    memory = runs.node[lane, node, c.MEMORY] + work.need[row, c.MEMORY] <= work.capacity[node, c.MEMORY]
    return bool(cpu and memory and runs.tally[lane, c.FREE] > 0)


@compiled
def fits_somewhere(work: FunctionsWork, runs: Runs, lane: int, function: int) -> bool:
    """Whether any node has room for one more instance."""
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    cpu, memory = work.need[row, c.CPU], work.need[row, c.MEMORY]
    if runs.tally[lane, c.FREE] == 0:
        return False
    for node in range(work.price.size):
        if (
            runs.node[lane, node, c.CPU] + cpu <= work.capacity[node, c.CPU]
            and runs.node[lane, node, c.MEMORY] + memory <= work.capacity[node, c.MEMORY]
        ):
            return True
    return False


@compiled
def may_wait(runs: Runs, lane: int, function: int) -> bool:
    """Whether there is an instance of the function to wait for: a queue that nobody serves is no choice."""
    return bool(runs.of[lane, function, c.INSTANCES] > 0)


@compiled
def starting_with_room(work: FunctionsWork, runs: Runs, lane: int, function: int) -> int:
    """The oldest instance that starts and has a free slot."""
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    most = work.need[row, c.CONCURRENCY]
    one = runs.of[lane, function, c.OLDEST]
    while runs.instance[lane, one, c.PHASE] != c.STARTS_UP or runs.instance[lane, one, c.TAKEN] >= most:
        one = runs.instance[lane, one, c.YOUNGER]
    return int(one)


@compiled
def open_instance(work: FunctionsWork, runs: Runs, lane: int, function: int, node: int) -> int:
    """A new instance of a function on a node, which starts now; its number."""
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    runs.tally[lane, c.FREE] -= 1
    column = runs.free[lane, runs.tally[lane, c.FREE]]
    columns = runs.instance
    columns[lane, column, c.FUNCTION] = function
    columns[lane, column, c.NODE] = node
    columns[lane, column, c.TAKEN] = 0
    columns[lane, column, c.PHASE] = c.STARTS_UP
    columns[lane, column, c.FIRST_HELD] = c.NOBODY
    columns[lane, column, c.LAST_HELD] = c.NOBODY
    take_place(work, runs, lane, column)
    older = runs.of[lane, function, c.YOUNGEST]
    columns[lane, column, c.OLDER] = older
    columns[lane, column, c.YOUNGER] = c.NOBODY
    if older == c.NOBODY:
        runs.of[lane, function, c.OLDEST] = column
    else:
        columns[lane, older, c.YOUNGER] = column
    runs.of[lane, function, c.YOUNGEST] = column
    runs.of[lane, function, c.INSTANCES] += 1
    runs.of[lane, function, c.OPEN] += work.need[row, c.CONCURRENCY]
    runs.replicas[lane, node, function] += 1
    runs.node[lane, node, c.CPU] += work.need[row, c.CPU]
    runs.node[lane, node, c.MEMORY] += work.need[row, c.MEMORY]
    runs.node[lane, node, c.WARMING] += 1
    if runs.node[lane, node, c.HOLDS] == 0:
        runs.since[lane, node] = runs.figure[lane, c.NOW]
        runs.tally[lane, c.ACTIVE] += 1
        runs.tally[lane, c.PRICE] += work.price[node]
    runs.node[lane, node, c.HOLDS] += 1
    runs.tally[lane, c.LIVE] += 1
    runs.tally[lane, c.STARTS] += 1
    return int(column)


@compiled
def ready_at(runs: Runs, lane: int, one: int, when: float) -> None:
    """An instance that starts will be ready at that time."""
    runs.wake[lane, one] = when
    runs.figure[lane, c.WAKES] = min(runs.figure[lane, c.WAKES], when)
    place = runs.tally[lane, c.STARTING]
    while place > 0:
        other = runs.warming[lane, place - 1]
        if (runs.wake[lane, other], other) > (when, one):
            break
        runs.warming[lane, place] = other
        place -= 1
    runs.warming[lane, place] = one
    runs.tally[lane, c.STARTING] += 1


@compiled
def close_instance(work: FunctionsWork, runs: Runs, lane: int, one: int, now: float) -> None:
    """An idle instance goes; its node is paid no longer once it holds none."""
    columns = runs.instance
    function, node = columns[lane, one, c.FUNCTION], columns[lane, one, c.NODE]
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    withdraw(runs.of[lane], columns[lane], runs.spare[lane], unsigned_word(runs.crew.shape[1] // 64), one)
    older, younger = columns[lane, one, c.OLDER], columns[lane, one, c.YOUNGER]
    if older == c.NOBODY:
        runs.of[lane, function, c.OLDEST] = younger
    else:
        columns[lane, older, c.YOUNGER] = younger
    if younger == c.NOBODY:
        runs.of[lane, function, c.YOUNGEST] = older
    else:
        columns[lane, younger, c.OLDER] = older
    columns[lane, one, c.PHASE] = c.ABSENT
    runs.free[lane, runs.tally[lane, c.FREE]] = one
    runs.tally[lane, c.FREE] += 1
    runs.of[lane, function, c.INSTANCES] -= 1
    runs.of[lane, function, c.OPEN] -= work.need[row, c.CONCURRENCY]
    runs.replicas[lane, node, function] -= 1
    runs.node[lane, node, c.CPU] -= work.need[row, c.CPU]
    runs.node[lane, node, c.MEMORY] -= work.need[row, c.MEMORY]
    runs.node[lane, node, c.HOLDS] -= 1
    runs.tally[lane, c.LIVE] -= 1
    if runs.node[lane, node, c.HOLDS] == 0:
        runs.active[lane, node] += now - runs.since[lane, node]
        runs.tally[lane, c.ACTIVE] -= 1
        runs.tally[lane, c.PRICE] -= work.price[node]


@compiled
def become_ready(work: FunctionsWork, runs: Runs, lane: int, one: int) -> None:
    """An instance, of those that start the first to be ready, has started and serves what it held."""
    node, function = runs.instance[lane, one, c.NODE], runs.instance[lane, one, c.FUNCTION]
    runs.tally[lane, c.STARTING] -= 1
    runs.node[lane, node, c.WARMING] -= 1
    become_busy(runs.instance[lane], runs.node[lane], one)
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    if runs.instance[lane, one, c.TAKEN] < work.need[row, c.CONCURRENCY]:
        words = unsigned_word(runs.crew.shape[1] // 64)
        offer_room(runs.of[lane], runs.instance[lane], runs.spare[lane], words, one)


@compiled_inline
def become_busy(instance: I64, node: I64, one: int) -> None:
    """An instance serves."""
    instance[one, c.PHASE] = c.BUSY
    node[unsigned(instance[one, c.NODE]), c.WORKING] += 1


@compiled_inline
def become_idle(instance: I64, node: I64, one: int) -> None:
    """An instance has served all that it had."""
    instance[one, c.PHASE] = c.IDLE
    node[unsigned(instance[one, c.NODE]), c.WORKING] -= 1


@compiled
def idle_until(runs: Runs, lane: int, one: int, when: float) -> None:
    """An idle instance will be given up at that time."""
    runs.wake[lane, one] = when
    runs.figure[lane, c.RESTS] = min(runs.figure[lane, c.RESTS], when)
    runs.figure[lane, c.WAKES] = min(runs.figure[lane, c.WAKES], when)
    if not runs.noted[lane, one]:
        runs.noted[lane, one] = True
        runs.resting[lane, runs.tally[lane, c.RESTING]] = one
        runs.tally[lane, c.RESTING] += 1


@compiled
def first_to_wake(runs: Runs, lane: int) -> int:
    """The instance that is ready or given up next, the lowest number of equals; NOBODY: none is."""
    first, earliest = c.NOBODY, np.inf
    starting = runs.tally[lane, c.STARTING]
    if starting > 0:
        first = runs.warming[lane, starting - 1]
        earliest = runs.wake[lane, first]
    if runs.figure[lane, c.RESTS] <= earliest:
        one = _first_given_up(runs, lane)
        when = runs.figure[lane, c.RESTS]
        if one != c.NOBODY and (when < earliest or (when == earliest and one < first)):
            first, earliest = one, when
    runs.figure[lane, c.WAKES] = min(earliest, runs.figure[lane, c.RESTS])
    return int(first)


@compiled
def _first_given_up(runs: Runs, lane: int) -> int:
    """Of those that idle. Whoever serves again stays noted until met here: most idle again before that."""
    first, earliest, place = c.NOBODY, np.inf, 0
    while place < runs.tally[lane, c.RESTING]:
        one = runs.resting[lane, place]
        when = runs.wake[lane, one]
        if runs.instance[lane, one, c.PHASE] != c.IDLE:
            runs.noted[lane, one] = False
            runs.tally[lane, c.RESTING] -= 1
            runs.resting[lane, place] = runs.resting[lane, runs.tally[lane, c.RESTING]]
            continue
        if when < earliest or (when == earliest and one < first):
            first, earliest = one, when
        place += 1
    runs.figure[lane, c.RESTS] = earliest
    return int(first)
