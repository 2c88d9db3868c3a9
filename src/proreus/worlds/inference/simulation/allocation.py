"""What a request takes and gives back: a slot, KV memory, its bond to instances, a row of the log."""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.heaps import life_at
from proreus.worlds.inference.simulation.paged_kv import page_bytes, pages
from proreus.worlds.inference.simulation.prefix_cache import release_blocks


@compiled
def take_slot(run: InferenceColumns, request: int) -> int:
    """A slot for a request of the trace, which is at the router then. The caller knows that one is free."""
    left = run.tally[c.FREE_SLOTS] - 1
    run.tally[c.FREE_SLOTS] = left
    run.tally[c.UNDER_WAY] += 1
    slot = run.unused[left]
    row, moment, trace = run.slot[slot], run.moment[slot], run.trace
    place = request - run.tally[c.BEFORE_TRACE]
    row[:] = 0
    moment[:] = math.nan
    row[c.REQUEST], row[c.PROMPT], row[c.OUTPUT] = request, trace.prompt[place], trace.output[place]
    row[c.ASKED_PROMPT], row[c.ASKED_OUTPUT] = row[c.PROMPT], row[c.OUTPUT]
    row[c.MODEL], row[c.SERVICE] = trace.model[place], trace.service[place]
    moment[c.ARRIVED] = trace.arrival[place]
    forget(run, slot)
    return int(slot)


@compiled
def note_start(run: InferenceColumns, slot: int, now: float) -> None:
    """Its prompt begins, for the first time unless it was lost since."""
    if not run.moment[slot, c.STARTED] >= 0.0:
        run.moment[slot, c.STARTED] = now
        run.counts[c.W_WAIT] += now - run.moment[slot, c.ARRIVED]
        run.counts[c.W_STARTED] += 1


@compiled
def forget(run: InferenceColumns, slot: int) -> None:
    """What the request had reached on instances: it begins (again) at the router."""
    row = run.slot[slot]
    row[c.PHASE], row[c.PROMPT_AT], row[c.TOKEN_AT], row[c.WAITS_AS] = (
        c.AT_ROUTER,
        c.NOBODY,
        c.NOBODY,
        c.NOBODY,
    )
    row[c.KV], row[c.BLOCKED], row[c.PICKED], row[c.PROMPT_PREEMPTED], row[c.TOKEN_PREEMPTED] = 0, 0, 0, 0, 0
    row[c.LEFT], row[c.CONTEXT_OF], row[c.COMPUTED], row[c.SHARED] = row[c.OUTPUT] - 1, row[c.PROMPT], 0, 0
    row[c.PROMPT_BY], row[c.TOKEN_BY] = c.NOBODY, c.NOBODY


@compiled
def end(run: InferenceColumns, slot: int, status: int, now: float) -> None:
    """The request is over: its row is written and its slot is free. It holds nothing any more."""
    row, moment, log = run.slot[slot], run.moment[slot], run.log[run.tally[c.ROWS]]
    log[c.L_REQUEST], log[c.L_STATUS], log[c.L_ENDED] = row[c.REQUEST], status, now
    log[c.L_ARRIVAL], log[c.L_STARTED], log[c.L_FIRST] = (
        moment[c.ARRIVED],
        moment[c.STARTED],
        moment[c.FIRST_TOKEN],
    )
    log[c.L_SHIPPED], log[c.L_DECODING] = moment[c.SHIPPED], moment[c.DECODING]
    log[c.L_PROMPT_BY], log[c.L_TOKEN_BY] = row[c.PROMPT_BY], row[c.TOKEN_BY]
    log[c.L_PROMPT], log[c.L_OUTPUT] = row[c.ASKED_PROMPT], row[c.ASKED_OUTPUT]
    log[c.L_MODEL], log[c.L_SERVICE] = row[c.MODEL], row[c.SERVICE]
    log[c.L_PREEMPTIONS], log[c.L_LOSSES], log[c.L_FOUND] = row[c.PREEMPTIONS], row[c.LOSSES], row[c.FOUND]
    row[c.PHASE] = c.FREE
    run.unused[run.tally[c.FREE_SLOTS]] = slot
    run.tally[c.FREE_SLOTS] += 1
    run.tally[c.ROWS] += 1
    run.tally[c.UNDER_WAY] -= 1


@compiled
def bind(run: InferenceColumns, slot: int, prompt_at: int, token_at: int) -> None:
    """Both tasks of the request are bound to instances, and what they will take there is planned."""
    row = run.slot[slot]
    row[c.PROMPT_AT], row[c.PHASE], row[c.PROMPT_BY] = prompt_at, c.PREFILL, run.fleet[prompt_at, c.NUMBER]
    run.fleet[prompt_at, c.PLANNED_TOKENS] += row[c.PROMPT] * run.option[c.COUNTS_TOKENS]
    run.fleet[prompt_at, c.PROMPTS_TO_DO] += 1
    expect(run, slot, token_at)
    if prompt_at != token_at:
        _count_in(run, slot, prompt_at)


@compiled
def expect(run: InferenceColumns, slot: int, token_at: int) -> None:
    """The tokens of the request are bound to an instance."""
    run.slot[slot, c.TOKEN_AT], run.slot[slot, c.TOKEN_BY] = token_at, run.fleet[token_at, c.NUMBER]
    run.fleet[token_at, c.PLANNED_TOKENS] += run.option[c.COUNTS_TOKENS]
    run.fleet[token_at, c.TOKENS_TO_DO] += 1
    _count_in(run, slot, token_at)


@compiled
def _count_in(run: InferenceColumns, slot: int, instance: int) -> None:
    fleet = run.fleet[instance]
    fleet[c.PLANNED_MEMORY] += planned(run, instance, slot)
    fleet[c.BOUND] += 1
    run.tally[c.MOST_BOUND] = max(run.tally[c.MOST_BOUND], fleet[c.BOUND])


@compiled
def planned(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that the request will take on one of its instances in the end."""
    row = run.slot[slot]
    tokens = row[c.PROMPT] + (row[c.OUTPUT] if row[c.TOKEN_AT] == instance else 1)
    if run.fleet[instance, c.ENGINE] == c.CHUNKED:
        return pages(run, instance, tokens) * page_bytes(run, instance)
    return int(tokens * run.fleet[instance, c.KV_BYTES])


@compiled
def unbind(run: InferenceColumns, slot: int, instance: int, now: float) -> None:
    """The request leaves the instance with its KV memory."""
    run.fleet[instance, c.MEMORY] -= run.slot[slot, c.KV]
    if run.slot[slot, c.SHARED] > 0:
        release_blocks(run, instance, slot)
    count_out(run, slot, instance, now)


@compiled
def count_out(run: InferenceColumns, slot: int, instance: int, now: float) -> None:
    """One request less is bound to the instance.

    A draining instance that has nobody left stops, at the next look where it is looked at.
    """
    fleet = run.fleet[instance]
    fleet[c.PLANNED_MEMORY] -= planned(run, instance, slot)
    fleet[c.BOUND] -= 1
    if run.slot[slot, c.TOKEN_AT] == instance:
        fleet[c.TOKENS_TO_DO] -= 1
    if fleet[c.STATUS] == c.DRAINING and fleet[c.BOUND] == 0:
        life_at(run, instance, stopping_time(run, instance, now))


@compiled
def stopping_time(run: InferenceColumns, instance: int, now: float) -> float:
    """When somebody sees that the instance is empty."""
    every, since = run.rate[c.DRAIN_CHECK], run.figure[instance, c.DRAINED_SINCE]
    return now if every == 0.0 else since + math.ceil((now - since) / every) * every


@compiled
def prompt_need(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that a prompt takes when it starts; all of the request's where its tokens follow here."""
    row = run.slot[slot]
    tokens = row[c.PROMPT] + 1
    if run.option[c.RESERVES] and row[c.TOKEN_AT] == instance:
        tokens = row[c.PROMPT] + row[c.OUTPUT]
    return int(tokens * run.fleet[instance, c.KV_BYTES])


@compiled
def token_need(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that decoding takes when it starts, beside what the prompt left."""
    if run.option[c.RESERVES]:
        return 0
    return int((run.slot[slot, c.OUTPUT] - 1) * run.fleet[instance, c.KV_BYTES])


@compiled
def arriving_need(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory that a transfer takes where it goes."""
    row = run.slot[slot]
    if run.fleet[instance, c.ENGINE] == c.CHUNKED:
        return pages(run, instance, row[c.PROMPT]) * page_bytes(run, instance)
    if not run.option[c.RESERVES]:
        return int(row[c.KV])
    return int((row[c.PROMPT] + row[c.OUTPUT]) * run.fleet[instance, c.KV_BYTES])


@compiled
def hold(run: InferenceColumns, instance: int, slot: int, amount: int) -> None:
    """The request holds so much more on the instance."""
    run.fleet[instance, c.MEMORY] += amount
    run.slot[slot, c.KV] += amount


@compiled
def fits(run: InferenceColumns, instance: int, amount: int) -> bool:
    """Whether the instance has so much room."""
    return bool(run.fleet[instance, c.MEMORY] + amount <= run.fleet[instance, c.CAPACITY])
