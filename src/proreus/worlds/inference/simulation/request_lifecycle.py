"""A request on its way: from the router to its prompt, its KV, its tokens, its end."""

from __future__ import annotations

from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.allocation import (
    arriving_need,
    bind,
    end,
    expect,
    forget,
    unbind,
)
from proreus.worlds.inference.simulation.chunked_prefill import (
    request_arrives,
    start_chunked,
    start_decoding,
    stop_decoding,
    target,
)
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.continuous_batching import (
    leave_batch,
    room_was_freed,
    start,
    task_arrives,
    unlink,
    wait_as,
)
from proreus.worlds.inference.simulation.expert_parallel import start_in_step
from proreus.worlds.inference.simulation.heaps import no_run, no_transfer, runs
from proreus.worlds.inference.simulation.iterations import count_iterations, pause
from proreus.worlds.inference.simulation.lists import append, at, remove_at
from proreus.worlds.inference.simulation.lockstep_groups import first_fellow, in_step
from proreus.worlds.inference.simulation.prefix_cache import keep_blocks
from proreus.worlds.inference.simulation.router import another_for_tokens, choose, give_back, return_home
from proreus.worlds.inference.simulation.transfers import end_flow, look_for_circle, ship, ship_what_fits


@compiled
def route(run: InferenceColumns, slot: int, now: float) -> bool:
    """To its instances; false: it has to wait at the router. One that no instance could hold is rejected."""
    prompt_at, token_at = choose(run, slot)
    if prompt_at == c.NOBODY:
        return False
    if run.slot[slot, c.OUTPUT] == 1:
        token_at = prompt_at  # its only token comes from the prompt
    if _too_large(run, slot, prompt_at) or _too_large(run, slot, token_at):
        end(run, slot, c.REJECTED, now)
        return True
    bind(run, slot, prompt_at, token_at)
    _arrive(run, prompt_at, 2 * slot + c.PROMPT_TASK, now)
    chained = token_at == prompt_at and run.slot[slot, c.OUTPUT] > 1
    if chained and run.fleet[prompt_at, c.ENGINE] != c.CHUNKED:
        _arrive(run, prompt_at, 2 * slot + c.TOKEN_TASK, now)
    return True


@compiled
def _too_large(run: InferenceColumns, slot: int, instance: int) -> bool:
    fleet, row = run.fleet[instance], run.slot[slot]
    tokens = row[c.PROMPT] + row[c.OUTPUT] + (fleet[c.BLOCK] if fleet[c.ENGINE] == c.CHUNKED else 0)
    return bool(fleet[c.WEIGHTS] + tokens * fleet[c.KV_BYTES] > fleet[c.CAPACITY])


@compiled
def wait_at_router(run: InferenceColumns, slot: int, now: float) -> None:
    """Nobody is there who could take it; it is rejected where too many wait already."""
    if run.routed.size[0] >= run.option[c.ROUTER_LIMIT]:
        end(run, slot, c.REJECTED, now)
    else:
        run.slot[slot, c.PHASE] = c.AT_ROUTER
        append(run.routed, 0, slot)


@compiled_inline
def route_one_who_waits(run: InferenceColumns, now: float) -> None:
    """The next of those at the router goes, if it can; ROUTING says who that is."""
    place = run.tally[c.ROUTING]
    if place >= run.routed.size[0]:
        run.tally[c.ROUTING] = c.NOBODY
        return
    slot = at(run.routed, 0, place)
    if run.slot[slot, c.LOSSES] > run.option[c.MOST_LOSSES]:
        remove_at(run.routed, 0, place)
        end(run, slot, c.LOST, now)
    elif route(run, slot, now):
        remove_at(run.routed, 0, place)
    else:
        run.tally[c.ROUTING] = place + 1


@compiled
def begin_again(run: InferenceColumns, slot: int) -> None:
    """What an instance had of it is lost: the request goes back to the router."""
    run.slot[slot, c.LOSSES] += 1
    forget(run, slot)
    append(run.routed, 0, slot)
    run.tally[c.ROUTING] = 0


@compiled
def ship_to_another(run: InferenceColumns, slot: int, now: float) -> bool:
    """Its KV is ready, and the instance that it was bound to is lost: to another one, or all over again.

    False: the latter, and its KV memory is free.
    """
    here = run.slot[slot, c.PROMPT_AT]
    there = another_for_tokens(run, slot)
    if there == c.NOBODY:
        unbind(run, slot, here, now)
        begin_again(run, slot)
        return False
    expect(run, slot, there)
    ship(run, slot, now)
    return True


@compiled
def _arrive(run: InferenceColumns, instance: int, task: int, now: float) -> None:
    if run.fleet[instance, c.ENGINE] == c.CHUNKED:
        starts = request_arrives(run, instance, task >> 1, now)
    else:
        starts = task_arrives(run, instance, task, now)
    if starts:
        _go_on(run, instance, now)


@compiled
def _go_on(run: InferenceColumns, instance: int, now: float) -> None:
    """Run a batch, or fall idle."""
    if in_step(run, instance):
        _go_on_in_step(run, instance, now)
        return
    chunked = run.fleet[instance, c.ENGINE] == c.CHUNKED
    if not (start_chunked(run, instance, now) if chunked else start(run, instance, now)):
        no_run(run, instance)
        look_for_circle(run, instance)
        if run.waiting.size[instance] == 0:
            return_home(run, instance)


@compiled_inline
def _go_on_in_step(run: InferenceColumns, instance: int, now: float) -> None:
    """The whole group runs, or falls idle; one that runs is joined at its next iteration."""
    first = first_fellow(run, instance)
    if runs(run, first):
        pause(run, instance, now)
        return
    start_in_step(run, instance, now)
    group = run.fleet[instance, c.GROUP]
    for place in range(run.fellows.size[group]):
        fellow = at(run.fellows, group, place)
        if run.fleet[fellow, c.BATCH] == 0 and run.waiting.size[fellow] == 0:
            return_home(run, fellow)


@compiled_inline
def iterations_end(run: InferenceColumns, instance: int, now: float) -> None:
    """Prompts have their first token, some requests their last; the next batch runs."""
    if in_step(run, instance):
        group = run.fleet[instance, c.GROUP]
        for place in range(run.fellows.size[group]):
            _iterations_end_on(run, at(run.fellows, group, place), now)
        no_run(run, instance)
    else:
        _iterations_end_on(run, instance, now)
    _go_on(run, instance, now)


@compiled
def _iterations_end_on(run: InferenceColumns, instance: int, now: float) -> None:
    before = run.fleet[instance, c.BATCH]
    count_iterations(run, instance)
    chunked = run.fleet[instance, c.ENGINE] == c.CHUNKED
    while run.fleet[instance, c.DECODES] > 0:
        slot = run.finishing[instance, 0]
        if run.slot[slot, c.FINISH] > run.fleet[instance, c.ITERATIONS]:
            break
        if chunked:
            stop_decoding(run, instance, slot)
            unlink(run, instance, slot)
        else:
            leave_batch(run, instance, slot)
        _tokens_done(run, instance, slot, now)
    for _ in range(run.prefilling.size[instance]):
        slot = at(run.prefilling, instance, 0)
        remove_at(run.prefilling, instance, 0)
        if chunked:
            _chunk_done(run, instance, slot, now)
        else:
            unlink(run, instance, slot)
            _prompt_done(run, instance, slot, now)
    if run.fleet[instance, c.PLANS_AHEAD]:
        run.fleet[instance, c.GONE] = before - run.fleet[instance, c.BATCH]
    give_back(run, instance)
    if run.option[c.RESERVES]:
        ship_what_fits(run, instance, now)


@compiled_inline
def _chunk_done(run: InferenceColumns, instance: int, slot: int, now: float) -> None:
    """The prompt goes on, or its first token is there; one that was put back has its next token."""
    row = run.slot[slot]
    row[c.COMPUTED] += row[c.CHUNK]
    if run.fleet[instance, c.CACHES]:
        keep_blocks(run, instance, slot, row[c.COMPUTED])
    if row[c.COMPUTED] < target(run, slot):
        run.fleet[instance, c.PARTIAL] = slot
        return
    if row[c.BLOCKED]:
        row[c.LEFT] -= 1
        if row[c.LEFT] == 0:
            unlink(run, instance, slot)
            _tokens_done(run, instance, slot, now)
            return
    elif row[c.OUTPUT] == 1 or row[c.TOKEN_AT] != instance:
        unlink(run, instance, slot)
        _prompt_done(run, instance, slot, now)
        return
    else:
        _prompt_done(run, instance, slot, now)
    start_decoding(run, instance, slot, now)


@compiled
def _prompt_done(run: InferenceColumns, instance: int, slot: int, now: float) -> None:
    run.fleet[instance, c.PLANNED_TOKENS] -= run.slot[slot, c.PROMPT]
    run.fleet[instance, c.PROMPTS_TO_DO] -= 1
    if not run.moment[slot, c.FIRST_TOKEN] >= 0.0:  # a request that was lost has had its first token
        run.moment[slot, c.FIRST_TOKEN] = now
        run.counts[c.W_TTFT] += now - run.moment[slot, c.ARRIVED]
        run.counts[c.W_FIRST_TOKENS] += 1
    if run.slot[slot, c.OUTPUT] == 1:
        _tokens_done(run, instance, slot, now)
    elif run.slot[slot, c.TOKEN_AT] == instance:
        run.slot[slot, c.PHASE] = c.DECODE
        if run.fleet[instance, c.ENGINE] != c.CHUNKED:
            wait_as(run, instance, slot, c.TOKEN_TASK)
    elif run.slot[slot, c.TOKEN_AT] == c.NOBODY:
        ship_to_another(run, slot, now)
    else:
        ship(run, slot, now)


@compiled
def _tokens_done(run: InferenceColumns, instance: int, slot: int, now: float) -> None:
    run.fleet[instance, c.PLANNED_TOKENS] -= 1
    unbind(run, slot, instance, now)
    end(run, slot, c.COMPLETED, now)


@compiled_inline
def transfer_ends(run: InferenceColumns, slot: int, now: float) -> None:
    """The KV has arrived: decoding may begin there, and there is room where it came from."""
    no_transfer(run, slot)
    if run.slot[slot, c.PHASE] == c.TO_MOVE:
        ship(run, slot, now)
        return
    end_flow(run, slot, now)
    here, there = run.slot[slot, c.PROMPT_AT], run.slot[slot, c.TOKEN_AT]
    arrives = arriving_need(run, there, slot)
    unbind(run, slot, here, now)
    run.slot[slot, c.KV], run.slot[slot, c.PHASE] = arrives, c.DECODE
    run.moment[slot, c.SHIPPED] = now
    _arrive(run, there, 2 * slot + c.TOKEN_TASK, now)
    use_free_room(run, here, now)


@compiled
def use_free_room(run: InferenceColumns, instance: int, now: float) -> None:
    """KV memory has become free there without an iteration that ended."""
    if run.option[c.RESERVES]:
        ship_what_fits(run, instance, now)
    if run.fleet[instance, c.ENGINE] == c.CHUNKED:
        starts = run.fleet[instance, c.BATCH] == 0 and run.waiting.size[instance] > 0
    else:
        starts = room_was_freed(run, instance, now)
    if starts:
        _go_on(run, instance, now)
    else:
        look_for_circle(run, instance)
