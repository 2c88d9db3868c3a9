"""What a request takes and gives back: a slot, KV memory, its bond to instances, a row of the log."""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation.columns import (
    ARRIVED,
    ASKED_OUTPUT,
    ASKED_PROMPT,
    AT_ROUTER,
    BEFORE_TRACE,
    BLOCKED,
    BOUND,
    CAPACITY,
    CHUNKED,
    COMPUTED,
    CONTEXT_OF,
    COUNTS_TOKENS,
    DECODING,
    DRAIN_CHECK,
    DRAINED_SINCE,
    DRAINING,
    ENGINE,
    FIRST_TOKEN,
    FOUND,
    FREE,
    FREE_SLOTS,
    KV,
    KV_BYTES,
    L_ARRIVAL,
    L_DECODING,
    L_ENDED,
    L_FIRST,
    L_FOUND,
    L_LOSSES,
    L_MODEL,
    L_OUTPUT,
    L_PREEMPTIONS,
    L_PROMPT,
    L_PROMPT_BY,
    L_REQUEST,
    L_SERVICE,
    L_SHIPPED,
    L_STARTED,
    L_STATUS,
    L_TOKEN_BY,
    LEFT,
    LOSSES,
    MEMORY,
    MODEL,
    MOST_BOUND,
    NOBODY,
    NUMBER,
    OUTPUT,
    PHASE,
    PICKED,
    PLANNED_MEMORY,
    PLANNED_TOKENS,
    PREEMPTIONS,
    PREFILL,
    PROMPT,
    PROMPT_AT,
    PROMPT_BY,
    PROMPT_PREEMPTED,
    PROMPTS_TO_DO,
    REQUEST,
    RESERVES,
    ROWS,
    SERVICE,
    SHARED,
    SHIPPED,
    STARTED,
    STATUS,
    TOKEN_AT,
    TOKEN_BY,
    TOKEN_PREEMPTED,
    TOKENS_TO_DO,
    UNDER_WAY,
    W_STARTED,
    W_WAIT,
    WAITS_AS,
    InferenceColumns,
)
from proreus.worlds.inference.simulation.heaps import life_at
from proreus.worlds.inference.simulation.paged_kv import page_bytes, pages
from proreus.worlds.inference.simulation.prefix_cache import release_blocks


@compiled
def take_slot(run: InferenceColumns, request: int) -> int:
    """A slot for a request of the trace, which is at the router then. The caller knows that one is free."""
    left = run.tally[FREE_SLOTS] - 1
    run.tally[FREE_SLOTS] = left
    run.tally[UNDER_WAY] += 1
    slot = run.unused[left]
    row, moment, trace = run.slot[slot], run.moment[slot], run.trace
    place = request - run.tally[BEFORE_TRACE]
    row[:] = 0
    moment[:] = math.nan
    row[REQUEST], row[PROMPT], row[OUTPUT] = request, trace.prompt[place], trace.output[place]
    row[ASKED_PROMPT], row[ASKED_OUTPUT] = row[PROMPT], row[OUTPUT]
    row[MODEL], row[SERVICE] = trace.model[place], trace.service[place]
    moment[ARRIVED] = trace.arrival[place]
    forget(run, slot)
    return int(slot)


@compiled
def note_start(run: InferenceColumns, slot: int, now: float) -> None:
    """Its prompt begins, for the first time unless it was lost since."""
    if not run.moment[slot, STARTED] >= 0.0:
        run.moment[slot, STARTED] = now
        run.counts[W_WAIT] += now - run.moment[slot, ARRIVED]
        run.counts[W_STARTED] += 1


@compiled
def forget(run: InferenceColumns, slot: int) -> None:
    """What the request had reached on instances: it begins (again) at the router."""
    row = run.slot[slot]
    row[PHASE], row[PROMPT_AT], row[TOKEN_AT], row[WAITS_AS] = AT_ROUTER, NOBODY, NOBODY, NOBODY
    row[KV], row[BLOCKED], row[PICKED], row[PROMPT_PREEMPTED], row[TOKEN_PREEMPTED] = 0, 0, 0, 0, 0
    row[LEFT], row[CONTEXT_OF], row[COMPUTED], row[SHARED] = row[OUTPUT] - 1, row[PROMPT], 0, 0
    row[PROMPT_BY], row[TOKEN_BY] = NOBODY, NOBODY


@compiled
def end(run: InferenceColumns, slot: int, status: int, now: float) -> None:
    """The request is over: its row is written and its slot is free. It holds nothing any more."""
    row, moment, log = run.slot[slot], run.moment[slot], run.log[run.tally[ROWS]]
    log[L_REQUEST], log[L_STATUS], log[L_ENDED] = row[REQUEST], status, now
    log[L_ARRIVAL], log[L_STARTED], log[L_FIRST] = moment[ARRIVED], moment[STARTED], moment[FIRST_TOKEN]
    log[L_SHIPPED], log[L_DECODING] = moment[SHIPPED], moment[DECODING]
    log[L_PROMPT_BY], log[L_TOKEN_BY] = row[PROMPT_BY], row[TOKEN_BY]
    log[L_PROMPT], log[L_OUTPUT] = row[ASKED_PROMPT], row[ASKED_OUTPUT]
    log[L_MODEL], log[L_SERVICE] = row[MODEL], row[SERVICE]
    log[L_PREEMPTIONS], log[L_LOSSES], log[L_FOUND] = row[PREEMPTIONS], row[LOSSES], row[FOUND]
    row[PHASE] = FREE
    run.unused[run.tally[FREE_SLOTS]] = slot
    run.tally[FREE_SLOTS] += 1
    run.tally[ROWS] += 1
    run.tally[UNDER_WAY] -= 1


@compiled
def bind(run: InferenceColumns, slot: int, prompt_at: int, token_at: int) -> None:
    """Both tasks of the request are bound to instances, and what they will take there is planned."""
    row = run.slot[slot]
    row[PROMPT_AT], row[PHASE], row[PROMPT_BY] = prompt_at, PREFILL, run.fleet[prompt_at, NUMBER]
    run.fleet[prompt_at, PLANNED_TOKENS] += row[PROMPT] * run.option[COUNTS_TOKENS]
    run.fleet[prompt_at, PROMPTS_TO_DO] += 1
    expect(run, slot, token_at)
    if prompt_at != token_at:
        _count_in(run, slot, prompt_at)


@compiled
def expect(run: InferenceColumns, slot: int, token_at: int) -> None:
    """The tokens of the request are bound to an instance."""
    run.slot[slot, TOKEN_AT], run.slot[slot, TOKEN_BY] = token_at, run.fleet[token_at, NUMBER]
    run.fleet[token_at, PLANNED_TOKENS] += run.option[COUNTS_TOKENS]
    run.fleet[token_at, TOKENS_TO_DO] += 1
    _count_in(run, slot, token_at)


@compiled
def _count_in(run: InferenceColumns, slot: int, instance: int) -> None:
    fleet = run.fleet[instance]
    fleet[PLANNED_MEMORY] += planned(run, instance, slot)
    fleet[BOUND] += 1
    run.tally[MOST_BOUND] = max(run.tally[MOST_BOUND], fleet[BOUND])


@compiled
def planned(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that the request will take on one of its instances in the end."""
    row = run.slot[slot]
    tokens = row[PROMPT] + (row[OUTPUT] if row[TOKEN_AT] == instance else 1)
    if run.fleet[instance, ENGINE] == CHUNKED:
        return pages(run, instance, tokens) * page_bytes(run, instance)
    return int(tokens * run.fleet[instance, KV_BYTES])


@compiled
def unbind(run: InferenceColumns, slot: int, instance: int, now: float) -> None:
    """The request leaves the instance with its KV memory."""
    run.fleet[instance, MEMORY] -= run.slot[slot, KV]
    if run.slot[slot, SHARED] > 0:
        release_blocks(run, instance, slot)
    count_out(run, slot, instance, now)


@compiled
def count_out(run: InferenceColumns, slot: int, instance: int, now: float) -> None:
    """One request less is bound to the instance.

    A draining instance that has nobody left stops, at the next look where it is looked at.
    """
    fleet = run.fleet[instance]
    fleet[PLANNED_MEMORY] -= planned(run, instance, slot)
    fleet[BOUND] -= 1
    if run.slot[slot, TOKEN_AT] == instance:
        fleet[TOKENS_TO_DO] -= 1
    if fleet[STATUS] == DRAINING and fleet[BOUND] == 0:
        life_at(run, instance, stopping_time(run, instance, now))


@compiled
def stopping_time(run: InferenceColumns, instance: int, now: float) -> float:
    """When somebody sees that the instance is empty."""
    every, since = run.rate[DRAIN_CHECK], run.figure[instance, DRAINED_SINCE]
    return now if every == 0.0 else since + math.ceil((now - since) / every) * every


@compiled
def prompt_need(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that a prompt takes when it starts; all of the request's where its tokens follow here."""
    row = run.slot[slot]
    tokens = row[PROMPT] + 1
    if run.option[RESERVES] and row[TOKEN_AT] == instance:
        tokens = row[PROMPT] + row[OUTPUT]
    return int(tokens * run.fleet[instance, KV_BYTES])


@compiled
def token_need(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that decoding takes when it starts, beside what the prompt left."""
    if run.option[RESERVES]:
        return 0
    return int((run.slot[slot, OUTPUT] - 1) * run.fleet[instance, KV_BYTES])


@compiled
def arriving_need(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that a transfer takes where it goes."""
    row = run.slot[slot]
    if run.fleet[instance, ENGINE] == CHUNKED:
        return pages(run, instance, row[PROMPT]) * page_bytes(run, instance)
    if not run.option[RESERVES]:
        return int(row[KV])
    return int((row[PROMPT] + row[OUTPUT]) * run.fleet[instance, KV_BYTES])


@compiled
def hold(run: InferenceColumns, instance: int, slot: int, amount: int) -> None:
    """The request holds so much more on the instance."""
    run.fleet[instance, MEMORY] += amount
    run.slot[slot, KV] += amount


@compiled
def fits(run: InferenceColumns, instance: int, amount: int) -> bool:
    """Whether the instance has so much room."""
    return bool(run.fleet[instance, MEMORY] + amount <= run.fleet[instance, CAPACITY])
