"""KV memory on its way from the instance of the prompt to that of the tokens."""

from __future__ import annotations

from proreus.kernels.compiled import compiled
from proreus.worlds.inference.simulation.columns import (
    KV_BYTES,
    LINK_BYTES,
    MEMORY,
    MOVING,
    PHASE,
    PROMPT,
    PROMPT_AT,
    RETRY_SECONDS,
    TO_MOVE,
    TOKEN_AT,
    Run,
)
from proreus.worlds.inference.simulation.heaps import transfer_at
from proreus.worlds.inference.simulation.holding import arriving_need, fits
from proreus.worlds.inference.simulation.lists import append, at, remove_at


@compiled
def ship(run: Run, slot: int, now: float) -> None:
    """The prompt is done: its KV moves on, or waits until there is room."""
    there = run.slot[slot, TOKEN_AT]
    if fits(run, there, arriving_need(run, there, slot)):
        _begin(run, slot, now)
        return
    run.slot[slot, PHASE] = TO_MOVE
    if run.rate[RETRY_SECONDS] > 0.0:
        transfer_at(run, slot, now + run.rate[RETRY_SECONDS])
    else:
        append(run.inbound, there, slot)


@compiled
def ship_what_fits(run: Run, instance: int, now: float) -> None:
    """Room has become free on the instance: transfers that wait for it begin, first come first served."""
    while run.inbound.size[instance] > 0:
        slot = at(run.inbound, instance, 0)
        if not fits(run, instance, arriving_need(run, instance, slot)):
            return
        remove_at(run.inbound, instance, 0)
        _begin(run, slot, now)


@compiled
def _begin(run: Run, slot: int, now: float) -> None:
    """Room is taken where it goes; where it comes from, room is given back in the end."""
    row = run.slot[slot]
    there = row[TOKEN_AT]
    run.fleet[there, MEMORY] += arriving_need(run, there, slot)
    row[PHASE] = MOVING
    size = row[PROMPT] * run.fleet[row[PROMPT_AT], KV_BYTES]
    transfer_at(run, slot, now + size / run.rate[LINK_BYTES])
