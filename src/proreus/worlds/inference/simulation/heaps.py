"""Two heaps with places: who acts next in the cluster, and who of a batch is done next.

Both orders are total. At one moment iterations end first, by instance; then instances change in their life,
by instance; then transfers end or try again, by request. Arrivals come after all of these, decisions last.
"""

from __future__ import annotations

import math

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.columns import InferenceColumns

_LIFE, _TRANSFER = 1 << 40, 1 << 41


@compiled
def run_at(run: InferenceColumns, instance: int, when: float) -> None:
    """The iterations of an instance end then."""
    _set(run, instance, when, instance)


@compiled
def life_at(run: InferenceColumns, instance: int, when: float) -> None:
    """An instance changes in its life then."""
    _set(run, run.fleet.shape[0] + instance, when, _LIFE + instance)


@compiled
def transfer_at(run: InferenceColumns, slot: int, when: float) -> None:
    """The transfer of a request ends, or tries again, then."""
    _set(run, 2 * run.fleet.shape[0] + slot, when, _TRANSFER + run.slot[slot, c.REQUEST])


@compiled
def runs(run: InferenceColumns, instance: int) -> bool:
    """Whether iterations of an instance are to end."""
    return bool(run.event_place[instance] != c.NOBODY)


@compiled
def no_run(run: InferenceColumns, instance: int) -> None:
    """No iterations."""
    _drop(run, instance)


@compiled
def no_life(run: InferenceColumns, instance: int) -> None:
    """No change of life."""
    _drop(run, run.fleet.shape[0] + instance)


@compiled
def no_transfer(run: InferenceColumns, slot: int) -> None:
    """No transfer."""
    _drop(run, 2 * run.fleet.shape[0] + slot)


@compiled
def next_event(run: InferenceColumns) -> tuple[float, int]:
    """(when, who): instances, then their lives, then slots; infinity where nothing is to happen."""
    if run.tally[c.EVENTS_WAITING] == 0:
        return math.inf, c.NOBODY
    actor = run.event_heap[0]
    return run.event_at[actor], int(actor)


@compiled
def _set(run: InferenceColumns, actor: int, when: float, rank: int) -> None:
    times, ranks, heap, place = run.event_at, run.event_rank, run.event_heap, run.event_place
    times[actor], ranks[actor] = when, rank
    if place[actor] == c.NOBODY:
        size = run.tally[c.EVENTS_WAITING]
        heap[size], place[actor] = actor, size
        run.tally[c.EVENTS_WAITING] = size + 1
    _up(times, ranks, heap, place, place[actor])
    _down(times, ranks, heap, place, (place[actor], run.tally[c.EVENTS_WAITING]))


@compiled
def _drop(run: InferenceColumns, actor: int) -> None:
    times, ranks, heap, place = run.event_at, run.event_rank, run.event_heap, run.event_place
    at = place[actor]
    if at == c.NOBODY:
        return
    size = run.tally[c.EVENTS_WAITING] - 1
    run.tally[c.EVENTS_WAITING] = size
    place[actor] = c.NOBODY
    if at < size:
        last = heap[size]
        heap[at], place[last] = last, at
        _up(times, ranks, heap, place, at)
        _down(times, ranks, heap, place, (place[last], size))


@compiled
def _up(times: F64, ranks: I64, heap: I64, place: I64, at: int) -> None:
    actor = heap[at]
    while at > 0:
        above = heap[(at - 1) >> 1]
        if times[above] < times[actor] or (times[above] == times[actor] and ranks[above] <= ranks[actor]):
            break
        heap[at], place[above] = above, at
        at = (at - 1) >> 1
    heap[at], place[actor] = actor, at


@compiled
def _down(times: F64, ranks: I64, heap: I64, place: I64, at_and_size: tuple[int, int]) -> None:
    at, size = at_and_size
    actor = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(times, ranks, heap[child + 1], heap[child]):
            child += 1
        below = heap[child]
        if not _before(times, ranks, below, actor):
            break
        heap[at], place[below] = below, at
        at = child
    heap[at], place[actor] = actor, at


@compiled
def _before(times: F64, ranks: I64, one: int, other: int) -> bool:
    return times[one] < times[other] or (times[one] == times[other] and ranks[one] < ranks[other])


@compiled
def decode(run: InferenceColumns, instance: int, slot: int) -> None:
    """The request decodes in the batch of the instance; its FINISH is set."""
    size = run.fleet[instance, c.DECODES]
    run.fleet[instance, c.DECODES] = size + 1
    run.finishing[instance, size] = slot
    _rise(run.slot, run.finishing[instance], size)


@compiled
def decode_no_more(run: InferenceColumns, instance: int, slot: int) -> None:
    """It is taken out of the batch."""
    size = run.fleet[instance, c.DECODES] - 1
    run.fleet[instance, c.DECODES] = size
    slots, heap = run.slot, run.finishing[instance]
    at = slots[slot, c.PLACE]
    if at < size:
        last = heap[size]
        heap[at], slots[last, c.PLACE] = last, at
        _rise(slots, heap, at)
        _sink(slots, heap, slots[last, c.PLACE], size)


@compiled
def _rise(slots: I64, heap: I64, at: int) -> None:
    slot = heap[at]
    while at > 0:
        above = heap[(at - 1) >> 1]
        if not _earlier(slots, slot, above):
            break
        heap[at], slots[above, c.PLACE] = above, at
        at = (at - 1) >> 1
    heap[at], slots[slot, c.PLACE] = slot, at


@compiled
def _sink(slots: I64, heap: I64, at: int, size: int) -> None:
    slot = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _earlier(slots, heap[child + 1], heap[child]):
            child += 1
        below = heap[child]
        if not _earlier(slots, below, slot):
            break
        heap[at], slots[below, c.PLACE] = below, at
        at = child
    heap[at], slots[slot, c.PLACE] = slot, at


@compiled
def _earlier(slots: I64, one: int, other: int) -> bool:
    first, second = slots[one, c.FINISH], slots[other, c.FINISH]
    return bool(first < second or (first == second and slots[one, c.REQUEST] < slots[other, c.REQUEST]))
