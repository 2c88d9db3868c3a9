"""The life of an instance: ordered, provisioned, loaded, warmed up, active, draining, stopped, or lost.

Only active instances are in a pool, so only they are given work. A draining one keeps what is bound to it,
KV that is still on its way included, and stops when nothing is. An instance that is lost loses all of it: its
requests go back to the router, with the tokens that their users have already seen as part of the prompt.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation.allocation import arriving_need, count_out, stopping_time
from proreus.worlds.inference.simulation.columns import (
    ACTIVE,
    ACTIVE_AT,
    BATCH,
    BOUND,
    BUSY,
    CONTEXT,
    DECODE,
    DECODES,
    DRAINED_SINCE,
    DRAINING,
    FINISH,
    FIRST,
    FREE,
    ITERATIONS,
    KIND,
    LAST,
    LEFT,
    LOADING,
    LOADING_SECONDS,
    MEMORY,
    MOVING,
    NOBODY,
    ORDERED_AT,
    OUTPUT,
    PARTIAL,
    PAUSING,
    PHASE,
    PLANNED_TOKENS,
    PREFILL,
    PREFILL_BUSY,
    PROMPT,
    PROMPT_AT,
    PROMPTS_TO_DO,
    PROVISIONING,
    REQUEST,
    ROUTING,
    RUN_END,
    RUN_GROWTH,
    RUN_TIME,
    RUNNING,
    SPENT_BUSY,
    SPENT_PREFILL,
    SPENT_SECONDS,
    STATUS,
    STOPPED,
    TAG,
    TO_MOVE,
    TOKEN_AT,
    TOKENS_TO_DO,
    WARMING,
    WARMING_SECONDS,
    InferenceColumns,
)
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
    if fleet[STATUS] == PROVISIONING:
        fleet[STATUS] = LOADING
        life_at(run, instance, now + figure[LOADING_SECONDS])
    elif fleet[STATUS] == LOADING:
        fleet[STATUS] = WARMING
        life_at(run, instance, now + figure[WARMING_SECONDS])
    elif fleet[STATUS] == WARMING:
        fleet[STATUS] = ACTIVE
        figure[ACTIVE_AT] = now
        move(run, instance, fleet[TAG])
        join(run, instance)
        if run.routed.size[0] > 0:
            run.tally[ROUTING] = 0
    elif fleet[STATUS] == DRAINING:
        stop(run, instance, now)


@compiled
def drain(run: InferenceColumns, instance: int, now: float) -> None:
    """It gets no more work and stops when it has none; one that has not begun to work stops at once."""
    fleet = run.fleet[instance]
    if fleet[STATUS] != ACTIVE:
        stop(run, instance, now)
        return
    fleet[STATUS] = DRAINING
    run.figure[instance, DRAINED_SINCE] = now
    move(run, instance, NOBODY)
    if fleet[BOUND] == 0:
        life_at(run, instance, stopping_time(run, instance, now))


@compiled
def stop(run: InferenceColumns, instance: int, now: float) -> None:
    """It is gone, and what it cost is written down."""
    fleet, figure = run.fleet[instance], run.figure[instance]
    spent = run.spent[fleet[KIND]]
    spent[SPENT_SECONDS] += now - figure[ORDERED_AT]
    spent[SPENT_BUSY] += figure[BUSY]
    spent[SPENT_PREFILL] += figure[PREFILL_BUSY]
    fleet[STATUS] = STOPPED
    no_life(run, instance)
    leave(run, instance)
    no_run(run, instance)


@compiled
def lose(run: InferenceColumns, instance: int, now: float) -> None:
    """It is taken away with all that it holds, as a spot machine is."""
    move(run, instance, NOBODY)
    _note_what_was_generated(run, instance, now)
    stop(run, instance, now)
    _forget_queues(run, instance)
    order = np.argsort(run.slot[:, REQUEST])
    for place in range(order.size):
        slot = order[place]
        if run.slot[slot, PHASE] == FREE:
            continue
        has_prompt = run.slot[slot, PROMPT_AT] == instance and run.slot[slot, PHASE] != DECODE
        if has_prompt:
            _lose_prompt(run, slot, instance, now)
        elif run.slot[slot, TOKEN_AT] == instance:
            _lose_tokens(run, slot, now)


@compiled
def _note_what_was_generated(run: InferenceColumns, instance: int, now: float) -> None:
    """Tokens of the iterations that are over have reached their users."""
    fleet, figure = run.fleet[instance], run.figure[instance]
    if fleet[RUNNING] > 0:
        seconds, growth, count = figure[RUN_TIME], figure[RUN_GROWTH], fleet[RUNNING]
        elapsed = now - (figure[RUN_END] - lasting(seconds, growth, count))
        done = min(max(completed(seconds, growth, elapsed), 0), count - 1)
        fleet[ITERATIONS] += done
        figure[BUSY] += elapsed
        if run.prefilling.size[instance] > 0:
            figure[PREFILL_BUSY] += elapsed
    for place in range(fleet[DECODES]):
        slot = run.finishing[instance, place]
        run.slot[slot, LEFT] = run.slot[slot, FINISH] - fleet[ITERATIONS]


@compiled
def _forget_queues(run: InferenceColumns, instance: int) -> None:
    for lists in (run.pending, run.prompts, run.blocked, run.waiting, run.prefilling, run.inbound):
        lists.begin[instance], lists.size[instance] = 0, 0
    run.phases[instance] = 0
    fleet = run.fleet[instance]
    for field in (BATCH, DECODES, CONTEXT, RUNNING, PAUSING, BOUND, PROMPTS_TO_DO, TOKENS_TO_DO):
        fleet[field] = 0
    fleet[FIRST], fleet[LAST], fleet[PARTIAL] = NOBODY, NOBODY, NOBODY


@compiled
def _lose_prompt(run: InferenceColumns, slot: int, instance: int, now: float) -> None:
    """Its prompt, or the KV of it, was on the instance; where its tokens were to go nobody expects it now."""
    there = run.slot[slot, TOKEN_AT]
    if there != instance and there != NOBODY:
        run.fleet[there, PLANNED_TOKENS] -= 1
        if run.slot[slot, PHASE] == MOVING:
            end_flow(run, slot, now)
            run.fleet[there, MEMORY] -= arriving_need(run, there, slot)
        elif run.slot[slot, PHASE] == TO_MOVE:
            remove(run.inbound, there, slot)
        count_out(run, slot, there, now)
        use_free_room(run, there, now)
    no_transfer(run, slot)
    begin_again(run, slot)


@compiled
def _lose_tokens(run: InferenceColumns, slot: int, now: float) -> None:
    """Its tokens were, or were to be, on the instance."""
    row = run.slot[slot]
    phase = row[PHASE]
    if phase == DECODE:
        done = row[OUTPUT] - row[LEFT]
        row[PROMPT], row[OUTPUT] = row[PROMPT] + done, row[LEFT]
        begin_again(run, slot)
        return
    if phase == MOVING:
        end_flow(run, slot, now)
    row[TOKEN_AT] = NOBODY
    if phase == PREFILL:
        return  # another instance is found when the prompt is done
    no_transfer(run, slot)
    here = row[PROMPT_AT]
    if not ship_to_another(run, slot, now):
        use_free_room(run, here, now)
