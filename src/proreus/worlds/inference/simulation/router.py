"""Which instances a request goes to: the schedulers, over pools of instances that are active."""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.lists import append, at, remove
from proreus.worlds.inference.simulation.prefix_cache import matching

_PENDING_REQUESTS = c.FLEET_FIELDS
"""In place of a field: the requests that wait or run on an instance."""


@compiled
def choose(run: InferenceColumns, slot: int) -> tuple[int, int]:
    """The instances of the prompt and of the tokens; NOBODY: none is there now."""
    scheduler, base = run.option[c.SCHEDULER], run.slot[slot, c.MODEL] * c.ROLES
    if scheduler == c.MIXED:
        return _mixed_pool(run, slot, base)
    if scheduler == c.CACHE_AWARE:
        one = _least_to_compute(run, base + c.MIXED_POOL, slot)
        return one, one
    if scheduler <= c.TOKEN_JSQ:
        one = _of_pool(run, base + c.MIXED_POOL, scheduler, c.TURN)
        return one, one
    aware = scheduler == c.KV_CACHE_AWARE
    scheduler = _of_each(scheduler)
    prompt_at = (
        _least_to_compute(run, base + c.PROMPT_POOL, slot)
        if aware
        else _of_pool(run, base + c.PROMPT_POOL, scheduler, c.TURN)
    )
    token_at = _of_pool(run, base + c.TOKEN_POOL, scheduler, c.TOKEN_TURN)
    return (c.NOBODY, c.NOBODY) if prompt_at == c.NOBODY or token_at == c.NOBODY else (prompt_at, token_at)


@compiled
def _of_each(scheduler: int) -> int:
    """What a scheduler of two pools does in each."""
    if scheduler == c.KV_ROUND_ROBIN:
        return c.ROUND_ROBIN
    return c.JSQ if scheduler == c.KV_JSQ else c.TOKEN_JSQ


@compiled
def _of_pool(run: InferenceColumns, pool: int, scheduler: int, turn: int) -> int:
    size = run.pools.size[pool]
    if size == 0:
        return c.NOBODY
    if scheduler == c.RANDOM:
        return at(run.pools, pool, next_below(run.random, size))
    if scheduler == c.ROUND_ROBIN:
        place = run.tally[turn] % size
        run.tally[turn] = (place + 1) % size
        return at(run.pools, pool, place)
    return least(run, pool, _PENDING_REQUESTS if scheduler == c.JSQ else c.PLANNED_TOKENS)


@compiled
def _least_to_compute(run: InferenceColumns, pool: int, slot: int) -> int:
    """Where fewest tokens have to be computed until its first one: those pending, and what is not cached.

    So a prompt goes where its beginning is known, unless the queue there is longer than what that saves.
    """
    best, found = 0, c.NOBODY
    for place in range(run.pools.size[pool]):
        instance = at(run.pools, pool, place)
        amount = run.fleet[instance, c.PLANNED_TOKENS]
        if run.fleet[instance, c.CACHES]:
            known = matching(run, instance, slot, run.slot[slot, c.PROMPT] - 1)
            amount -= known * run.option[c.BLOCK_TOKENS]
        if found == c.NOBODY or amount < best:
            best, found = amount, instance
    return found


@compiled
def least(run: InferenceColumns, pool: int, field: int) -> int:
    """The instance of a pool with the least of a number, the first of equals; NOBODY of an empty pool."""
    best, found = 0, c.NOBODY
    for place in range(run.pools.size[pool]):
        instance = at(run.pools, pool, place)
        amount = _requests_on(run, instance) if field == _PENDING_REQUESTS else run.fleet[instance, field]
        if found == c.NOBODY or amount < best:
            best, found = amount, instance
    return found


@compiled
def _requests_on(run: InferenceColumns, instance: int) -> int:
    return int(run.waiting.size[instance] + run.fleet[instance, c.BATCH])


@compiled
def _mixed_pool(run: InferenceColumns, slot: int, base: int) -> tuple[int, int]:
    """Prompts by pending tokens, tokens by KV memory; pools that are full borrow instances of each other."""
    prompts, tokens, mixed = base + c.PROMPT_POOL, base + c.TOKEN_POOL, base + c.MIXED_POOL
    if run.pools.size[mixed] == 0 and (run.pools.size[prompts] == 0 or run.pools.size[tokens] == 0):
        return c.NOBODY, c.NOBODY
    prompt_at = _prompt_choice(run, prompts, slot)
    if prompt_at == c.NOBODY:
        prompt_at = _prompt_choice(run, mixed, slot)
    token_at = _token_choice(run, tokens, slot)
    if token_at == c.NOBODY:
        token_at = _token_choice(run, mixed, slot)
    if prompt_at == c.NOBODY and run.pools.size[tokens] > 0:
        prompt_at = least(run, tokens, c.PLANNED_TOKENS)
        move(run, prompt_at, c.MIXED_POOL)
    if token_at == c.NOBODY and run.pools.size[prompts] > 0:
        token_at = least(run, prompts, c.PLANNED_MEMORY)
        move(run, token_at, c.MIXED_POOL)
    if prompt_at == c.NOBODY or token_at == c.NOBODY:
        prompt_at = token_at = _least_of_all(run, base)
    return prompt_at, token_at


@compiled
def _prompt_choice(run: InferenceColumns, pool: int, slot: int) -> int:
    """NOBODY where even the shortest queue is long."""
    found = least(run, pool, c.PLANNED_TOKENS)
    if found == c.NOBODY:
        return c.NOBODY
    planned = run.fleet[found, c.PLANNED_TOKENS] + run.slot[slot, c.PROMPT]
    waits = run.pending.size[found] + run.waiting.size[found] > 0
    return c.NOBODY if waits and planned > run.option[c.PROMPT_QUEUE_LIMIT] else found


@compiled
def _token_choice(run: InferenceColumns, pool: int, slot: int) -> int:
    """NOBODY where even the emptiest has no KV memory left."""
    found = least(run, pool, c.PLANNED_MEMORY)
    if found == c.NOBODY:
        return c.NOBODY
    tokens = run.slot[slot, c.PROMPT] + run.slot[slot, c.OUTPUT]
    planned = run.fleet[found, c.PLANNED_MEMORY] + tokens * run.fleet[found, c.KV_BYTES]
    return c.NOBODY if planned >= run.fleet[found, c.CAPACITY] else found


@compiled
def _least_of_all(run: InferenceColumns, base: int) -> int:
    """Over all pools: prompts, mixed, tokens."""
    found = c.NOBODY
    for role in (c.PROMPT_POOL, c.MIXED_POOL, c.TOKEN_POOL):
        best = least(run, base + role, c.PLANNED_TOKENS)
        if best != c.NOBODY and (
            found == c.NOBODY or run.fleet[best, c.PLANNED_TOKENS] < run.fleet[found, c.PLANNED_TOKENS]
        ):
            found = best
    return found


@compiled
def another_for_tokens(run: InferenceColumns, slot: int) -> int:
    """An instance for the tokens of a request whose prompt is computed elsewhere; NOBODY: none is there."""
    base, here = run.slot[slot, c.MODEL] * c.ROLES, run.slot[slot, c.PROMPT_AT]
    found = c.NOBODY
    for role in (c.TOKEN_POOL, c.MIXED_POOL):
        for place in range(run.pools.size[base + role]):
            instance = at(run.pools, base + role, place)
            if instance == here:
                continue
            if (
                found == c.NOBODY
                or run.fleet[instance, c.PLANNED_MEMORY] < run.fleet[found, c.PLANNED_MEMORY]
            ):
                found = instance
        if found != c.NOBODY:
            return found
    return found


@compiled
def move(run: InferenceColumns, instance: int, role: int) -> None:
    """To the end of another pool of its model; NOBODY: out of all pools."""
    fleet = run.fleet[instance]
    base = fleet[c.OF_MODEL] * c.ROLES
    if fleet[c.POOL] != c.NOBODY:
        remove(run.pools, base + fleet[c.POOL], instance)
    fleet[c.POOL] = role
    if role != c.NOBODY:
        append(run.pools, base + role, instance)


@compiled
def return_home(run: InferenceColumns, instance: int) -> None:
    """An instance that was lent to the mixed pool has become empty: it goes back."""
    if run.fleet[instance, c.POOL] == c.MIXED_POOL and run.fleet[instance, c.TAG] != c.MIXED_POOL:
        move(run, instance, run.fleet[instance, c.TAG])


@compiled
def give_back(run: InferenceColumns, instance: int) -> None:
    """An instance that was lent has nothing left to do of what it was lent for: it goes back."""
    fleet = run.fleet[instance]
    if not run.option[c.GIVES_BACK] or fleet[c.POOL] != c.MIXED_POOL:
        return
    if fleet[c.TAG] == c.TOKEN_POOL and fleet[c.PROMPTS_TO_DO] == 0:
        move(run, instance, c.TOKEN_POOL)
    elif fleet[c.TAG] == c.PROMPT_POOL and fleet[c.TOKENS_TO_DO] == 0:
        move(run, instance, c.PROMPT_POOL)
