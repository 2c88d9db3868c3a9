"""Continuous batching with whole prompts: the engines ORCA and SPLITWISE.

An instance runs *contiguous iterations*: where its batch only decodes, one event stands for all iterations
until a request of the batch is done. Whoever arrives and fits makes it stop at the next boundary. Nothing is
done for each request of a batch in between: a request knows the iteration that ends it, a heap who is next,
and a request that waits counts its preemptions by the starts of batches since it began to wait.

A batch is selected anew at every start, by SPLITWISE in this order: who was passed over too often, prompts
first come first served, who was preempted, the batch as it was, everybody else by arrival. What does not fit
the limits any more is preempted from the end of the batch.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.allocation import fits, hold, note_start, prompt_need, token_need
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.heaps import decode, decode_no_more
from proreus.worlds.inference.simulation.iterations import pause, run_batch
from proreus.worlds.inference.simulation.lists import append, at, insert, remove


@compiled_inline
def task_arrives(run: InferenceColumns, instance: int, task: int, now: float) -> bool:
    """A task comes to the instance; true: nothing runs there and something could, `start` must be called."""
    slot, kind = task >> 1, task & 1
    if kind == c.PROMPT_TASK or run.slot[slot, c.PHASE] == c.DECODE:
        wait_as(run, instance, slot, kind)
    _add_pending(run, instance, task)
    fleet = run.fleet[instance]
    if fleet[c.BATCH] == 0:
        return bool(run.option[c.RESERVES] or fits(run, instance, task_need(run, instance, task)))
    tokens, in_prompts = _tokens(run, task), fleet[c.BATCH_TOKENS] - fleet[c.DECODES]
    if fleet[c.BATCH] < fleet[c.BATCH_LIMIT] and fleet[c.BATCH_TOKENS] + tokens <= fleet[c.TOKEN_LIMIT]:
        pause(run, instance, now)
    elif kind == c.PROMPT_TASK and fleet[c.DECODES] > 0 and in_prompts + tokens <= fleet[c.TOKEN_LIMIT]:
        pause(run, instance, now)  # decoding makes way for it
    return False


@compiled_inline
def room_was_freed(run: InferenceColumns, instance: int, now: float) -> bool:
    """KV memory was given back from outside; true: `start` must be called."""
    if run.pending.size[instance] == 0:
        return False
    fleet = run.fleet[instance]
    if fleet[c.BATCH] == 0:
        need = task_need(run, instance, at(run.pending, instance, 0))
        return bool(run.option[c.RESERVES] or fits(run, instance, need))
    if fleet[c.BATCH] < fleet[c.BATCH_LIMIT] and fleet[c.BATCH_TOKENS] < fleet[c.TOKEN_LIMIT]:
        pause(run, instance, now)
    return False


@compiled
def task_need(run: InferenceColumns, instance: int, task: int) -> int:
    """KV memory that the task takes when it starts."""
    if task & 1 == c.PROMPT_TASK:
        return prompt_need(run, instance, task >> 1)
    return token_need(run, instance, task >> 1)


@compiled_inline
def start(run: InferenceColumns, instance: int, now: float) -> bool:
    """Select a batch and run it; false: there is nothing that could run."""
    fresh, kept = (
        _select_orca(run, instance) if run.fleet[instance, c.ENGINE] == c.ORCA else _select(run, instance)
    )
    _preempt_beyond(run, instance, kept)
    for place in range(fresh):
        _enter(run, instance, run.picked[place], now)
    run.fleet[instance, c.STARTS] += 1
    if run.fleet[instance, c.BATCH] == 0:
        return False
    run_batch(run, instance, now)
    return True


@compiled
def _select_orca(run: InferenceColumns, instance: int) -> tuple[int, int]:
    """First come first served, until one does not fit; who has its memory already passes it by."""
    fleet = run.fleet[instance]
    room, memory, fresh, full = fleet[c.BATCH_LIMIT] - fleet[c.BATCH], fleet[c.MEMORY], 0, False
    for place in range(run.waiting.size[instance]):
        if fresh == room:
            break
        slot = at(run.waiting, instance, place)
        task = 2 * slot + run.slot[slot, c.WAITS_AS]
        need = task_need(run, instance, task)
        if (full and need > 0) or memory + need > fleet[c.CAPACITY]:
            if not run.option[c.RESERVES]:
                break
            full = True
            continue
        run.picked[fresh] = task
        memory += need
        fresh += 1
    return fresh, int(fleet[c.BATCH])


@compiled
def _select(run: InferenceColumns, instance: int) -> tuple[int, int]:
    """(how many tasks of `picked` enter the batch, how many of those in it stay)."""
    fleet = run.fleet[instance]
    old, limit = fleet[c.BATCH], fleet[c.BATCH_LIMIT]
    chosen = (0, 0, fleet[c.MEMORY])  # tasks, their tokens, KV memory with them
    for place in range(run.pending.size[instance]):  # those who were passed over too often
        task = at(run.pending, instance, place)
        if _passed_over(run, instance, task) < fleet[c.PREEMPTION_LIMIT] or chosen[0] == limit:
            break
        if _too_many_tokens(run, instance, task, chosen):
            break
        chosen = _pick(run, instance, task, chosen)
    for place in range(run.prompts.size[instance]):
        task = 2 * at(run.prompts, instance, place) + c.PROMPT_TASK
        if chosen[0] == limit or _too_many_tokens(run, instance, task, chosen):
            break
        if run.slot[task >> 1, c.PICKED]:
            continue
        before = chosen[0]
        chosen = _pick(run, instance, task, chosen)
        if chosen[0] == before:
            break
    for place in range(run.blocked.size[instance]):
        task = 2 * at(run.blocked, instance, place) + c.TOKEN_TASK
        if chosen[0] == limit or _too_many_tokens(run, instance, task, chosen):
            break
        chosen = _pick(run, instance, task, chosen)
    kept = min(old, limit - chosen[0])
    if kept > 0:  # the first of a batch may have any number of tokens
        free = fleet[c.TOKEN_LIMIT] - chosen[1]
        kept = min(kept, max(free, 0 if chosen[0] else 1))
    size, tokens, memory = chosen[0] + kept, chosen[1] + kept, chosen[2]
    full = False
    for place in range(run.waiting.size[instance]):  # everybody else
        if size == limit:
            break
        slot = at(run.waiting, instance, place)
        task = 2 * slot + run.slot[slot, c.WAITS_AS]
        if run.slot[slot, c.PICKED] or (full and task_need(run, instance, task) > 0):
            continue
        if _too_many_tokens(run, instance, task, (size, tokens, memory)):
            break
        before = chosen[0]
        chosen = _pick(run, instance, task, (chosen[0], tokens, memory))
        if chosen[0] == before:
            if not run.option[c.RESERVES]:
                break
            full = True  # who has its memory already passes it by
            continue
        size, tokens, memory = size + 1, chosen[1], chosen[2]
    fleet[c.BATCH_TOKENS] = tokens
    return chosen[0], kept


@compiled
def _too_many_tokens(run: InferenceColumns, instance: int, task: int, chosen: tuple[int, int, int]) -> bool:
    return bool(chosen[0] > 0 and chosen[1] + _tokens(run, task) > run.fleet[instance, c.TOKEN_LIMIT])


@compiled
def _pick(
    run: InferenceColumns, instance: int, task: int, chosen: tuple[int, int, int]
) -> tuple[int, int, int]:
    """The selection with the task, unless its request is in it already or there is no KV memory for it."""
    slot = task >> 1
    if run.slot[slot, c.PICKED]:
        return chosen
    memory = chosen[2]
    if not run.slot[slot, c.BLOCKED]:
        memory += task_need(run, instance, task)
        if memory > run.fleet[instance, c.CAPACITY]:
            return chosen
    run.slot[slot, c.PICKED] = 1
    run.picked[chosen[0]] = task
    return chosen[0] + 1, chosen[1] + _tokens(run, task), memory


@compiled
def _preempt_beyond(run: InferenceColumns, instance: int, kept: int) -> None:
    """All of the batch but so many of its first are put back, in their order."""
    gone = run.fleet[instance, c.BATCH] - kept
    if gone == 0:
        return
    slot = run.fleet[instance, c.LAST]
    for _ in range(gone - 1):
        slot = run.slot[slot, c.PREVIOUS]
    for _ in range(gone):
        after = run.slot[slot, c.NEXT]
        leave_batch(run, instance, slot)
        run.slot[slot, c.LEFT] = run.slot[slot, c.FINISH] - run.fleet[instance, c.ITERATIONS]
        run.slot[slot, c.BLOCKED] = 1
        run.slot[slot, c.PREEMPTIONS] += 1
        wait_as(run, instance, slot, c.TOKEN_TASK)
        _add_pending(run, instance, 2 * slot + c.TOKEN_TASK)
        append(run.blocked, instance, slot)
        slot = after


@compiled
def leave_batch(run: InferenceColumns, instance: int, slot: int) -> None:
    """A decoding request leaves the batch, done or not."""
    decode_no_more(run, instance, slot)
    fleet, row = run.fleet[instance], run.slot[slot]
    row[c.CONTEXT_OF] += fleet[c.ITERATIONS]  # it was kept as if the instance had never iterated
    fleet[c.CONTEXT] -= row[c.CONTEXT_OF]
    unlink(run, instance, slot)


@compiled
def unlink(run: InferenceColumns, instance: int, slot: int) -> None:
    """Out of the order of the batch."""
    fleet, before, after = run.fleet[instance], run.slot[slot, c.PREVIOUS], run.slot[slot, c.NEXT]
    if before == c.NOBODY:
        fleet[c.FIRST] = after
    else:
        run.slot[before, c.NEXT] = after
    if after == c.NOBODY:
        fleet[c.LAST] = before
    else:
        run.slot[after, c.PREVIOUS] = before
    fleet[c.BATCH] -= 1


@compiled
def link_last(run: InferenceColumns, instance: int, slot: int) -> None:
    """Behind the batch."""
    fleet, row = run.fleet[instance], run.slot[slot]
    if fleet[c.BATCH] == 0:
        fleet[c.FIRST] = slot
    else:
        run.slot[fleet[c.LAST], c.NEXT] = slot
    row[c.PREVIOUS], row[c.NEXT] = fleet[c.LAST] if fleet[c.BATCH] else c.NOBODY, c.NOBODY
    fleet[c.LAST] = slot
    fleet[c.BATCH] += 1


@compiled
def _enter(run: InferenceColumns, instance: int, task: int, now: float) -> None:
    """A selected task enters the batch; where it starts, it takes its KV memory."""
    slot, kind, row = task >> 1, task & 1, run.slot[task >> 1]
    remove(run.pending, instance, task)
    remove(run.waiting, instance, slot)
    waited = run.fleet[instance, c.STARTS] - row[c.SINCE]
    row[c.WAITS_AS], row[c.PICKED] = c.NOBODY, 0
    if kind == c.PROMPT_TASK:
        remove(run.prompts, instance, slot)
        row[c.PROMPT_PREEMPTED] += waited
        note_start(run, slot, now)
        hold(run, instance, slot, prompt_need(run, instance, slot))
        append(run.prefilling, instance, slot)
        link_last(run, instance, slot)
        return
    row[c.TOKEN_PREEMPTED] += waited
    if row[c.BLOCKED]:
        remove(run.blocked, instance, slot)
        row[c.BLOCKED] = 0
    else:
        run.moment[slot, c.DECODING] = now
        hold(run, instance, slot, token_need(run, instance, slot))
    link_last(run, instance, slot)
    row[c.FINISH] = run.fleet[instance, c.ITERATIONS] + row[c.LEFT]
    run.fleet[instance, c.CONTEXT] += row[c.CONTEXT_OF]
    row[c.CONTEXT_OF] -= run.fleet[instance, c.ITERATIONS]
    decode(run, instance, slot)


@compiled
def wait_as(run: InferenceColumns, instance: int, slot: int, kind: int) -> None:
    """The request waits on the instance for a place in the batch, among the others by arrival."""
    run.slot[slot, c.WAITS_AS], run.slot[slot, c.SINCE] = kind, run.fleet[instance, c.STARTS]
    low, high = 0, run.waiting.size[instance]
    while low < high:
        middle = (low + high) // 2
        if _came_before(run, slot, at(run.waiting, instance, middle)):
            high = middle
        else:
            low = middle + 1
    insert(run.waiting, instance, low, slot)


@compiled
def _came_before(run: InferenceColumns, one: int, other: int) -> bool:
    first, second = run.moment[one, c.ARRIVED], run.moment[other, c.ARRIVED]
    return bool(first < second or (first == second and run.slot[one, c.REQUEST] < run.slot[other, c.REQUEST]))


@compiled
def _add_pending(run: InferenceColumns, instance: int, task: int) -> None:
    """By how often it was passed over, then by arrival, after its equals; ORCA: at the end."""
    if task & 1 == c.PROMPT_TASK:
        append(run.prompts, instance, task >> 1)
    if run.fleet[instance, c.ENGINE] == c.ORCA:
        append(run.pending, instance, task)
        return
    passed, arrived = _passed_over(run, instance, task), run.moment[task >> 1, c.ARRIVED]
    low, high = 0, run.pending.size[instance]
    while low < high:
        middle = (low + high) // 2
        there = at(run.pending, instance, middle)
        theirs = _passed_over(run, instance, there)
        if passed < theirs or (passed == theirs and arrived < run.moment[there >> 1, c.ARRIVED]):
            high = middle
        else:
            low = middle + 1
    insert(run.pending, instance, low, task)


@compiled
def _passed_over(run: InferenceColumns, instance: int, task: int) -> int:
    """How many starts of batches left the task out while its request waited for it."""
    row, kind = run.slot[task >> 1], task & 1
    counted = row[c.PROMPT_PREEMPTED] if kind == c.PROMPT_TASK else row[c.TOKEN_PREEMPTED]
    return (
        int(counted + run.fleet[instance, c.STARTS] - row[c.SINCE])
        if row[c.WAITS_AS] == kind
        else int(counted)
    )


@compiled
def _tokens(run: InferenceColumns, task: int) -> int:
    return int(run.slot[task >> 1, c.PROMPT]) if task & 1 == c.PROMPT_TASK else 1
