"""A decision as rows: one for each node, one for waiting, one for each time to keep an instance; a context.

Rows that the decision is not about are zeros. Money is in shares of the price of all nodes, benefit in shares
of the span of RFRT a request: what the objective adds up. Nothing here depends on how many nodes there are.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, U8
from proreus.kernels.jit import compiled
from proreus.worlds.functions.model import KEEPS
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.idle_histogram import BINS, EDGES
from proreus.worlds.functions.state.instances import fits, may_wait

VERSION = "functions-1"
FEATURES = (
    "places",
    "share of the price that becomes due",
    "share of the price",
    "stretch of a request that ran there now",
    "CPU that requests will use there, as they come now",
    "the same above 70 %",
    "CPU reserved",
    "memory reserved",
    "log instances of the function there",
    "stretch, times the function's share of requests",
    "CPU used now",
    "log instances there",
    "waits",
    "log RFRT that waiting adds",
    "log RFRT that a cold start adds",
    "log requests that wait",
    "keeps",
    "benefit of being warm",
    "price of keeping where it is the only instance",
    "price of keeping, shared with the others there",
    "price of keeping where nobody works there",
    "log seconds",
    "log seconds, where another one has room",
    "log seconds, times what is reserved there",
    "probability that a request comes in time",
)
CONTEXT = (
    "places",
    "share of nodes that are active",
    "log requests that wait",
    "share of CPU reserved",
    "share of CPU used",
    "share of instances that start",
    "log requests a second",
)
SIZES = (len(FEATURES), len(CONTEXT))
_MOST = 6.0
_USUAL_START = 1.35
"""Seconds: the median of cold starts that were published."""
_USUAL_GAP, _GUESSES = 60.0, 2.0
"""Before a function's idle times are known: half of them are longer; how many observations that is worth."""
_MONEY = 10.0


def rows_for(nodes: int) -> int:
    """Rows of a decision, one for each numbered action."""
    return nodes + 1 + len(KEEPS)


@compiled
def encode(work: FunctionsWork, runs: Runs, lane: int, rows: F32, context: F32, legal: U8) -> None:
    """Fill rows [R, F], context [G] and legal [R] of the decision at hand."""
    rows[:] = 0.0
    legal[:] = 0
    _fill_context(work, runs, lane, context)
    if runs.tally[lane, c.KIND] == c.PLACING:
        _fill_places(work, runs, lane, rows, legal)
        _fill_wait(work, runs, lane, rows[work.price.size])
        legal[work.price.size] = may_wait(runs, lane, runs.tally[lane, c.SUBJECT])
    else:
        _fill_keeps(work, runs, lane, rows)
        legal[work.price.size + 1 :] = 1


@compiled
def requests_per_second(runs: Runs, lane: int) -> float:
    """As they have come so far; before there are any to speak of, one."""
    return float((runs.tally[lane, c.CAME] + 10.0) / (runs.figure[lane, c.NOW] + 10.0))


@compiled
def rate_of(runs: Runs, lane: int, function: int) -> float:
    """Requests a second of a function, by its last gaps."""
    if runs.of[lane, function, c.SEEN] < 2:
        return 1.0 / _USUAL_GAP
    return float(1.0 / max(runs.rate[lane, function, c.GAP], 1e-3))


@compiled
def offered(work: FunctionsWork, runs: Runs, lane: int, node: int) -> float:
    """Milli-cores that requests will use on a node, if each function spreads them over its instances."""
    base = work.first_function[runs.tally[lane, c.EPISODE]]
    total = 0.0
    for function in range(runs.of.shape[1]):
        here = runs.replicas[lane, node, function]
        if here > 0:
            row = base + function
            load = rate_of(runs, lane, function) * work.standard[row] * work.need[row, c.CPU_USE]
            most = work.need[row, c.CPU_USE] * work.need[row, c.CONCURRENCY] * here
            total += min(load * here / runs.of[lane, function, c.INSTANCES], most)
    return total


@compiled
def _fill_places(work: FunctionsWork, runs: Runs, lane: int, rows: F32, legal: U8) -> None:
    function = runs.tally[lane, c.SUBJECT]
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    need, full = work.need[row], max(work.term[c.FULL_PRICE], 1.0)
    rate, every = rate_of(runs, lane, function), requests_per_second(runs, lane)
    own = min(rate * work.standard[row], need[c.CONCURRENCY]) * need[c.CPU_USE]
    own /= runs.of[lane, function, c.INSTANCES] + 1
    for node in range(work.price.size):
        if not fits(work, runs, lane, function, node):
            continue
        legal[node] = 1
        one, columns, capacity = rows[node], runs.node[lane, node], work.capacity[node]
        one[0] = 1.0
        share = _MONEY * work.price[node] / full
        one[1] = share if columns[c.HOLDS] == 0 else 0.0
        one[2] = share
        stretch = max(
            (columns[c.BUSY_CPU] + need[c.CPU_USE]) / capacity[c.CPU],
            (columns[c.NET] + need[c.NET]) / capacity[c.NET],
            (columns[c.DISK] + need[c.DISK]) / capacity[c.DISK],
        )
        one[3] = min(max(stretch - 1.0, 0.0), _MOST)
        will = (offered(work, runs, lane, node) + own) / capacity[c.CPU]
        one[4] = min(will, _MOST)
        one[5] = min(max(will - 0.7, 0.0), _MOST)
        one[6] = (columns[c.CPU] + need[c.CPU]) / capacity[c.CPU]
        one[7] = (columns[c.MEMORY] + need[c.MEMORY]) / capacity[c.MEMORY]
        one[8] = np.log1p(runs.replicas[lane, node, function]) / 3.0
        one[9] = one[3] * min(_MONEY * rate / every, _MOST)
        one[10] = min(columns[c.BUSY_CPU] / capacity[c.CPU], _MOST)
        one[11] = np.log1p(columns[c.HOLDS]) / 4.0


@compiled
def _fill_wait(work: FunctionsWork, runs: Runs, lane: int, one: F32) -> None:
    function = runs.tally[lane, c.SUBJECT]
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    slots = runs.of[lane, function, c.INSTANCES] * work.need[row, c.CONCURRENCY]
    waiting = runs.of[lane, function, c.WAITING]
    one[12] = 1.0
    one[13] = np.log1p(waiting / max(slots, 1)) / 3.0
    one[14] = np.log1p(_USUAL_START / work.standard[row]) / 3.0
    one[15] = np.log1p(waiting) / 3.0


@compiled
def _fill_keeps(work: FunctionsWork, runs: Runs, lane: int, rows: F32) -> None:
    instance = runs.tally[lane, c.SUBJECT]
    function, node = runs.instance[lane, instance, c.FUNCTION], runs.instance[lane, instance, c.NODE]
    row = work.first_function[runs.tally[lane, c.EPISODE]] + function
    columns = runs.node[lane, node]
    price = _MONEY * work.price[node] / max(work.term[c.FULL_PRICE], 1.0)
    span = work.term[c.HIGH] - work.term[c.LOW]
    saved = min(_USUAL_START / work.standard[row] / span, 1.0)
    spare = runs.of[lane, function, c.OPEN] > work.need[row, c.CONCURRENCY]
    reserved = max(
        columns[c.CPU] / work.capacity[node, c.CPU], columns[c.MEMORY] / work.capacity[node, c.MEMORY]
    )
    for place in range(len(KEEPS)):
        one, seconds = rows[work.price.size + 1 + place], KEEPS[place]
        chance, stays = _outlook(runs, lane, function, seconds)
        one[16] = 1.0
        one[17] = min(_MONEY * _MONEY * chance * saved / requests_per_second(runs, lane), _MOST)
        one[18] = price * stays / 10.0 if columns[c.HOLDS] == 1 else 0.0
        one[19] = price * stays / 10.0 / columns[c.HOLDS]
        one[20] = price * stays / 10.0 if columns[c.WORKING] == 0 else 0.0
        one[21] = np.log1p(seconds) / 6.0
        one[22] = np.log1p(seconds) / 6.0 if spare else 0.0
        one[23] = reserved * np.log1p(seconds) / 6.0
        one[24] = chance


@compiled
def _outlook(runs: Runs, lane: int, function: int, seconds: float) -> tuple[float, float]:
    """(probability that the next request comes in time, seconds that the instance will idle), by the idle
    times so far; a long tail is taken for granted before there are some."""
    total, within, spent = 0.0, 0.0, 0.0
    below = 0.0
    for place in range(BINS):
        count = runs.gaps[lane, function, place]
        above = EDGES[place] if place < BINS - 1 else 2.0 * EDGES[BINS - 2]
        total += count
        if above <= seconds:
            within += count
            spent += count * 0.5 * (below + above)
        else:
            spent += count * seconds
        below = above
    guess = seconds / (seconds + _USUAL_GAP)
    idle = _USUAL_GAP * np.log1p(seconds / _USUAL_GAP)
    return (within + _GUESSES * guess) / (total + _GUESSES), (spent + _GUESSES * idle) / (total + _GUESSES)


@compiled
def _fill_context(work: FunctionsWork, runs: Runs, lane: int, context: F32) -> None:
    reserved, used, cpu = 0.0, 0.0, 0.0
    for node in range(work.price.size):
        reserved += runs.node[lane, node, c.CPU]
        used += runs.node[lane, node, c.BUSY_CPU]
        cpu += work.capacity[node, c.CPU]
    context[0] = 1.0 if runs.tally[lane, c.KIND] == c.PLACING else 0.0
    context[1] = runs.tally[lane, c.ACTIVE] / work.price.size
    context[2] = np.log1p(runs.tally[lane, c.QUEUED]) / 4.0
    context[3] = reserved / cpu
    context[4] = min(used / cpu, 4.0)
    context[5] = runs.tally[lane, c.STARTING] / max(runs.tally[lane, c.LIVE], 1)
    context[6] = np.log1p(requests_per_second(runs, lane)) / 5.0
