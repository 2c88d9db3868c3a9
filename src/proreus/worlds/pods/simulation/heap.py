"""Kernels of `Heap`: push, pop, drop, each O(log n), one total order."""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.pods.simulation.columns import Heap


@compiled
def heap_push(heap: Heap, pod: int, first: float, second: float, tie: int) -> None:
    """Add a pod that is not in the heap."""
    heap.first[pod] = first
    heap.second[pod] = second
    heap.tie[pod] = tie
    at = heap.size[0]
    heap.size[0] += 1
    _put(heap, at, pod)
    _rise(heap, at)


@compiled
def heap_pop(heap: Heap) -> int:
    """Take the first pod out."""
    pod = heap.order[0]
    heap_drop(heap, pod)
    return pod


@compiled
def heap_drop(heap: Heap, pod: int) -> None:
    """Take any pod out; one that is absent stays absent."""
    at = heap.slot[pod]
    if at < 0:
        return
    heap.slot[pod] = -1
    heap.size[0] -= 1
    last = heap.size[0]
    if at == last:
        return
    moved = heap.order[last]
    _put(heap, at, moved)
    _rise(heap, at)
    _sink(heap, heap.slot[moved])


@compiled
def _put(heap: Heap, at: int, pod: int) -> None:
    heap.order[at] = pod
    heap.slot[pod] = at


@compiled
def _before(heap: Heap, a: int, b: int) -> bool:
    if heap.first[a] != heap.first[b]:
        return heap.first[a] < heap.first[b]
    if heap.second[a] != heap.second[b]:
        return heap.second[a] < heap.second[b]
    return heap.tie[a] < heap.tie[b]


@compiled
def _rise(heap: Heap, at: int) -> None:
    pod = heap.order[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(heap, pod, heap.order[parent]):
            break
        _put(heap, at, heap.order[parent])
        at = parent
    _put(heap, at, pod)


@compiled
def _sink(heap: Heap, at: int) -> None:
    pod = heap.order[at]
    while True:
        child = 2 * at + 1
        if child >= heap.size[0]:
            break
        if child + 1 < heap.size[0] and _before(heap, heap.order[child + 1], heap.order[child]):
            child += 1
        if not _before(heap, heap.order[child], pod):
            break
        _put(heap, at, heap.order[child])
        at = child
    _put(heap, at, pod)
