"""The life of an instance: ordered, provisioned, loaded, warmed up, active, draining, stopped, or lost.

Only active instances are in a pool, so only they are given work. A draining one keeps what is bound to it,
KV that is still on its way included, and stops when nothing is. An instance that is lost loses all of it: its
requests go back to the router, with the tokens that their users have already seen as part of the prompt.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.allocation import arriving_need, count_out, stopping_time
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.heaps import life_at, no_life, no_run, no_transfer
from proreus.worlds.inference.simulation.iteration_time import completed, lasting
from proreus.worlds.inference.simulation.lists import remove
from proreus.worlds.inference.simulation.lockstep_groups import join, leave
from proreus.worlds.inference.simulation.request_lifecycle import begin_again, ship_to_another, use_free_room
from proreus.worlds.inference.simulation.router import move
from proreus.worlds.inference.simulation.transfers import end_flow


@compiled
def life_goes_on(run: InferenceColumns, instance: int, now: float) -> None:
    """The next step of its start, or its end."""
    no_life(run, instance)
    fleet, figure = run.fleet[instance], run.figure[instance]
    if fleet[c.STATUS] == c.PROVISIONING:
        fleet[c.STATUS] = c.LOADING
        life_at(run, instance, now + figure[c.LOADING_SECONDS])
    elif fleet[c.STATUS] == c.LOADING:
        fleet[c.STATUS] = c.WARMING
        life_at(run, instance, now + figure[c.WARMING_SECONDS])
    elif fleet[c.STATUS] == c.WARMING:
        fleet[c.STATUS] = c.ACTIVE
        figure[c.ACTIVE_AT] = now
        move(run, instance, fleet[c.TAG])
        join(run, instance)
        if run.routed.size[0] > 0:
            run.tally[c.ROUTING] = 0
    elif fleet[c.STATUS] == c.DRAINING:
        stop(run, instance, now)


@compiled
def drain(run: InferenceColumns, instance: int, now: float) -> None:
    """It gets no more work and stops when it has none; one that has not begun to work stops at once."""
    fleet = run.fleet[instance]
    if fleet[c.STATUS] != c.ACTIVE:
        stop(run, instance, now)
        return
    fleet[c.STATUS] = c.DRAINING
    run.figure[instance, c.DRAINED_SINCE] = now
    move(run, instance, c.NOBODY)
    if fleet[c.BOUND] == 0:
        life_at(run, instance, stopping_time(run, instance, now))


@compiled
def stop(run: InferenceColumns, instance: int, now: float) -> None:
    """It is gone, and what it cost is written down."""
    fleet, figure = run.fleet[instance], run.figure[instance]
    spent = run.spent[fleet[c.KIND]]
    spent[c.SPENT_SECONDS] += now - figure[c.ORDERED_AT]
    spent[c.SPENT_BUSY] += figure[c.BUSY]
    spent[c.SPENT_PREFILL] += figure[c.PREFILL_BUSY]
    fleet[c.STATUS] = c.STOPPED
    no_life(run, instance)
    leave(run, instance)
    no_run(run, instance)


@compiled
def lose(run: InferenceColumns, instance: int, now: float) -> None:
    """It is taken away with all that it holds, as a spot machine is."""
    move(run, instance, c.NOBODY)
    _note_what_was_generated(run, instance, now)
    stop(run, instance, now)
    _forget_queues(run, instance)
    order = np.argsort(run.slot[:, c.REQUEST])
    for place in range(order.size):
        slot = order[place]
        if run.slot[slot, c.PHASE] == c.FREE:
            continue
        has_prompt = run.slot[slot, c.PROMPT_AT] == instance and run.slot[slot, c.PHASE] != c.DECODE
        if has_prompt:
            _lose_prompt(run, slot, instance, now)
        elif run.slot[slot, c.TOKEN_AT] == instance:
            _lose_tokens(run, slot, now)


@compiled
def _note_what_was_generated(run: InferenceColumns, instance: int, now: float) -> None:
    """Tokens of the iterations that are over have reached their users."""
    fleet, figure = run.fleet[instance], run.figure[instance]
    if fleet[c.RUNNING] > 0:
        seconds, growth, count = figure[c.RUN_TIME], figure[c.RUN_GROWTH], fleet[c.RUNNING]
        elapsed = now - (figure[c.RUN_END] - lasting(seconds, growth, count))
        done = min(max(completed(seconds, growth, elapsed), 0), count - 1)
        fleet[c.ITERATIONS] += done
        figure[c.BUSY] += elapsed
        if run.prefilling.size[instance] > 0:
            figure[c.PREFILL_BUSY] += elapsed
    for place in range(fleet[c.DECODES]):
        slot = run.finishing[instance, place]
        run.slot[slot, c.LEFT] = run.slot[slot, c.FINISH] - fleet[c.ITERATIONS]


@compiled
def _forget_queues(run: InferenceColumns, instance: int) -> None:
    for lists in (run.pending, run.prompts, run.blocked, run.waiting, run.prefilling, run.inbound):
        lists.begin[instance], lists.size[instance] = 0, 0
    run.phases[instance] = 0
    fleet = run.fleet[instance]
    for field in (
        c.BATCH,
        c.DECODES,
        c.CONTEXT,
        c.RUNNING,
        c.PAUSING,
        c.BOUND,
        c.PROMPTS_TO_DO,
        c.TOKENS_TO_DO,
    ):
        fleet[field] = 0
    fleet[c.FIRST], fleet[c.LAST], fleet[c.PARTIAL] = c.NOBODY, c.NOBODY, c.NOBODY


@compiled
def _lose_prompt(run: InferenceColumns, slot: int, instance: int, now: float) -> None:
    """Its prompt, or the KV of it, was on the instance; where its tokens were to go nobody expects it now."""
    there = run.slot[slot, c.TOKEN_AT]
    if there != instance and there != c.NOBODY:
        run.fleet[there, c.PLANNED_TOKENS] -= 1
        if run.slot[slot, c.PHASE] == c.MOVING:
            end_flow(run, slot, now)
            run.fleet[there, c.MEMORY] -= arriving_need(run, there, slot)
        elif run.slot[slot, c.PHASE] == c.TO_MOVE:
            remove(run.inbound, there, slot)
        count_out(run, slot, there, now)
        use_free_room(run, there, now)
    no_transfer(run, slot)
    begin_again(run, slot)


@compiled
def _lose_tokens(run: InferenceColumns, slot: int, now: float) -> None:
    """Its tokens were, or were to be, on the instance."""
    row = run.slot[slot]
    phase = row[c.PHASE]
    if phase == c.DECODE:
        done = row[c.OUTPUT] - row[c.LEFT]
        row[c.PROMPT], row[c.OUTPUT] = row[c.PROMPT] + done, row[c.LEFT]
        begin_again(run, slot)
        return
    if phase == c.MOVING:
        end_flow(run, slot, now)
    row[c.TOKEN_AT] = c.NOBODY
    if phase == c.PREFILL:
        return  # another instance is found when the prompt is done
    no_transfer(run, slot)
    here = row[c.PROMPT_AT]
    if not ship_to_another(run, slot, now):
        use_free_room(run, here, now)
