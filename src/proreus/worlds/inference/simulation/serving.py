"""A request on its way: from the router to its prompt, its KV, its tokens, its end."""

from __future__ import annotations

from proreus.kernels.compiled import compiled
from proreus.worlds.inference.simulation.batching import (
    leave_batch,
    room_was_freed,
    start,
    task_arrives,
    unlink,
    wait_as,
)
from proreus.worlds.inference.simulation.columns import (
    ARRIVED,
    AT_ROUTER,
    BATCH,
    CAPACITY,
    COMPLETED,
    DECODE,
    DECODES,
    FINISH,
    FIRST_TOKEN,
    ITERATIONS,
    KV,
    KV_BYTES,
    NOBODY,
    OUTPUT,
    PHASE,
    PLANNED_TOKENS,
    PROMPT,
    PROMPT_AT,
    PROMPT_TASK,
    REJECTED,
    RESERVES,
    ROUTER_LIMIT,
    SHIPPED,
    TO_MOVE,
    TOKEN_AT,
    TOKEN_TASK,
    W_TTFT,
    WEIGHTS,
    Run,
)
from proreus.worlds.inference.simulation.heaps import no_run, no_transfer
from proreus.worlds.inference.simulation.holding import arriving_need, bind, end, unbind
from proreus.worlds.inference.simulation.iterations import count_iterations, rest
from proreus.worlds.inference.simulation.lists import append, at, remove_at
from proreus.worlds.inference.simulation.routing import choose, return_home
from proreus.worlds.inference.simulation.transfers import ship, ship_what_fits


@compiled
def route(run: Run, slot: int, now: float) -> bool:
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
    if token_at == prompt_at and run.slot[slot, OUTPUT] > 1:
        _arrive(run, prompt_at, 2 * slot + TOKEN_TASK, now)
    return True


@compiled
def _too_large(run: Run, slot: int, instance: int) -> bool:
    fleet, row = run.fleet[instance], run.slot[slot]
    return bool(fleet[WEIGHTS] + (row[PROMPT] + row[OUTPUT]) * fleet[KV_BYTES] > fleet[CAPACITY])


@compiled
def wait_at_router(run: Run, slot: int, now: float) -> None:
    """Nobody is there who could take it; it is rejected where too many wait already."""
    if run.routed.size[0] >= run.option[ROUTER_LIMIT]:
        end(run, slot, REJECTED, now)
    else:
        run.slot[slot, PHASE] = AT_ROUTER
        append(run.routed, 0, slot)


@compiled
def route_waiting(run: Run, now: float) -> None:
    """An instance has come: whoever waits at the router may go now, first come first served."""
    place = 0
    while place < run.routed.size[0]:
        if route(run, at(run.routed, 0, place), now):
            remove_at(run.routed, 0, place)
        else:
            place += 1


@compiled
def _arrive(run: Run, instance: int, task: int, now: float) -> None:
    if task_arrives(run, instance, task, now):
        _go_on(run, instance, now)


@compiled
def _go_on(run: Run, instance: int, now: float) -> None:
    """Run a batch, or fall idle."""
    if not start(run, instance, now):
        no_run(run, instance)
        if run.waiting.size[instance] == 0:
            return_home(run, instance)


@compiled
def iterations_end(run: Run, instance: int, now: float) -> None:
    """Prompts have their first token, some requests their last; the next batch runs."""
    count_iterations(run, instance)
    for _ in range(run.prefilling.size[instance]):
        slot = at(run.prefilling, instance, 0)
        remove_at(run.prefilling, instance, 0)
        unlink(run, instance, slot)
        _prompt_done(run, instance, slot, now)
    while run.fleet[instance, DECODES] > 0:
        slot = run.finishing[instance, 0]
        if run.slot[slot, FINISH] > run.fleet[instance, ITERATIONS]:
            break
        leave_batch(run, instance, slot)
        _tokens_done(run, instance, slot, now)
    if run.fleet[instance, BATCH] == 0:
        rest(run, instance, now)
    if run.option[RESERVES]:
        ship_what_fits(run, instance, now)
    _go_on(run, instance, now)


@compiled
def _prompt_done(run: Run, instance: int, slot: int, now: float) -> None:
    run.fleet[instance, PLANNED_TOKENS] -= run.slot[slot, PROMPT]
    if not run.moment[slot, FIRST_TOKEN] >= 0.0:  # a request that was lost has had its first token
        run.moment[slot, FIRST_TOKEN] = now
        run.counts[W_TTFT] += now - run.moment[slot, ARRIVED]
    if run.slot[slot, OUTPUT] == 1:
        _tokens_done(run, instance, slot, now)
    elif run.slot[slot, TOKEN_AT] == instance:
        run.slot[slot, PHASE] = DECODE
        wait_as(run, instance, slot, TOKEN_TASK)
    else:
        ship(run, slot, now)


@compiled
def _tokens_done(run: Run, instance: int, slot: int, now: float) -> None:
    run.fleet[instance, PLANNED_TOKENS] -= 1
    unbind(run, slot, instance, now)
    end(run, slot, COMPLETED, now)


@compiled
def transfer_ends(run: Run, slot: int, now: float) -> None:
    """The KV has arrived: decoding may begin there, and there is room where it came from."""
    no_transfer(run, slot)
    if run.slot[slot, PHASE] == TO_MOVE:
        ship(run, slot, now)
        return
    here, there = run.slot[slot, PROMPT_AT], run.slot[slot, TOKEN_AT]
    arrives = arriving_need(run, there, slot)
    unbind(run, slot, here, now)
    run.slot[slot, KV], run.slot[slot, PHASE] = arrives, DECODE
    run.moment[slot, SHIPPED] = now
    _arrive(run, there, 2 * slot + TOKEN_TASK, now)
    if run.option[RESERVES]:
        ship_what_fits(run, here, now)
    if room_was_freed(run, here, now):
        _go_on(run, here, now)
