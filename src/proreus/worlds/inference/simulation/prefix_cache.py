"""Blocks of prompts whose KV memory outlives their request: what an instance need not compute again.

A block that requests use counts as their memory, once for all of them. One that nobody uses is *cached*: it
takes what memory is left, and gives way whenever that is needed, the one that was used longest ago first and
of one prompt its end before its beginning. An instance finds blocks by chains from the remainder of their
numbers.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation.columns import (
    BLOCK_TOKENS,
    CACHED,
    CACHES,
    CAPACITY,
    E_CHAIN,
    E_NEWER,
    E_NUMBER,
    E_OLDER,
    E_USERS,
    FREE_ENTRY,
    KV,
    KV_BYTES,
    MEMORY,
    NEWEST,
    NOBODY,
    OLDEST,
    REQUEST,
    SHARED,
    InferenceColumns,
)


@compiled
def clear_cache(run: InferenceColumns, instance: int) -> None:
    """A new instance knows nothing."""
    fleet, entries = run.fleet[instance], run.entries[instance]
    run.buckets[instance] = NOBODY
    for place in range(entries.shape[0]):
        entries[place, E_CHAIN] = place + 1 if place + 1 < entries.shape[0] else NOBODY
    fleet[FREE_ENTRY], fleet[OLDEST], fleet[NEWEST], fleet[CACHED] = 0, NOBODY, NOBODY, 0


@compiled
def block_bytes(run: InferenceColumns, instance: int) -> int:
    """KV memory of one block."""
    return int(run.option[BLOCK_TOKENS] * run.fleet[instance, KV_BYTES])


@compiled
def shared_bytes(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory of the blocks that a request has in common with the cache."""
    return int(run.slot[slot, SHARED] * block_bytes(run, instance))


@compiled
def matching(run: InferenceColumns, instance: int, slot: int, most: int) -> int:
    """Blocks from the beginning of its prompt that the instance knows, in at most so many tokens."""
    request = run.slot[slot, REQUEST]
    begin = run.trace.block_begin[request]
    count = min(run.trace.block_begin[request + 1] - begin, most // run.option[BLOCK_TOKENS])
    for place in range(count):
        if _find(run, instance, run.trace.block_number[begin + place]) == NOBODY:
            return place
    return int(count)


@compiled
def unused(run: InferenceColumns, instance: int, slot: int, count: int) -> int:
    """Of the first so many blocks of its prompt, which the instance knows: those that nobody uses."""
    begin = run.trace.block_begin[run.slot[slot, REQUEST]]
    found = 0
    for place in range(count):
        entry = _find(run, instance, run.trace.block_number[begin + place])
        found += run.entries[instance, entry, E_USERS] == 0
    return found


@compiled
def use_blocks(run: InferenceColumns, instance: int, slot: int, count: int) -> None:
    """The request begins with so many blocks that the instance knows."""
    begin = run.trace.block_begin[run.slot[slot, REQUEST]]
    for place in range(count):
        _use(run, instance, _find(run, instance, run.trace.block_number[begin + place]))
    run.slot[slot, SHARED] = count


@compiled
def keep_blocks(run: InferenceColumns, instance: int, slot: int, computed: int) -> None:
    """Whole blocks of its first so many tokens are there for others; one that was there is kept once."""
    row, size = run.slot[slot], block_bytes(run, instance)
    begin = run.trace.block_begin[row[REQUEST]]
    count = min(run.trace.block_begin[row[REQUEST] + 1] - begin, computed // run.option[BLOCK_TOKENS])
    for place in range(row[SHARED], count):
        number = run.trace.block_number[begin + place]
        entry = _find(run, instance, number)
        row[KV] -= size
        run.fleet[instance, MEMORY] -= size
        if entry == NOBODY:
            entry = _new(run, instance, number)
            run.entries[instance, entry, E_USERS] = 1
            run.fleet[instance, MEMORY] += size
        else:
            _use(run, instance, entry)
    row[SHARED] = max(row[SHARED], count)


@compiled
def release_blocks(run: InferenceColumns, instance: int, slot: int) -> None:
    """The request uses no block any more; those that nobody uses stay while there is room."""
    row, size = run.slot[slot], block_bytes(run, instance)
    begin = run.trace.block_begin[row[REQUEST]]
    for place in range(row[SHARED] - 1, -1, -1):
        entry = _find(run, instance, run.trace.block_number[begin + place])
        run.entries[instance, entry, E_USERS] -= 1
        if run.entries[instance, entry, E_USERS] == 0:
            _append(run, instance, entry)
            run.fleet[instance, MEMORY] -= size
            run.fleet[instance, CACHED] += size
    row[SHARED] = 0


@compiled
def make_room(run: InferenceColumns, instance: int, more: int) -> None:
    """Memory is used, and so many bytes more will be: cached blocks give way."""
    fleet = run.fleet[instance]
    if not fleet[CACHES]:
        return
    while fleet[MEMORY] + fleet[CACHED] + more > fleet[CAPACITY] and fleet[CACHED] > 0:
        entry = fleet[OLDEST]
        _unlink(run, instance, entry)
        _forget(run, instance, entry)
        fleet[CACHED] -= block_bytes(run, instance)


@compiled
def _use(run: InferenceColumns, instance: int, entry: int) -> None:
    """One user more; a cached block becomes memory in use."""
    if run.entries[instance, entry, E_USERS] == 0:
        _unlink(run, instance, entry)
        size = block_bytes(run, instance)
        run.fleet[instance, CACHED] -= size
        run.fleet[instance, MEMORY] += size
    run.entries[instance, entry, E_USERS] += 1


@compiled
def _find(run: InferenceColumns, instance: int, number: int) -> int:
    entries = run.entries[instance]
    entry = run.buckets[instance, number % run.buckets.shape[1]]
    while entry != NOBODY and entries[entry, E_NUMBER] != number:
        entry = entries[entry, E_CHAIN]
    return int(entry)


@compiled
def _new(run: InferenceColumns, instance: int, number: int) -> int:
    """There are as many entries as blocks in all of the memory, so that one is free."""
    entries, bucket = run.entries[instance], number % run.buckets.shape[1]
    entry = run.fleet[instance, FREE_ENTRY]
    run.fleet[instance, FREE_ENTRY] = entries[entry, E_CHAIN]
    entries[entry, E_NUMBER], entries[entry, E_CHAIN] = number, run.buckets[instance, bucket]
    run.buckets[instance, bucket] = entry
    return int(entry)


@compiled
def _forget(run: InferenceColumns, instance: int, entry: int) -> None:
    entries = run.entries[instance]
    bucket = entries[entry, E_NUMBER] % run.buckets.shape[1]
    before = run.buckets[instance, bucket]
    if before == entry:
        run.buckets[instance, bucket] = entries[entry, E_CHAIN]
    else:
        while entries[before, E_CHAIN] != entry:
            before = entries[before, E_CHAIN]
        entries[before, E_CHAIN] = entries[entry, E_CHAIN]
    entries[entry, E_CHAIN] = run.fleet[instance, FREE_ENTRY]
    run.fleet[instance, FREE_ENTRY] = entry


@compiled
def _append(run: InferenceColumns, instance: int, entry: int) -> None:
    """Behind those that were used before it."""
    fleet, entries = run.fleet[instance], run.entries[instance]
    entries[entry, E_OLDER], entries[entry, E_NEWER] = fleet[NEWEST], NOBODY
    if fleet[NEWEST] == NOBODY:
        fleet[OLDEST] = entry
    else:
        entries[fleet[NEWEST], E_NEWER] = entry
    fleet[NEWEST] = entry


@compiled
def _unlink(run: InferenceColumns, instance: int, entry: int) -> None:
    fleet, entries = run.fleet[instance], run.entries[instance]
    older, newer = entries[entry, E_OLDER], entries[entry, E_NEWER]
    if older == NOBODY:
        fleet[OLDEST] = newer
    else:
        entries[older, E_NEWER] = newer
    if newer == NOBODY:
        fleet[NEWEST] = older
    else:
        entries[newer, E_OLDER] = older
