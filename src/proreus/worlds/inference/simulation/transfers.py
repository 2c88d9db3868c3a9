"""KV memory on its way from the instance of the prompt to that of the tokens.

Where links are shared, all that leaves an instance shares one, and all that comes to it another: a transfer
gets the smaller of its two shares. Whenever one begins or ends, those beside it go on at another rate.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.allocation import arriving_need, fits
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.heaps import transfer_at
from proreus.worlds.inference.simulation.iterations import pause
from proreus.worlds.inference.simulation.lists import append, at, remove, remove_at
from proreus.worlds.inference.simulation.prefix_cache import make_room


@compiled
def ship(run: InferenceColumns, slot: int, now: float) -> None:
    """The prompt is done: its KV moves on, or waits until there is room."""
    there = run.slot[slot, c.TOKEN_AT]
    need = arriving_need(run, there, slot)
    if (
        run.fleet[there, c.ENGINE] == c.CHUNKED
        and run.fleet[there, c.BATCH] > 0
        and not fits(run, there, need)
    ):
        pause(run, there, now)  # what later iterations would have taken
    if fits(run, there, need):
        _begin(run, slot, now)
        return
    run.slot[slot, c.PHASE] = c.TO_MOVE
    if run.rate[c.RETRY_SECONDS] > 0.0:
        transfer_at(run, slot, now + run.rate[c.RETRY_SECONDS])
    else:
        append(run.inbound, there, slot)
        look_for_circle(run, there)


@compiled
def look_for_circle(run: InferenceColumns, instance: int) -> None:
    """KV waits for room there: if nothing runs that will free some, everybody may wait for everybody."""
    if run.inbound.size[instance] > 0 and run.event_place[instance] == c.NOBODY:
        run.tally[c.CIRCLE] = 1


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
    there = row[c.TOKEN_AT]
    run.fleet[there, c.MEMORY] += arriving_need(run, there, slot)
    make_room(run, there, 0)
    row[c.PHASE] = c.MOVING
    here = row[c.PROMPT_AT]
    size = row[c.PROMPT] * run.fleet[here, c.KV_BYTES]
    if not run.option[c.SHARED_LINKS]:
        transfer_at(run, slot, now + size / run.rate[c.LINK_BYTES])
        return
    run.moment[slot, c.TO_SHIP], run.moment[slot, c.SHIP_RATE], run.moment[slot, c.SHIP_SINCE] = (
        size,
        0.0,
        now,
    )
    append(run.leaving, here, slot)
    append(run.coming, there, slot)
    _share(run, here, there, now)


@compiled
def end_flow(run: InferenceColumns, slot: int, now: float) -> None:
    """The transfer is over, or given up: those beside it may go on faster."""
    if run.option[c.SHARED_LINKS]:
        here, there = run.slot[slot, c.PROMPT_AT], run.slot[slot, c.TOKEN_AT]
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
        if run.slot[slot, c.PROMPT_AT] != here:
            _set_rate(run, slot, now)


@compiled
def _set_rate(run: InferenceColumns, slot: int, now: float) -> None:
    moment, row = run.moment[slot], run.slot[slot]
    done = moment[c.SHIP_RATE] * (now - moment[c.SHIP_SINCE])
    sharing = max(run.leaving.size[row[c.PROMPT_AT]], run.coming.size[row[c.TOKEN_AT]])
    moment[c.TO_SHIP] = max(moment[c.TO_SHIP] - done, 0.0)
    moment[c.SHIP_RATE], moment[c.SHIP_SINCE] = run.rate[c.LINK_BYTES] / sharing, now
    transfer_at(run, slot, now + moment[c.TO_SHIP] / moment[c.SHIP_RATE])
