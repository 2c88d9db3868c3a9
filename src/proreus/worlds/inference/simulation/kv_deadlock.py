"""Requests whose KV waits for each other's room in a circle, and how that ends.

An instance that computes prompts for others and decodes for them may hold KV that has to move to an instance
which is full of KV that has to move here. Nobody would ever go on: so the youngest of those requests gives
its memory back and is computed again, as an engine does that preempts by recomputation.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import Bool
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.allocation import count_out, forget, unbind
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.lists import append, remove
from proreus.worlds.inference.simulation.request_lifecycle import use_free_room


@compiled_inline
def break_circle(run: InferenceColumns, now: float) -> None:
    """One request of a circle begins again, and we look once more; or there is none."""
    stuck = _stuck(run)
    youngest = c.NOBODY
    for slot in range(run.slot.shape[0]):
        row = run.slot[slot]
        if row[c.PHASE] != c.TO_MOVE or not stuck[row[c.PROMPT_AT]]:
            continue
        if youngest == c.NOBODY or row[c.REQUEST] > run.slot[youngest, c.REQUEST]:
            youngest = slot
    if youngest == c.NOBODY:
        run.tally[c.CIRCLE] = 0
        return
    here, there = run.slot[youngest, c.PROMPT_AT], run.slot[youngest, c.TOKEN_AT]
    run.fleet[there, c.PLANNED_TOKENS] -= 1
    remove(run.inbound, there, youngest)
    count_out(run, youngest, there, now)
    unbind(run, youngest, here, now)
    run.slot[youngest, c.PREEMPTIONS] += 1
    forget(run, youngest)
    append(run.routed, 0, youngest)
    run.tally[c.ROUTING] = 0
    use_free_room(run, here, now)


@compiled
def _stuck(run: InferenceColumns) -> Bool:
    """bool[I]: idle instances all of whose KV has to move to instances that are stuck themselves."""
    instances = run.fleet.shape[0]
    stuck = np.zeros(instances, dtype=np.bool_)
    for instance in range(instances):
        stuck[instance] = run.inbound.size[instance] > 0 and run.event_place[instance] == c.NOBODY
    for slot in range(run.slot.shape[0]):
        if run.slot[slot, c.PHASE] == c.MOVING:
            stuck[run.slot[slot, c.PROMPT_AT]] = stuck[run.slot[slot, c.TOKEN_AT]] = False
    changed = True
    while changed:
        changed = False
        for slot in range(run.slot.shape[0]):
            row = run.slot[slot]
            if row[c.PHASE] == c.TO_MOVE and stuck[row[c.PROMPT_AT]] and not stuck[row[c.TOKEN_AT]]:
                stuck[row[c.PROMPT_AT]] = False
                changed = True
    return stuck
