"""Blocks of prompts whose KV memory outlives their request: what an instance need not compute again.

A block that requests use counts as their memory, once for all of them. One that nobody uses is *cached*: it
takes what memory is left, and gives way whenever that is needed, the one that was used longest ago first and
of one prompt its end before its beginning. An instance finds blocks by chains from the remainder of their
numbers.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.columns import InferenceColumns


@compiled
def clear_cache(run: InferenceColumns, instance: int) -> None:
    """A new instance knows nothing."""
    fleet, entries = run.fleet[instance], run.entries[instance]
    run.buckets[instance] = c.NOBODY
    for place in range(entries.shape[0]):
        entries[place, c.E_CHAIN] = place + 1 if place + 1 < entries.shape[0] else c.NOBODY
    fleet[c.FREE_ENTRY], fleet[c.OLDEST], fleet[c.NEWEST], fleet[c.CACHED] = 0, c.NOBODY, c.NOBODY, 0


@compiled
def block_bytes(run: InferenceColumns, instance: int) -> int:
    """KV memory of one block."""
    return int(run.option[c.BLOCK_TOKENS] * run.fleet[instance, c.KV_BYTES])


@compiled
def shared_bytes(run: InferenceColumns, instance: int, slot: int) -> int:
    """KV memory of the blocks that a request has in common with the cache."""
    return int(run.slot[slot, c.SHARED] * block_bytes(run, instance))


@compiled
def matching(run: InferenceColumns, instance: int, slot: int, most: int) -> int:
    """Blocks from the beginning of its prompt that the instance knows, in at most so many tokens."""
    request = run.slot[slot, c.REQUEST]
    begin = run.trace.block_begin[request]
    count = min(run.trace.block_begin[request + 1] - begin, most // run.option[c.BLOCK_TOKENS])
    for place in range(count):
        if _find(run, instance, run.trace.block_number[begin + place]) == c.NOBODY:
            return place
    return int(count)


@compiled
def unused(run: InferenceColumns, instance: int, slot: int, count: int) -> int:
    """Of the first so many blocks of its prompt, which the instance knows: those that nobody uses."""
    begin = run.trace.block_begin[run.slot[slot, c.REQUEST]]
    found = 0
    for place in range(count):
        entry = _find(run, instance, run.trace.block_number[begin + place])
        found += run.entries[instance, entry, c.E_USERS] == 0
    return found


@compiled
def use_blocks(run: InferenceColumns, instance: int, slot: int, count: int) -> None:
    """The request begins with so many blocks that the instance knows."""
    begin = run.trace.block_begin[run.slot[slot, c.REQUEST]]
    for place in range(count):
        _use(run, instance, _find(run, instance, run.trace.block_number[begin + place]))
    run.slot[slot, c.SHARED] = count


@compiled
def keep_blocks(run: InferenceColumns, instance: int, slot: int, computed: int) -> None:
    """Whole blocks of its first so many tokens are there for others; one that was there is kept once."""
    row, size = run.slot[slot], block_bytes(run, instance)
    begin = run.trace.block_begin[row[c.REQUEST]]
    count = min(run.trace.block_begin[row[c.REQUEST] + 1] - begin, computed // run.option[c.BLOCK_TOKENS])
    for place in range(row[c.SHARED], count):
        number = run.trace.block_number[begin + place]
        entry = _find(run, instance, number)
        row[c.KV] -= size
        run.fleet[instance, c.MEMORY] -= size
        if entry == c.NOBODY:
            entry = _new(run, instance, number)
            run.entries[instance, entry, c.E_USERS] = 1
            run.fleet[instance, c.MEMORY] += size
        else:
            _use(run, instance, entry)
    row[c.SHARED] = max(row[c.SHARED], count)


@compiled
def release_blocks(run: InferenceColumns, instance: int, slot: int) -> None:
    """The request uses no block any more; those that nobody uses stay while there is room."""
    row, size = run.slot[slot], block_bytes(run, instance)
    begin = run.trace.block_begin[row[c.REQUEST]]
    for place in range(row[c.SHARED] - 1, -1, -1):
        entry = _find(run, instance, run.trace.block_number[begin + place])
        run.entries[instance, entry, c.E_USERS] -= 1
        if run.entries[instance, entry, c.E_USERS] == 0:
            _append(run, instance, entry)
            run.fleet[instance, c.MEMORY] -= size
            run.fleet[instance, c.CACHED] += size
    row[c.SHARED] = 0


@compiled
def make_room(run: InferenceColumns, instance: int, more: int) -> None:
    """Memory is used, and so many bytes more will be: cached blocks give way."""
    fleet = run.fleet[instance]
    if not fleet[c.CACHES]:
        return
    while fleet[c.MEMORY] + fleet[c.CACHED] + more > fleet[c.CAPACITY] and fleet[c.CACHED] > 0:
        entry = fleet[c.OLDEST]
        _unlink(run, instance, entry)
        _forget(run, instance, entry)
        fleet[c.CACHED] -= block_bytes(run, instance)


@compiled
def _use(run: InferenceColumns, instance: int, entry: int) -> None:
    """One user more; a cached block becomes memory in use."""
    if run.entries[instance, entry, c.E_USERS] == 0:
        _unlink(run, instance, entry)
        size = block_bytes(run, instance)
        run.fleet[instance, c.CACHED] -= size
        run.fleet[instance, c.MEMORY] += size
    run.entries[instance, entry, c.E_USERS] += 1


@compiled
def _find(run: InferenceColumns, instance: int, number: int) -> int:
    entries = run.entries[instance]
    entry = run.buckets[instance, number % run.buckets.shape[1]]
    while entry != c.NOBODY and entries[entry, c.E_NUMBER] != number:
        entry = entries[entry, c.E_CHAIN]
    return int(entry)


@compiled
def _new(run: InferenceColumns, instance: int, number: int) -> int:
    """There are as many entries as blocks in all of the memory, so that one is free."""
    entries, bucket = run.entries[instance], number % run.buckets.shape[1]
    entry = run.fleet[instance, c.FREE_ENTRY]
    run.fleet[instance, c.FREE_ENTRY] = entries[entry, c.E_CHAIN]
    entries[entry, c.E_NUMBER], entries[entry, c.E_CHAIN] = number, run.buckets[instance, bucket]
    run.buckets[instance, bucket] = entry
    return int(entry)


@compiled
def _forget(run: InferenceColumns, instance: int, entry: int) -> None:
    entries = run.entries[instance]
    bucket = entries[entry, c.E_NUMBER] % run.buckets.shape[1]
    before = run.buckets[instance, bucket]
    if before == entry:
        run.buckets[instance, bucket] = entries[entry, c.E_CHAIN]
    else:
        while entries[before, c.E_CHAIN] != entry:
            before = entries[before, c.E_CHAIN]
        entries[before, c.E_CHAIN] = entries[entry, c.E_CHAIN]
    entries[entry, c.E_CHAIN] = run.fleet[instance, c.FREE_ENTRY]
    run.fleet[instance, c.FREE_ENTRY] = entry


@compiled
def _append(run: InferenceColumns, instance: int, entry: int) -> None:
    """Behind those that were used before it."""
    fleet, entries = run.fleet[instance], run.entries[instance]
    entries[entry, c.E_OLDER], entries[entry, c.E_NEWER] = fleet[c.NEWEST], c.NOBODY
    if fleet[c.NEWEST] == c.NOBODY:
        fleet[c.OLDEST] = entry
    else:
        entries[fleet[c.NEWEST], c.E_NEWER] = entry
    fleet[c.NEWEST] = entry


@compiled
def _unlink(run: InferenceColumns, instance: int, entry: int) -> None:
    fleet, entries = run.fleet[instance], run.entries[instance]
    older, newer = entries[entry, c.E_OLDER], entries[entry, c.E_NEWER]
    if older == c.NOBODY:
        fleet[c.OLDEST] = newer
    else:
        entries[older, c.E_NEWER] = newer
    if newer == c.NOBODY:
        fleet[c.NEWEST] = older
    else:
        entries[newer, c.E_OLDER] = older
