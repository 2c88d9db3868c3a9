"""Continuous batching with chunked prompts over paged KV memory: the engine CHUNKED, as vLLM does it.

An iteration has a budget of tokens. Every decoding request takes one; what is left goes to the prompt that is
under way, then to those that wait, first come first served, the last of them cut where the budget ends. KV
memory is taken page by page as tokens come. Where pages run out the request that came last is put back and
computes its KV anew later. Only where nobody computes a prompt are iterations run contiguously.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.allocation import note_start
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.continuous_batching import link_last, unlink, wait_as
from proreus.worlds.inference.simulation.heaps import decode, decode_no_more
from proreus.worlds.inference.simulation.iteration_time import IterationBatch
from proreus.worlds.inference.simulation.iterations import pause, run_for
from proreus.worlds.inference.simulation.lists import append, at, remove_at
from proreus.worlds.inference.simulation.paged_kv import (
    count_phase,
    empty_pages,
    free_pages,
    iterations_with,
    page_bytes,
    pages,
    pages_over,
    take_pages,
)
from proreus.worlds.inference.simulation.prefix_cache import (
    block_bytes,
    make_room,
    matching,
    release_blocks,
    shared_bytes,
    unused,
    use_blocks,
)


@compiled_inline
def request_arrives(run: InferenceColumns, instance: int, slot: int, now: float) -> bool:
    """With its prompt or with its KV; true: nothing runs there, `start_chunked` must be called."""
    run.moment[slot, c.QUEUED] = now
    if run.slot[slot, c.PHASE] == c.DECODE:
        run.slot[slot, c.COMPUTED] = run.slot[slot, c.PROMPT]
        wait_as(run, instance, slot, c.TOKEN_TASK)
    else:
        wait_as(run, instance, slot, c.PROMPT_TASK)
    if run.fleet[instance, c.BATCH] == 0:
        return True
    if run.fleet[instance, c.BATCH] < run.fleet[instance, c.BATCH_LIMIT]:
        pause(run, instance, now)
    return False


@compiled_inline
def start_chunked(run: InferenceColumns, instance: int, now: float) -> bool:
    """Fill the budget of an iteration and run it; false: there is nothing that could run."""
    preempted = fill(run, instance, now)
    if run.fleet[instance, c.BATCH] == 0:
        return False
    batch = batch_of(run, instance)
    run_for(run, instance, batch, most_iterations(run, instance, batch, preempted), now)
    fleet = run.fleet[instance]
    take_pages(run, instance, pages_over(run, instance, fleet[c.ITERATIONS], fleet[c.RUNNING]))
    return True


@compiled
def fill(run: InferenceColumns, instance: int, now: float) -> bool:
    """Fill the budget of an iteration; whether somebody was put back, or is to come in at the next one."""
    if run.fleet[instance, c.BATCH] == 0:
        run.fleet[instance, c.GONE], run.figure[instance, c.COMPOSED_AT] = 0, now
    preempted = _make_room_for_decoding(run, instance)
    decoding = pages_over(run, instance, run.fleet[instance, c.ITERATIONS], 1)
    make_room(run, instance, decoding * page_bytes(run, instance))
    budget = run.fleet[instance, c.TOKEN_LIMIT] - run.fleet[instance, c.DECODES]
    partial = run.fleet[instance, c.PARTIAL]
    run.fleet[instance, c.PARTIAL] = c.NOBODY
    if partial != c.NOBODY:
        chunk = min(target(run, partial) - run.slot[partial, c.COMPUTED], budget)
        if chunk == 0:
            run.fleet[instance, c.PARTIAL] = partial
        elif _take_chunk(run, instance, partial, chunk, 0):
            budget -= chunk
        else:
            _put_back(run, instance, partial)
            preempted = True
    if not preempted:
        _admit(run, instance, budget, now)
    if run.fleet[instance, c.BATCH] == 0 and run.waiting.size[instance] > 0:
        _drop_what_waits(run, instance)
        _admit(run, instance, budget, now)
    return preempted or _comes_in_next(run, instance)


@compiled
def _comes_in_next(run: InferenceColumns, instance: int) -> bool:
    """Whether somebody waits because this batch was composed before it came, or before there was a place."""
    fleet = run.fleet[instance]
    if not fleet[c.PLANS_AHEAD] or run.waiting.size[instance] == 0 or fleet[c.BATCH] == fleet[c.BATCH_LIMIT]:
        return False
    came = run.moment[at(run.waiting, instance, 0), c.QUEUED]
    return bool(fleet[c.GONE] > 0 or came > run.figure[instance, c.COMPOSED_AT])


@compiled
def _make_room_for_decoding(run: InferenceColumns, instance: int) -> bool:
    """Whoever came last is put back until every other decoding request has its page; whether anybody was."""
    preempted = False
    while pages_over(run, instance, run.fleet[instance, c.ITERATIONS], 1) > free_pages(run, instance):
        _put_back(run, instance, run.fleet[instance, c.LAST])
        preempted = True
    return preempted


@compiled
def _put_back(run: InferenceColumns, instance: int, slot: int) -> None:
    """Out of the batch, without its KV: it is computed anew."""
    row = run.slot[slot]
    if run.fleet[instance, c.PARTIAL] == slot:
        run.fleet[instance, c.PARTIAL] = c.NOBODY
    if row[c.PHASE] == c.DECODE and row[c.BLOCKED] == 0:
        stop_decoding(run, instance, slot)
        row[c.LEFT] = row[c.FINISH] - run.fleet[instance, c.ITERATIONS]
        row[c.BLOCKED] = 1
    unlink(run, instance, slot)
    row[c.PREEMPTIONS] += 1
    _drop_kv(run, instance, slot)
    wait_as(run, instance, slot, c.TOKEN_TASK if row[c.PHASE] == c.DECODE else c.PROMPT_TASK)


@compiled
def _drop_kv(run: InferenceColumns, instance: int, slot: int) -> None:
    take_pages(run, instance, -(run.slot[slot, c.KV] // page_bytes(run, instance)))
    if run.slot[slot, c.SHARED] > 0:
        release_blocks(run, instance, slot)
    run.slot[slot, c.KV], run.slot[slot, c.COMPUTED] = 0, 0


@compiled
def stop_decoding(run: InferenceColumns, instance: int, slot: int) -> None:
    """It decodes no more; its KV is what its tokens take."""
    decode_no_more(run, instance, slot)
    count_phase(run, instance, slot, -1)
    row = run.slot[slot]
    row[c.CONTEXT_OF] += run.fleet[instance, c.ITERATIONS]
    run.fleet[instance, c.CONTEXT] -= row[c.CONTEXT_OF]
    row[c.KV] = pages(run, instance, row[c.CONTEXT_OF]) * page_bytes(run, instance)
    row[c.KV] -= shared_bytes(run, instance, slot)


@compiled
def start_decoding(run: InferenceColumns, instance: int, slot: int, now: float) -> None:
    """All that it knows is computed: one token an iteration from now on."""
    row, iterations = run.slot[slot], run.fleet[instance, c.ITERATIONS]
    row[c.PHASE], row[c.BLOCKED] = c.DECODE, 0
    if not run.moment[slot, c.DECODING] >= 0.0:
        run.moment[slot, c.DECODING] = now
    run.fleet[instance, c.CONTEXT] += row[c.COMPUTED]
    row[c.CONTEXT_OF], row[c.FINISH] = row[c.COMPUTED] - iterations, iterations + row[c.LEFT]
    decode(run, instance, slot)
    count_phase(run, instance, slot, 1)


@compiled
def target(run: InferenceColumns, slot: int) -> int:
    """Tokens to compute before the next one comes: the prompt, and what it had generated when put back."""
    row = run.slot[slot]
    return int(row[c.PROMPT] + (row[c.OUTPUT] - row[c.LEFT] if row[c.BLOCKED] else 0))


@compiled
def _take_chunk(run: InferenceColumns, instance: int, slot: int, chunk: int, known: int) -> bool:
    """So many tokens of the request are computed in this iteration; false: there are no pages for them.

    `known`: blocks before them that the prefix cache has; those that nobody uses become memory in use.
    """
    needed = _pages_needed(run, instance, slot, chunk, known)
    if not _fits(run, instance, slot, needed, known):
        return False
    row, page = run.slot[slot], page_bytes(run, instance)
    decoding = pages_over(run, instance, run.fleet[instance, c.ITERATIONS], 1)
    if known > 0:
        use_blocks(run, instance, slot, known)
        row[c.COMPUTED] = known * run.option[c.BLOCK_TOKENS]
    take_pages(run, instance, needed)
    make_room(run, instance, decoding * page)
    row[c.KV] += needed * page
    row[c.CHUNK] = chunk
    append(run.prefilling, instance, slot)
    return True


@compiled
def _pages_needed(run: InferenceColumns, instance: int, slot: int, tokens: int, known: int) -> int:
    """For so many further tokens of the request, behind the blocks that the prefix cache has."""
    row, page = run.slot[slot], page_bytes(run, instance)
    before = (row[c.KV] + shared_bytes(run, instance, slot) + known * block_bytes(run, instance)) // page
    return int(pages(run, instance, row[c.COMPUTED] + known * run.option[c.BLOCK_TOKENS] + tokens) - before)


@compiled
def _fits(run: InferenceColumns, instance: int, slot: int, needed: int, known: int) -> bool:
    """Whether so many pages are free beside those that decoding takes in this iteration."""
    woken = 0
    if known > 0:
        woken = unused(run, instance, slot, known) * block_bytes(run, instance) // page_bytes(run, instance)
    decoding = pages_over(run, instance, run.fleet[instance, c.ITERATIONS], 1)
    return bool(needed + woken + decoding <= free_pages(run, instance))


@compiled
def _may_come_in(run: InferenceColumns, instance: int, slot: int, left: int, known: int) -> bool:
    """Where prompts are let in whole: whether there are pages for all that is to be computed.

    A prompt of which only the beginning fits would take the pages that others decode into. Who is alone is
    let in: nobody is there whose end could make more room.
    """
    if not run.fleet[instance, c.WHOLE_PROMPTS] or run.fleet[instance, c.BATCH] == 0:
        return True
    return _fits(run, instance, slot, _pages_needed(run, instance, slot, left, known), known)


@compiled
def _admit(run: InferenceColumns, instance: int, budget: int, now: float) -> None:
    """Whoever waits, first come first served, while there is budget and memory."""
    while (
        budget > 0
        and run.waiting.size[instance] > 0
        and run.fleet[instance, c.BATCH] + run.fleet[instance, c.GONE] < run.fleet[instance, c.BATCH_LIMIT]
    ):
        slot = at(run.waiting, instance, 0)
        if (
            run.fleet[instance, c.PLANS_AHEAD]
            and run.moment[slot, c.QUEUED] > run.figure[instance, c.COMPOSED_AT]
        ):
            return
        known = _known(run, instance, slot)
        left = target(run, slot) - run.slot[slot, c.COMPUTED] - known * run.option[c.BLOCK_TOKENS]
        if left == 0:  # its KV has come from elsewhere
            needed = 1 if run.slot[slot, c.COMPUTED] % run.fleet[instance, c.BLOCK] == 0 else 0
            decoding = pages_over(run, instance, run.fleet[instance, c.ITERATIONS], 1)
            if needed + decoding > free_pages(run, instance):
                return
            start_decoding(run, instance, slot, now)
            budget -= 1
        else:
            if not _may_come_in(run, instance, slot, left, known):
                return
            if not _take_chunk(run, instance, slot, min(left, budget), known):
                return
            budget -= min(left, budget)
            if not run.moment[slot, c.STARTED] >= 0.0:
                run.slot[slot, c.FOUND] = known * run.option[c.BLOCK_TOKENS]
        remove_at(run.waiting, instance, 0)
        run.slot[slot, c.WAITS_AS] = c.NOBODY
        link_last(run, instance, slot)
        note_start(run, slot, now)


@compiled
def _known(run: InferenceColumns, instance: int, slot: int) -> int:
    """Blocks that need not be computed; a token is always left that the next one can follow from."""
    if not run.fleet[instance, c.CACHES] or run.slot[slot, c.COMPUTED] > 0:
        return 0
    return matching(run, instance, slot, target(run, slot) - 1)


@compiled
def _drop_what_waits(run: InferenceColumns, instance: int) -> None:
    """Nobody runs and the first who waits finds no page: those behind it give up the KV that they brought."""
    for place in range(run.waiting.size[instance] - 1, 0, -1):
        slot = at(run.waiting, instance, place)
        if run.slot[slot, c.KV] > 0:
            run.slot[slot, c.BLOCKED] = run.slot[slot, c.PHASE] == c.DECODE
            run.slot[slot, c.PREEMPTIONS] += 1
            _drop_kv(run, instance, slot)


@compiled
def batch_of(run: InferenceColumns, instance: int) -> IterationBatch:
    """What the next iteration computes."""
    tokens, behind = 0, 0.0
    for place in range(run.prefilling.size[instance]):
        row = run.slot[at(run.prefilling, instance, place)]
        tokens += row[c.CHUNK]
        behind += float(row[c.CHUNK]) * row[c.COMPUTED]
    fleet = run.fleet[instance]
    return IterationBatch(tokens, behind / max(tokens, 1), fleet[c.DECODES], fleet[c.CONTEXT], fleet[c.BATCH])


@compiled
def most_iterations(run: InferenceColumns, instance: int, batch: IterationBatch, preempted: bool) -> int:
    """Where somebody was put back, those who wait are looked at again after one iteration."""
    if batch.prompt_tokens or preempted:
        return 1
    if run.fleet[instance, c.CACHES]:  # cached blocks give way when their memory is needed, not before
        return max(iterations_with(run, instance, empty_pages(run, instance), 1 << 40), 1)
    return iterations_with(run, instance, free_pages(run, instance), 1 << 40)
