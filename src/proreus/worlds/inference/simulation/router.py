"""Which instances a request goes to: the schedulers, over pools of instances that are active."""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.inference.simulation.columns import (
    BATCH,
    BLOCK_TOKENS,
    CACHE_AWARE,
    CACHES,
    CAPACITY,
    FLEET_FIELDS,
    GIVES_BACK,
    JSQ,
    KV_BYTES,
    KV_CACHE_AWARE,
    KV_JSQ,
    KV_ROUND_ROBIN,
    MIXED,
    MIXED_POOL,
    MODEL,
    NOBODY,
    OF_MODEL,
    OUTPUT,
    PLANNED_MEMORY,
    PLANNED_TOKENS,
    POOL,
    PROMPT,
    PROMPT_AT,
    PROMPT_POOL,
    PROMPT_QUEUE_LIMIT,
    PROMPTS_TO_DO,
    RANDOM,
    ROLES,
    ROUND_ROBIN,
    SCHEDULER,
    TAG,
    TOKEN_JSQ,
    TOKEN_POOL,
    TOKEN_TURN,
    TOKENS_TO_DO,
    TURN,
    InferenceColumns,
)
from proreus.worlds.inference.simulation.lists import append, at, remove
from proreus.worlds.inference.simulation.prefix_cache import matching

_PENDING_REQUESTS = FLEET_FIELDS
"""In place of a field: the requests that wait or run on an instance."""


@compiled
def choose(run: InferenceColumns, slot: int) -> tuple[int, int]:
    """The instances of the prompt and of the tokens; NOBODY: none is there now."""
    scheduler, base = run.option[SCHEDULER], run.slot[slot, MODEL] * ROLES
    if scheduler == MIXED:
        return _mixed_pool(run, slot, base)
    if scheduler == CACHE_AWARE:
        one = _least_to_compute(run, base + MIXED_POOL, slot)
        return one, one
    if scheduler <= TOKEN_JSQ:
        one = _of_pool(run, base + MIXED_POOL, scheduler, TURN)
        return one, one
    aware = scheduler == KV_CACHE_AWARE
    scheduler = _of_each(scheduler)
    prompt_at = (
        _least_to_compute(run, base + PROMPT_POOL, slot)
        if aware
        else _of_pool(run, base + PROMPT_POOL, scheduler, TURN)
    )
    token_at = _of_pool(run, base + TOKEN_POOL, scheduler, TOKEN_TURN)
    return (NOBODY, NOBODY) if prompt_at == NOBODY or token_at == NOBODY else (prompt_at, token_at)


@compiled
def _of_each(scheduler: int) -> int:
    """What a scheduler of two pools does in each."""
    if scheduler == KV_ROUND_ROBIN:
        return ROUND_ROBIN
    return JSQ if scheduler == KV_JSQ else TOKEN_JSQ


@compiled
def _of_pool(run: InferenceColumns, pool: int, scheduler: int, turn: int) -> int:
    size = run.pools.size[pool]
    if size == 0:
        return NOBODY
    if scheduler == RANDOM:
        return at(run.pools, pool, next_below(run.random, size))
    if scheduler == ROUND_ROBIN:
        place = run.tally[turn] % size
        run.tally[turn] = (place + 1) % size
        return at(run.pools, pool, place)
    return least(run, pool, _PENDING_REQUESTS if scheduler == JSQ else PLANNED_TOKENS)


@compiled
def _least_to_compute(run: InferenceColumns, pool: int, slot: int) -> int:
    """Where fewest tokens have to be computed until its first one: those pending, and what is not cached.

    So a prompt goes where its beginning is known, unless the queue there is longer than what that saves.
    """
    best, found = 0, NOBODY
    for place in range(run.pools.size[pool]):
        instance = at(run.pools, pool, place)
        amount = run.fleet[instance, PLANNED_TOKENS]
        if run.fleet[instance, CACHES]:
            known = matching(run, instance, slot, run.slot[slot, PROMPT] - 1)
            amount -= known * run.option[BLOCK_TOKENS]
        if found == NOBODY or amount < best:
            best, found = amount, instance
    return found


@compiled
def least(run: InferenceColumns, pool: int, field: int) -> int:
    """The instance of a pool with the least of a number, the first of equals; NOBODY of an empty pool."""
    best, found = 0, NOBODY
    for place in range(run.pools.size[pool]):
        instance = at(run.pools, pool, place)
        amount = _requests_on(run, instance) if field == _PENDING_REQUESTS else run.fleet[instance, field]
        if found == NOBODY or amount < best:
            best, found = amount, instance
    return found


@compiled
def _requests_on(run: InferenceColumns, instance: int) -> int:
    return int(run.waiting.size[instance] + run.fleet[instance, BATCH])


@compiled
def _mixed_pool(run: InferenceColumns, slot: int, base: int) -> tuple[int, int]:
    """Prompts by pending tokens, tokens by KV memory; pools that are full borrow instances of each other."""
    prompts, tokens, mixed = base + PROMPT_POOL, base + TOKEN_POOL, base + MIXED_POOL
    if run.pools.size[mixed] == 0 and (run.pools.size[prompts] == 0 or run.pools.size[tokens] == 0):
        return NOBODY, NOBODY
    prompt_at = _prompt_choice(run, prompts, slot)
    if prompt_at == NOBODY:
        prompt_at = _prompt_choice(run, mixed, slot)
    token_at = _token_choice(run, tokens, slot)
    if token_at == NOBODY:
        token_at = _token_choice(run, mixed, slot)
    if prompt_at == NOBODY and run.pools.size[tokens] > 0:
        prompt_at = least(run, tokens, PLANNED_TOKENS)
        move(run, prompt_at, MIXED_POOL)
    if token_at == NOBODY and run.pools.size[prompts] > 0:
        token_at = least(run, prompts, PLANNED_MEMORY)
        move(run, token_at, MIXED_POOL)
    if prompt_at == NOBODY or token_at == NOBODY:
        prompt_at = token_at = _least_of_all(run, base)
    return prompt_at, token_at


@compiled
def _prompt_choice(run: InferenceColumns, pool: int, slot: int) -> int:
    """NOBODY where even the shortest queue is long."""
    found = least(run, pool, PLANNED_TOKENS)
    if found == NOBODY:
        return NOBODY
    planned = run.fleet[found, PLANNED_TOKENS] + run.slot[slot, PROMPT]
    waits = run.pending.size[found] + run.waiting.size[found] > 0
    return NOBODY if waits and planned > run.option[PROMPT_QUEUE_LIMIT] else found


@compiled
def _token_choice(run: InferenceColumns, pool: int, slot: int) -> int:
    """NOBODY where even the emptiest has no KV memory left."""
    found = least(run, pool, PLANNED_MEMORY)
    if found == NOBODY:
        return NOBODY
    tokens = run.slot[slot, PROMPT] + run.slot[slot, OUTPUT]
    planned = run.fleet[found, PLANNED_MEMORY] + tokens * run.fleet[found, KV_BYTES]
    return NOBODY if planned >= run.fleet[found, CAPACITY] else found


@compiled
def _least_of_all(run: InferenceColumns, base: int) -> int:
    """Over all pools: prompts, mixed, tokens."""
    found = NOBODY
    for role in (PROMPT_POOL, MIXED_POOL, TOKEN_POOL):
        best = least(run, base + role, PLANNED_TOKENS)
        if best != NOBODY and (
            found == NOBODY or run.fleet[best, PLANNED_TOKENS] < run.fleet[found, PLANNED_TOKENS]
        ):
            found = best
    return found


@compiled
def another_for_tokens(run: InferenceColumns, slot: int) -> int:
    """An instance for the tokens of a request whose prompt is computed elsewhere; NOBODY: none is there."""
    base, here = run.slot[slot, MODEL] * ROLES, run.slot[slot, PROMPT_AT]
    found = NOBODY
    for role in (TOKEN_POOL, MIXED_POOL):
        for place in range(run.pools.size[base + role]):
            instance = at(run.pools, base + role, place)
            if instance == here:
                continue
            if found == NOBODY or run.fleet[instance, PLANNED_MEMORY] < run.fleet[found, PLANNED_MEMORY]:
                found = instance
        if found != NOBODY:
            return found
    return found


@compiled
def move(run: InferenceColumns, instance: int, role: int) -> None:
    """To the end of another pool of its model; NOBODY: out of all pools."""
    fleet = run.fleet[instance]
    base = fleet[OF_MODEL] * ROLES
    if fleet[POOL] != NOBODY:
        remove(run.pools, base + fleet[POOL], instance)
    fleet[POOL] = role
    if role != NOBODY:
        append(run.pools, base + role, instance)


@compiled
def return_home(run: InferenceColumns, instance: int) -> None:
    """An instance that was lent to the mixed pool has become empty: it goes back."""
    if run.fleet[instance, POOL] == MIXED_POOL and run.fleet[instance, TAG] != MIXED_POOL:
        move(run, instance, run.fleet[instance, TAG])


@compiled
def give_back(run: InferenceColumns, instance: int) -> None:
    """An instance that was lent has nothing left to do of what it was lent for: it goes back."""
    fleet = run.fleet[instance]
    if not run.option[GIVES_BACK] or fleet[POOL] != MIXED_POOL:
        return
    if fleet[TAG] == TOKEN_POOL and fleet[PROMPTS_TO_DO] == 0:
        move(run, instance, TOKEN_POOL)
    elif fleet[TAG] == PROMPT_POOL and fleet[TOKENS_TO_DO] == 0:
        move(run, instance, PROMPT_POOL)
