"""The event loop: one thing after the other, in one order, until the time is up or nothing is left."""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation.allocation import take_slot
from proreus.worlds.inference.simulation.columns import (
    ALL_DONE,
    BEFORE_TRACE,
    CIRCLE,
    EVENTS,
    FREE_SLOTS,
    LOG_FULL,
    MORE_TO_COME,
    MOST_BOUND,
    NEEDS_QUEUES,
    NEEDS_REQUESTS,
    NEEDS_SLOTS,
    NEXT_REQUEST,
    NOBODY,
    OUTPUT,
    PROMPT,
    ROUTING,
    ROWS,
    TIME_UP,
    W_ARRIVED,
    W_OUTPUT_TOKENS,
    W_PROMPT_TOKENS,
    InferenceColumns,
)
from proreus.worlds.inference.simulation.heaps import next_event
from proreus.worlds.inference.simulation.instance_lifecycle import life_goes_on
from proreus.worlds.inference.simulation.kv_deadlock import break_circle
from proreus.worlds.inference.simulation.request_lifecycle import (
    iterations_end,
    route,
    route_one_who_waits,
    transfer_ends,
    wait_at_router,
)

_MARGIN = 8
"""An event writes at most one row for each request of a batch; rows and queues are kept so far from full."""


@compiled
def advance(run: InferenceColumns, until: float) -> int:
    """Let everything happen that comes before `until`; why it stopped.

    What stops it for want of room has changed nothing: with more room it goes on as if it had not stopped.
    """
    instances = run.fleet.shape[0]
    while True:
        if run.tally[ROWS] + run.picked.size + _MARGIN > run.log.shape[0]:
            return LOG_FULL
        if 2 * run.tally[MOST_BOUND] + _MARGIN > run.pending.cells.shape[1]:
            return NEEDS_QUEUES
        if run.tally[ROUTING] != NOBODY:
            route_one_who_waits(run, run.clock[0])
            continue
        if run.tally[CIRCLE]:
            break_circle(run, run.clock[0])
            continue
        when, actor = next_event(run)
        request = run.tally[NEXT_REQUEST]
        place = request - run.tally[BEFORE_TRACE]
        if place == run.trace.arrival.size and run.tally[MORE_TO_COME]:
            return NEEDS_REQUESTS
        arrival = run.trace.arrival[place] if place < run.trace.arrival.size else math.inf
        if min(when, arrival) >= until:
            run.clock[0] = max(run.clock[0], until) if until < math.inf else run.clock[0]
            return TIME_UP if until < math.inf else ALL_DONE
        if when <= arrival:
            run.tally[EVENTS] += 1
            run.clock[0] = when
            if actor < instances:
                iterations_end(run, actor, when)
            elif actor < 2 * instances:
                life_goes_on(run, actor - instances, when)
            else:
                transfer_ends(run, actor - 2 * instances, when)
            continue
        if run.tally[FREE_SLOTS] == 0:
            return NEEDS_SLOTS
        run.tally[EVENTS] += 1
        run.clock[0] = arrival
        _arrival(run, request, arrival)


@compiled_inline
def _arrival(run: InferenceColumns, request: int, now: float) -> None:
    run.tally[NEXT_REQUEST] = request + 1
    slot = take_slot(run, request)
    run.counts[W_ARRIVED] += 1
    run.counts[W_PROMPT_TOKENS] += run.slot[slot, PROMPT]
    run.counts[W_OUTPUT_TOKENS] += run.slot[slot, OUTPUT]
    if not route(run, slot, now):
        wait_at_router(run, slot, now)
