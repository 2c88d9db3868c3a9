"""KV memory on its way from the instance of the prompt to that of the tokens.

Where links are shared, all that leaves an instance shares one, and all that comes to it another: a transfer
gets the smaller of its two shares. Whenever one begins or ends, those beside it go on at another rate.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation.allocation import arriving_need, fits
from proreus.worlds.inference.simulation.columns import (
    BATCH,
    CHUNKED,
    CIRCLE,
    ENGINE,
    KV_BYTES,
    LINK_BYTES,
    MEMORY,
    MOVING,
    NOBODY,
    PHASE,
    PROMPT,
    PROMPT_AT,
    RETRY_SECONDS,
    SHARED_LINKS,
    SHIP_RATE,
    SHIP_SINCE,
    TO_MOVE,
    TO_SHIP,
    TOKEN_AT,
    InferenceColumns,
)
from proreus.worlds.inference.simulation.heaps import transfer_at
from proreus.worlds.inference.simulation.iterations import pause
from proreus.worlds.inference.simulation.lists import append, at, remove, remove_at
from proreus.worlds.inference.simulation.prefix_cache import make_room


@compiled
def ship(run: InferenceColumns, slot: int, now: float) -> None:
    """The prompt is done: its KV moves on, or waits until there is room."""
    there = run.slot[slot, TOKEN_AT]
    need = arriving_need(run, there, slot)
    if run.fleet[there, ENGINE] == CHUNKED and run.fleet[there, BATCH] > 0 and not fits(run, there, need):
        pause(run, there, now)  # what later iterations would have taken
    if fits(run, there, need):
        _begin(run, slot, now)
        return
    run.slot[slot, PHASE] = TO_MOVE
    if run.rate[RETRY_SECONDS] > 0.0:
        transfer_at(run, slot, now + run.rate[RETRY_SECONDS])
    else:
        append(run.inbound, there, slot)
        look_for_circle(run, there)


@compiled
def look_for_circle(run: InferenceColumns, instance: int) -> None:
    """KV waits for room there: if nothing runs that will free some, everybody may wait for everybody."""
    if run.inbound.size[instance] > 0 and run.event_place[instance] == NOBODY:
        run.tally[CIRCLE] = 1


@compiled
def ship_what_fits(run: InferenceColumns, instance: int, now: float) -> None:
    """Room has become free on the instance: transfers that wait for it begin, first come first served."""
    while run.inbound.size[instance] > 0:
        slot = at(run.inbound, instance, 0)
        if not fits(run, instance, arriving_need(run, instance, slot)):
            return
        remove_at(run.inbound, instance, 0)
        _begin(run, slot, now)


@compiled
def _begin(run: InferenceColumns, slot: int, now: float) -> None:
    """Room is taken where it goes; where it comes from, room is given back in the end."""
    row = run.slot[slot]
    there = row[TOKEN_AT]
    run.fleet[there, MEMORY] += arriving_need(run, there, slot)
    make_room(run, there, 0)
    row[PHASE] = MOVING
    here = row[PROMPT_AT]
    size = row[PROMPT] * run.fleet[here, KV_BYTES]
    if not run.option[SHARED_LINKS]:
        transfer_at(run, slot, now + size / run.rate[LINK_BYTES])
        return
    run.moment[slot, TO_SHIP], run.moment[slot, SHIP_RATE], run.moment[slot, SHIP_SINCE] = size, 0.0, now
    append(run.leaving, here, slot)
    append(run.coming, there, slot)
    _share(run, here, there, now)


@compiled
def end_flow(run: InferenceColumns, slot: int, now: float) -> None:
    """The transfer is over, or given up: those beside it may go on faster."""
    if run.option[SHARED_LINKS]:
        here, there = run.slot[slot, PROMPT_AT], run.slot[slot, TOKEN_AT]
        remove(run.leaving, here, slot)
        remove(run.coming, there, slot)
        _share(run, here, there, now)


@compiled
def _share(run: InferenceColumns, here: int, there: int, now: float) -> None:
    """Who leaves one instance or comes to the other has another rate from now on."""
    for place in range(run.leaving.size[here]):
        _set_rate(run, at(run.leaving, here, place), now)
    for place in range(run.coming.size[there]):
        slot = at(run.coming, there, place)
        if run.slot[slot, PROMPT_AT] != here:
            _set_rate(run, slot, now)


@compiled
def _set_rate(run: InferenceColumns, slot: int, now: float) -> None:
    moment, row = run.moment[slot], run.slot[slot]
    done = moment[SHIP_RATE] * (now - moment[SHIP_SINCE])
    sharing = max(run.leaving.size[row[PROMPT_AT]], run.coming.size[row[TOKEN_AT]])
    moment[TO_SHIP] = max(moment[TO_SHIP] - done, 0.0)
    moment[SHIP_RATE], moment[SHIP_SINCE] = run.rate[LINK_BYTES] / sharing, now
    transfer_at(run, slot, now + moment[TO_SHIP] / moment[SHIP_RATE])
