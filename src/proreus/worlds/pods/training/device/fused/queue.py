"""Who is first among a lane's pods, who comes back to the queue: scans over the pods that have arrived."""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.worlds.pods.training.device import columns
from proreus.worlds.pods.training.device.fused.placement import add_one

_ACTIVE = tl.constexpr(columns.ACTIVE)
_WOKEN = tl.constexpr(columns.WOKEN)
_BACKING_OFF = tl.constexpr(columns.BACKING_OFF)
_POOLED = tl.constexpr(columns.POOLED)
_RUNNING = tl.constexpr(columns.RUNNING)
_CALLED = tl.constexpr(columns.CALLED)
_UNMARKED = tl.constexpr(columns.UNMARKED)
_LAST = tl.constexpr(1 << 62)


@triton.jit
def first_of_block(among, first, second, third, i):
    """(keys, place) of the entry of a block that comes first by three keys; infinity where there is none."""
    infinity = float("inf")
    best = tl.min(tl.where(among, first, infinity), 0)
    among = among & (first == best)
    next_best = tl.min(tl.where(among, second, infinity), 0)
    among = among & (second == next_best)
    last_best = tl.min(tl.where(among, third, _LAST), 0)
    place = tl.min(tl.where(among & (third == last_best), i.to(tl.int64), _LAST), 0)
    return best, next_best, last_best, place


@triton.jit
def is_before(first, second, third, best, next_best, last_best):
    """Whether the keys come before the best so far."""
    later = (second < next_best) | ((second == next_best) & (third < last_best))
    return (first < best) | ((first == best) & later)


@triton.jit
def next_time(w, s, e):
    """When the next running pod ends, or one that backs off comes back; infinity where there is none."""
    time = tl.full((), float("inf"), tl.float64)
    arrived = tl.load(w.lanes.arrivals + e)
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        at_pod = e * s.pods + i
        status = tl.load(w.pods.status + at_pod, i < arrived, other=0)
        timed = (status == _RUNNING) | (status == _BACKING_OFF)
        when = tl.load(w.pods.when + at_pod, timed, other=float("inf"))
        time = tl.minimum(time, tl.min(when, 0))
    return time


@triton.jit
def first_due(w, s, e):
    """(how many running pods have ended, which of them ended first)."""
    clock = tl.load(w.lanes.clock + e)
    arrived = tl.load(w.lanes.arrivals + e)
    count = tl.zeros((), tl.int64)
    pod = tl.full((), 0, tl.int64)
    best = tl.full((), float("inf"), tl.float64)
    best_rank = tl.full((), _LAST, tl.int64)
    zero = tl.zeros((s.pod_block,), tl.float64)
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        at_pod = e * s.pods + i
        status = tl.load(w.pods.status + at_pod, i < arrived, other=0)
        running = status == _RUNNING
        when = tl.load(w.pods.when + at_pod, running, other=float("inf"))
        due = running & (when <= clock)
        here = tl.sum(due.to(tl.int64), 0)
        if here > 0:
            rank = tl.load(w.pods.rank + at_pod, due, other=0)
            first, _, third, place = first_of_block(due, when, zero, rank, i)
            if (first < best) | ((first == best) & (third < best_rank)):
                best = first
                best_rank = third
                pod = place
        count += here
    return count, pod


@triton.jit
def first_in_queue(w, s, e):
    """Of those that may be handed out, the first: by priority, or by time if all of them were woken."""
    arrived = tl.load(w.lanes.arrivals + e)
    pod = tl.full((), -1, tl.int64)
    best = tl.full((), float("inf"), tl.float64)
    next_best = tl.full((), float("inf"), tl.float64)
    last_best = tl.full((), _LAST, tl.int64)
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        at_pod = e * s.pods + i
        active = tl.load(w.pods.status + at_pod, i < arrived, other=0) == _ACTIVE
        if tl.sum(active.to(tl.int32), 0) > 0:
            urgency = -tl.load(w.pods.level + at_pod, active, other=0).to(tl.float64)
            queued = tl.load(w.pods.queued + at_pod, active, other=0.0)
            ticket = tl.load(w.pods.ticket + at_pod, active, other=0)
            first, second, third, place = first_of_block(active, urgency, queued, ticket, i)
            if is_before(first, second, third, best, next_best, last_best):
                best = first
                next_best = second
                last_best = third
                pod = place
    if pod < 0:
        for block in range(0, arrived, s.pod_block):
            i = block + tl.arange(0, s.pod_block)
            at_pod = e * s.pods + i
            woken = tl.load(w.pods.status + at_pod, i < arrived, other=0) == _WOKEN
            if tl.sum(woken.to(tl.int32), 0) > 0:
                when = tl.load(w.pods.when + at_pod, woken, other=0.0)
                urgency = -tl.load(w.pods.level + at_pod, woken, other=0).to(tl.float64)
                ticket = tl.load(w.pods.ticket + at_pod, woken, other=0)
                first, second, third, place = first_of_block(woken, when, urgency, ticket, i)
                if is_before(first, second, third, best, next_best, last_best):
                    best = first
                    next_best = second
                    last_best = third
                    pod = place
    return tl.maximum(pod, 0)


@triton.jit
def stamp(w, s, e, pod):
    """Note when the pod came into the queue, or failed."""
    sequence = tl.load(w.lanes.sequence + e)
    tl.store(w.pods.queued + e * s.pods + pod, tl.load(w.lanes.clock + e))
    tl.store(w.pods.ticket + e * s.pods + pod, sequence)
    tl.store(w.lanes.sequence + e, sequence + 1)
    tl.debug_barrier()


@triton.jit
def enqueue(w, s, e, pod):
    """A pod that is new to the queue."""
    stamp(w, s, e, pod)
    tl.store(w.pods.status + e * s.pods + pod, _ACTIVE)
    add_one(w.lanes.waiting + e, 1)
    add_one(w.lanes.eligible + e, 1)
    tl.debug_barrier()


@triton.jit
def backoff_end(failed, attempts):
    """`queueing_hints.backoff_end`."""
    tries = tl.minimum(tl.maximum(attempts - 1, 0), 8)
    wait = tl.minimum(((tries * 0 + 1) << tries).to(tl.float64), 10.0)
    return tl.floor(failed + wait) + 1.0


@triton.jit
def wake(w, s, e, node, left_class):
    """Pods left the node: bring back the pooled pods that this may help.

    left_class: of the pod that left, for those that it kept away; -1: such pods are marked.
    """
    waiting = tl.load(w.lanes.waiting + e) > tl.load(w.lanes.eligible + e)
    if waiting | (left_class < 0):
        _wake(w, s, e, node, left_class)


@triton.jit
def _wake(w, s, e, node, left_class):
    arrived = tl.load(w.lanes.arrivals + e)
    clock = tl.load(w.lanes.clock + e)
    at_node = e * s.nodes + node
    eligible = tl.zeros((), tl.int64)
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        at_pod = e * s.pods + i
        pooled = tl.load(w.pods.status + at_pod, i < arrived, other=0) == _POOLED
        if tl.sum(pooled.to(tl.int32), 0) > 0:
            c = tl.load(w.pods.pod_class + at_pod, pooled, other=0)
            helped = pooled & _helps(w, s, at_node, node, c, pooled)
            if left_class < 0:
                helped = helped | (pooled & (tl.load(w.pods.mark + at_pod, pooled, other=0) == _CALLED))
            else:
                excluded = tl.load(w.classes.excludes + left_class * s.classes + c, pooled, other=0)
                helped = helped | (pooled & (excluded != 0))
            queued = tl.load(w.pods.queued + at_pod, helped, other=0.0)
            end = backoff_end(queued, tl.load(w.pods.attempts + at_pod, helped, other=0))
            at_once = end <= clock
            if s.skip_backoff:
                otherwise = _WOKEN
                eligible += tl.sum(helped.to(tl.int64), 0)
            else:
                otherwise = _BACKING_OFF
                eligible += tl.sum((helped & at_once).to(tl.int64), 0)
            tl.store(w.pods.status + at_pod, tl.where(at_once, _ACTIVE, otherwise).to(tl.int8), helped)
            tl.store(w.pods.when + at_pod, end, helped)
        if left_class < 0:
            tl.store(w.pods.mark + at_pod, tl.full((s.pod_block,), _UNMARKED, tl.int8), i < arrived)
    add_one(w.lanes.eligible + e, eligible)
    tl.debug_barrier()


@triton.jit
def _helps(w, s, at_node, node, c, wanted):
    """bool[BP]: the node, as it is now, may take class c, or a pod of it may preempt there."""
    fits = tl.load(w.classes.fits + c * s.nodes + node, wanted, other=0) != 0
    for r in tl.static_range(s.resources):
        asked = tl.load(w.classes.request + c * s.resources + r, wanted, other=0)
        free = tl.load(w.nodes.free + at_node * s.resources + r)
        fits = fits & ((asked <= free) | (asked <= 0))
    if s.gpus > 0:
        num = tl.load(w.classes.gpu_num + c, wanted, other=0)
        least = tl.maximum(tl.load(w.classes.gpu_milli + c, wanted, other=0), 1)
        count = tl.zeros_like(num)
        for g in tl.static_range(s.gpus):
            count += (tl.load(w.nodes.left + at_node * s.gpus + g) >= least).to(tl.int64)
        fits = fits & (count >= num)
    if s.preemption:
        level = tl.load(w.classes.level + c, wanted, other=0)
        lower = tl.load(w.classes.preempts + c, wanted, other=0) != 0
        there = tl.zeros_like(level)
        for held in tl.static_range(s.levels):
            there += tl.load(w.nodes.held_pods + at_node * s.levels + held) * (held < level).to(tl.int64)
        lower = lower & (there > 0)
        for r in tl.static_range(s.resources):
            asked = tl.load(w.classes.request + c * s.resources + r, wanted, other=0)
            free = tl.load(w.nodes.free + at_node * s.resources + r) + tl.zeros_like(asked)
            for held in tl.static_range(s.levels):
                of_level = tl.load(w.nodes.held + (at_node * s.levels + held) * s.resources + r)
                free += of_level * (held < level).to(tl.int64)
            lower = lower & ((asked <= free) | (asked <= 0))
        fits = fits | lower
    return fits
