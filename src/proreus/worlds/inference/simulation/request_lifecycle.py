"""A request on its way: from the router to its prompt, its KV, its tokens, its end."""

from __future__ import annotations

from proreus.kernels.jit import compiled, compiled_inline
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
from proreus.worlds.inference.simulation.columns import (
    ARRIVED,
    AT_ROUTER,
    BATCH,
    BLOCK,
    BLOCKED,
    CACHES,
    CAPACITY,
    CHUNK,
    CHUNKED,
    COMPLETED,
    COMPUTED,
    DECODE,
    DECODES,
    ENGINE,
    FINISH,
    FIRST_TOKEN,
    GONE,
    GROUP,
    ITERATIONS,
    KV,
    KV_BYTES,
    LEFT,
    LOSSES,
    LOST,
    MOST_LOSSES,
    NOBODY,
    OUTPUT,
    PARTIAL,
    PHASE,
    PLANNED_TOKENS,
    PLANS_AHEAD,
    PROMPT,
    PROMPT_AT,
    PROMPT_TASK,
    PROMPTS_TO_DO,
    REJECTED,
    RESERVES,
    ROUTER_LIMIT,
    ROUTING,
    SHIPPED,
    TO_MOVE,
    TOKEN_AT,
    TOKEN_TASK,
    W_FIRST_TOKENS,
    W_TTFT,
    WEIGHTS,
    InferenceColumns,
)
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
    if prompt_at == NOBODY:
        return False
    if run.slot[slot, OUTPUT] == 1:
        token_at = prompt_at  # its only token comes from the prompt
    if _too_large(run, slot, prompt_at) or _too_large(run, slot, token_at):
        end(run, slot, REJECTED, now)
        return True
    bind(run, slot, prompt_at, token_at)
    _arrive(run, prompt_at, 2 * slot + PROMPT_TASK, now)
    chained = token_at == prompt_at and run.slot[slot, OUTPUT] > 1
    if chained and run.fleet[prompt_at, ENGINE] != CHUNKED:
        _arrive(run, prompt_at, 2 * slot + TOKEN_TASK, now)
    return True


@compiled
def _too_large(run: InferenceColumns, slot: int, instance: int) -> bool:
    fleet, row = run.fleet[instance], run.slot[slot]
    tokens = row[PROMPT] + row[OUTPUT] + (fleet[BLOCK] if fleet[ENGINE] == CHUNKED else 0)
    return bool(fleet[WEIGHTS] + tokens * fleet[KV_BYTES] > fleet[CAPACITY])


@compiled
def wait_at_router(run: InferenceColumns, slot: int, now: float) -> None:
    """Nobody is there who could take it; it is rejected where too many wait already."""
    if run.routed.size[0] >= run.option[ROUTER_LIMIT]:
        end(run, slot, REJECTED, now)
    else:
        run.slot[slot, PHASE] = AT_ROUTER
        append(run.routed, 0, slot)


@compiled_inline
def route_one_who_waits(run: InferenceColumns, now: float) -> None:
    """The next of those at the router goes, if it can; ROUTING says who that is."""
    place = run.tally[ROUTING]
    if place >= run.routed.size[0]:
        run.tally[ROUTING] = NOBODY
        return
    slot = at(run.routed, 0, place)
    if run.slot[slot, LOSSES] > run.option[MOST_LOSSES]:
        remove_at(run.routed, 0, place)
        end(run, slot, LOST, now)
    elif route(run, slot, now):
        remove_at(run.routed, 0, place)
    else:
        run.tally[ROUTING] = place + 1


@compiled
def begin_again(run: InferenceColumns, slot: int) -> None:
    """What an instance had of it is lost: the request goes back to the router."""
    run.slot[slot, LOSSES] += 1
    forget(run, slot)
    append(run.routed, 0, slot)
    run.tally[ROUTING] = 0


@compiled
def ship_to_another(run: InferenceColumns, slot: int, now: float) -> bool:
    """Its KV is ready, and the instance that it was bound to is lost: to another one, or all over again.

    False: the latter, and its KV memory is free.
    """
    here = run.slot[slot, PROMPT_AT]
    there = another_for_tokens(run, slot)
    if there == NOBODY:
        unbind(run, slot, here, now)
        begin_again(run, slot)
        return False
    expect(run, slot, there)
    ship(run, slot, now)
    return True


@compiled
def _arrive(run: InferenceColumns, instance: int, task: int, now: float) -> None:
    if run.fleet[instance, ENGINE] == CHUNKED:
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
    chunked = run.fleet[instance, ENGINE] == CHUNKED
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
    group = run.fleet[instance, GROUP]
    for place in range(run.fellows.size[group]):
        fellow = at(run.fellows, group, place)
        if run.fleet[fellow, BATCH] == 0 and run.waiting.size[fellow] == 0:
            return_home(run, fellow)


@compiled_inline
def iterations_end(run: InferenceColumns, instance: int, now: float) -> None:
    """Prompts have their first token, some requests their last; the next batch runs."""
    if in_step(run, instance):
        group = run.fleet[instance, GROUP]
        for place in range(run.fellows.size[group]):
            _iterations_end_on(run, at(run.fellows, group, place), now)
        no_run(run, instance)
    else:
        _iterations_end_on(run, instance, now)
    _go_on(run, instance, now)


@compiled
def _iterations_end_on(run: InferenceColumns, instance: int, now: float) -> None:
    before = run.fleet[instance, BATCH]
    count_iterations(run, instance)
    chunked = run.fleet[instance, ENGINE] == CHUNKED
    while run.fleet[instance, DECODES] > 0:
        slot = run.finishing[instance, 0]
        if run.slot[slot, FINISH] > run.fleet[instance, ITERATIONS]:
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
    if run.fleet[instance, PLANS_AHEAD]:
        run.fleet[instance, GONE] = before - run.fleet[instance, BATCH]
    give_back(run, instance)
    if run.option[RESERVES]:
        ship_what_fits(run, instance, now)


@compiled_inline
def _chunk_done(run: InferenceColumns, instance: int, slot: int, now: float) -> None:
    """The prompt goes on, or its first token is there; one that was put back has its next token."""
    row = run.slot[slot]
    row[COMPUTED] += row[CHUNK]
    if run.fleet[instance, CACHES]:
        keep_blocks(run, instance, slot, row[COMPUTED])
    if row[COMPUTED] < target(run, slot):
        run.fleet[instance, PARTIAL] = slot
        return
    if row[BLOCKED]:
        row[LEFT] -= 1
        if row[LEFT] == 0:
            unlink(run, instance, slot)
            _tokens_done(run, instance, slot, now)
            return
    elif row[OUTPUT] == 1 or row[TOKEN_AT] != instance:
        unlink(run, instance, slot)
        _prompt_done(run, instance, slot, now)
        return
    else:
        _prompt_done(run, instance, slot, now)
    start_decoding(run, instance, slot, now)


@compiled
def _prompt_done(run: InferenceColumns, instance: int, slot: int, now: float) -> None:
    run.fleet[instance, PLANNED_TOKENS] -= run.slot[slot, PROMPT]
    run.fleet[instance, PROMPTS_TO_DO] -= 1
    if not run.moment[slot, FIRST_TOKEN] >= 0.0:  # a request that was lost has had its first token
        run.moment[slot, FIRST_TOKEN] = now
        run.counts[W_TTFT] += now - run.moment[slot, ARRIVED]
        run.counts[W_FIRST_TOKENS] += 1
    if run.slot[slot, OUTPUT] == 1:
        _tokens_done(run, instance, slot, now)
    elif run.slot[slot, TOKEN_AT] == instance:
        run.slot[slot, PHASE] = DECODE
        if run.fleet[instance, ENGINE] != CHUNKED:
            wait_as(run, instance, slot, TOKEN_TASK)
    elif run.slot[slot, TOKEN_AT] == NOBODY:
        ship_to_another(run, slot, now)
    else:
        ship(run, slot, now)


@compiled
def _tokens_done(run: InferenceColumns, instance: int, slot: int, now: float) -> None:
    run.fleet[instance, PLANNED_TOKENS] -= 1
    unbind(run, slot, instance, now)
    end(run, slot, COMPLETED, now)


@compiled_inline
def transfer_ends(run: InferenceColumns, slot: int, now: float) -> None:
    """The KV has arrived: decoding may begin there, and there is room where it came from."""
    no_transfer(run, slot)
    if run.slot[slot, PHASE] == TO_MOVE:
        ship(run, slot, now)
        return
    end_flow(run, slot, now)
    here, there = run.slot[slot, PROMPT_AT], run.slot[slot, TOKEN_AT]
    arrives = arriving_need(run, there, slot)
    unbind(run, slot, here, now)
    run.slot[slot, KV], run.slot[slot, PHASE] = arrives, DECODE
    run.moment[slot, SHIPPED] = now
    _arrive(run, there, 2 * slot + TOKEN_TASK, now)
    use_free_room(run, here, now)


@compiled
def use_free_room(run: InferenceColumns, instance: int, now: float) -> None:
    """KV memory has become free there without an iteration that ended."""
    if run.option[RESERVES]:
        ship_what_fits(run, instance, now)
    if run.fleet[instance, ENGINE] == CHUNKED:
        starts = run.fleet[instance, BATCH] == 0 and run.waiting.size[instance] > 0
    else:
        starts = room_was_freed(run, instance, now)
    if starts:
        _go_on(run, instance, now)
    else:
        look_for_circle(run, instance)
