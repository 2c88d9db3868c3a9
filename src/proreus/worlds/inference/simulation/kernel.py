"""The event loop: one thing after the other, in one order, until the time is up or nothing is left."""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.allocation import take_slot
from proreus.worlds.inference.simulation.columns import InferenceColumns
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
        if run.tally[c.ROWS] + run.picked.size + _MARGIN > run.log.shape[0]:
            return c.LOG_FULL
        if 2 * run.tally[c.MOST_BOUND] + _MARGIN > run.pending.cells.shape[1]:
            return c.NEEDS_QUEUES
        if run.tally[c.ROUTING] != c.NOBODY:
            route_one_who_waits(run, run.clock[0])
            continue
        if run.tally[c.CIRCLE]:
            break_circle(run, run.clock[0])
            continue
        when, actor = next_event(run)
        request = run.tally[c.NEXT_REQUEST]
        place = request - run.tally[c.BEFORE_TRACE]
        if place == run.trace.arrival.size and run.tally[c.MORE_TO_COME]:
            return c.NEEDS_REQUESTS
        arrival = run.trace.arrival[place] if place < run.trace.arrival.size else math.inf
        if min(when, arrival) >= until:
            run.clock[0] = max(run.clock[0], until) if until < math.inf else run.clock[0]
            return c.TIME_UP if until < math.inf else c.ALL_DONE
        if when <= arrival:
            run.tally[c.EVENTS] += 1
            run.clock[0] = when
            if actor < instances:
                iterations_end(run, actor, when)
            elif actor < 2 * instances:
                life_goes_on(run, actor - instances, when)
            else:
                transfer_ends(run, actor - 2 * instances, when)
            continue
        if run.tally[c.FREE_SLOTS] == 0:
            return c.NEEDS_SLOTS
        run.tally[c.EVENTS] += 1
        run.clock[0] = arrival
        _arrival(run, request, arrival)


@compiled_inline
def _arrival(run: InferenceColumns, request: int, now: float) -> None:
    run.tally[c.NEXT_REQUEST] = request + 1
    slot = take_slot(run, request)
    run.counts[c.W_ARRIVED] += 1
    run.counts[c.W_PROMPT_TOKENS] += run.slot[slot, c.PROMPT]
    run.counts[c.W_OUTPUT_TOKENS] += run.slot[slot, c.OUTPUT]
    if not route(run, slot, now):
        wait_at_router(run, slot, now)
