"""Time in one lane, event by event: `device.events` and the choices of `device.step`."""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.learning.tensor_lanes import splitmix
from proreus.learning.tensor_lanes.shown_lanes import HOLD
from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.training.device import columns
from proreus.worlds.pods.training.device.fused.eviction import begin_eviction, evict
from proreus.worlds.pods.training.device.fused.nodes import is_stuck
from proreus.worlds.pods.training.device.fused.placement import add_one, earn, expect, place, take_off
from proreus.worlds.pods.training.device.fused.queue import (
    backoff_end,
    enqueue,
    first_due,
    first_in_queue,
    next_time,
    stamp,
    wake,
)

_NEW_EPISODE = tl.constexpr(columns.NEW_EPISODE)
_DEPART = tl.constexpr(columns.DEPART)
_ARRIVE = tl.constexpr(columns.ARRIVE)
_HAND_OUT = tl.constexpr(columns.HAND_OUT)
_DECIDE = tl.constexpr(columns.DECIDE)
_ACTIVE = tl.constexpr(columns.ACTIVE)
_BACKING_OFF = tl.constexpr(columns.BACKING_OFF)
_DECIDING = tl.constexpr(columns.DECIDING)
_FUTURE = tl.constexpr(columns.FUTURE)
_GONE = tl.constexpr(columns.GONE)
_POOLED = tl.constexpr(columns.POOLED)
_UNMARKED = tl.constexpr(columns.UNMARKED)
_GPU_WHOLE = tl.constexpr(GPU_WHOLE)
_HOLD = tl.constexpr(HOLD)
_STEP = tl.constexpr(splitmix.STEP)
_MIX_A = tl.constexpr(splitmix.MIX_A)
_MIX_B = tl.constexpr(splitmix.MIX_B)


@triton.jit
def move(w, seen, action, s: tl.constexpr):
    """Carry out what was chosen in one lane, and let time pass until it has a choice, or enough has happened.

    seen: `Seen`; action: int64[E], a node, N to delay, N + 1 to reject, HOLD. One warp.
    """
    e = tl.program_id(0).to(tl.int64)
    if tl.load(w.lanes.phase + e) == _DECIDE:
        _act(w, s, seen, e, tl.load(action + e))
    if tl.load(w.lanes.phase + e) == _NEW_EPISODE:
        begin_episode(w, s, e)
    left = tl.full((), s.events, tl.int32)
    while (left > 0) & (tl.load(w.lanes.phase + e) != _DECIDE):
        if s.preemption:
            evict(w, s, e)
        _advance(w, s, e)
        _delay_without_choice(w, s, e)
        left -= 1


@triton.jit
def _act(w, s, seen, e, action):
    """Carry out the chosen action; where there was no choice, the one thing that can be done."""
    ready = tl.load(seen.ready + e) != 0
    preempts = tl.load(seen.preempts + e) != 0
    count = tl.zeros((), tl.int64)
    only = tl.full((), s.nodes, tl.int64)  # a node, or delay where there is none
    for first in range(0, s.nodes, s.node_block):
        n = first + tl.arange(0, s.node_block)
        legal = tl.load(seen.legal + e * s.nodes + n, n < s.nodes, other=0) != 0
        count += tl.sum(legal.to(tl.int64), 0)
        only = tl.minimum(only, tl.min(tl.where(legal, n, s.nodes), 0).to(tl.int64))
    chosen = tl.where(ready, action, only)
    if chosen != _HOLD:
        pod = tl.load(w.lanes.pod + e)
        add_one(w.lanes.length + e, ready.to(tl.int64))
        preempting = preempts & (chosen < s.nodes)
        if chosen < s.nodes:
            if preempts:
                begin_eviction(w, s, e, pod, chosen)
            else:
                place(w, s, e, pod, chosen, tl.load(seen.devices + e * s.nodes + chosen))
                if not s.completion:
                    measured = tl.load(w.classes.measured + tl.load(w.pods.pod_class + e * s.pods + pod))
                    earn(w, e, measured / tl.load(w.of.reward_scale + e))
        else:
            if chosen == s.nodes:
                delay(w, s, e, pod, (count > 0) & ~preempts)
            else:
                tl.store(w.pods.status + e * s.pods + pod, _GONE)
                expect(w, s, e, tl.load(w.pods.pod_class + e * s.pods + pod), -1)
        if not preempting:
            decided(w, e)


@triton.jit
def decided(w, e):
    """The pod at hand is dealt with."""
    tl.store(w.lanes.earned_until + e, tl.load(w.lanes.presence + e))
    tl.store(w.lanes.phase + e, _HAND_OUT)
    tl.debug_barrier()


@triton.jit
def delay(w, s, e, pod, fits):
    """No legal node: into the pool until room comes free, or dropped. Else waiting was a choice: back off."""
    at_pod = e * s.pods + pod
    clock = tl.load(w.lanes.clock + e)
    attempts = tl.load(w.pods.attempts + at_pod) + 1
    tl.debug_barrier()
    tl.store(w.pods.attempts + at_pod, attempts)
    stamp(w, s, e, pod)
    if s.drop_failures:
        status = tl.full((), _GONE, tl.int32)
    else:
        status = tl.full((), _POOLED, tl.int32)
    if fits:
        status = tl.full((), _BACKING_OFF, tl.int32)
        if s.attempt_limit > 0:
            if attempts >= s.attempt_limit:
                status = tl.full((), _GONE, tl.int32)
    tl.store(w.pods.status + at_pod, status.to(tl.int8))
    tl.store(w.pods.when + at_pod, backoff_end(clock, attempts))
    if status == _GONE:
        expect(w, s, e, tl.load(w.pods.pod_class + at_pod), -1)
    else:
        add_one(w.lanes.waiting + e, 1)
    tl.debug_barrier()


@triton.jit
def _delay_without_choice(w, s, e):
    """A pod that no node takes waits at once: nobody has to be asked."""
    if tl.load(w.lanes.phase + e) == _DECIDE:
        pod = tl.load(w.lanes.pod + e)
        c = tl.load(w.pods.pod_class + e * s.pods + pod)
        if is_stuck(w, s, e, c):
            delay(w, s, e, pod, pod < 0)
            decided(w, e)


@triton.jit
def begin_episode(w, s, e):
    """At the beginning of the next episode."""
    _empty_cluster(w, s, e)
    first = tl.zeros((), tl.float64)
    if s.redraw:
        rng = tl.load(w.lanes.rng + e)
        tl.store(w.lanes.drawn_from + e, rng)
        tl.store(w.lanes.rng + e, rng + _STEP * (2 * tl.load(w.base.episode + e) - 1))
    else:
        first = tl.load(w.base.arrival + tl.load(w.base.start + e))
    tl.store(w.lanes.clock + e, first)
    tl.store(w.lanes.arrival + e, first)
    zero = tl.zeros((), tl.int64)
    tl.store(w.lanes.arrivals + e, zero)
    tl.store(w.lanes.sequence + e, zero)
    tl.store(w.lanes.placements + e, zero)
    tl.store(w.lanes.waiting + e, zero)
    tl.store(w.lanes.eligible + e, zero)
    tl.store(w.lanes.running + e, zero)
    tl.store(w.lanes.length + e, zero)
    tl.store(w.lanes.presence + e, 0.0)
    tl.store(w.lanes.earned_until + e, 0.0)
    tl.store(w.lanes.total + e, 0.0)
    if s.budgets > 0:
        b = tl.arange(0, s.wide_budgets)
        none = tl.zeros((s.wide_budgets,), tl.int64)
        tl.store(w.lanes.healthy + e * s.budgets + b, none, b < s.budgets)
        tl.store(w.lanes.expected + e * s.budgets + b, none, b < s.budgets)
    tl.store(w.lanes.phase + e, _HAND_OUT)
    tl.debug_barrier()


@triton.jit
def _empty_cluster(w, s, e):
    """Nothing on the nodes of the lane, and no pod there."""
    i = tl.arange(0, s.flat_block)
    small = tl.zeros((s.flat_block,), tl.int8)
    for first in range(0, s.pods, s.flat_block):
        there = first + i < s.pods
        tl.store(w.pods.status + e * s.pods + first + i, small + _FUTURE, there)
        tl.store(w.pods.mark + e * s.pods + first + i, small + _UNMARKED, there)
    for first in range(0, s.nodes * s.resources, s.flat_block):
        there = first + i < s.nodes * s.resources
        at_free = e * s.nodes * s.resources + first + i
        tl.store(w.nodes.free + at_free, tl.load(w.of.allocatable + at_free, there, other=0), there)
    for first in range(0, s.nodes * s.gpus, s.flat_block):
        n = (first + i) // max(s.gpus, 1)
        there = n < s.nodes
        has = (first + i) % max(s.gpus, 1) < tl.load(w.of.gpu_count + e * s.nodes + n, there, other=0)
        at_left = e * s.nodes * s.gpus + first + i
        tl.store(w.nodes.left + at_left, tl.where(has, _GPU_WHOLE, 0).to(tl.int64), there)
    _wipe(w.nodes.scored, s, e, s.nodes * 2)
    _wipe(w.nodes.load, s, e, s.nodes)
    _wipe(w.nodes.pods, s, e, s.nodes)
    if s.terms > 0:
        _wipe(w.nodes.matching, s, e, s.terms * (s.domains + 1))
        _wipe(w.nodes.avoided, s, e, s.terms * (s.domains + 1))
    if s.preemption:
        _wipe(w.nodes.held, s, e, s.nodes * s.levels * s.resources)
        _wipe(w.nodes.held_pods, s, e, s.nodes * s.levels)
        _wipe(w.nodes.held_gpu, s, e, s.nodes * s.levels * s.gpus)
        _wipe(w.nodes.held_matching, s, e, s.nodes * s.levels * s.terms)
        _wipe(w.nodes.held_avoided, s, e, s.nodes * s.levels * s.terms)
    tl.debug_barrier()


@triton.jit
def _wipe(column, s, e, length):
    """All entries of the lane become zero."""
    i = tl.arange(0, s.flat_block)
    for first in range(0, length, s.flat_block):
        tl.store(column + e * length + first + i, i * 0, first + i < length)


@triton.jit
def _advance(w, s, e):
    """One event; several where they need no second look."""
    if move_clock(w, s, e):
        _end_episode(w, s, e)
    happen(w, s, e)


@triton.jit
def happen(w, s, e):
    """What happens at this moment, as far as one event; the class of the pod that left, -1: none did."""
    left_class = tl.full((), -1, tl.int64)
    if tl.load(w.lanes.phase + e) == _DEPART:
        left_class = _depart(w, s, e)
    if tl.load(w.lanes.phase + e) == _ARRIVE:
        _arrive(w, s, e)
    if (tl.load(w.lanes.phase + e) == _HAND_OUT) & (tl.load(w.lanes.eligible + e) > 0):
        _hand_out(w, s, e)
    return left_class


@triton.jit
def move_clock(w, s, e):
    """Nobody stands in the queue: on to the next time at which anything happens; whether nothing will."""
    over = tl.full((), 0, tl.int1)
    if (tl.load(w.lanes.phase + e) == _HAND_OUT) & (tl.load(w.lanes.eligible + e) == 0):
        clock = tl.load(w.lanes.clock + e)
        end = next_time(w, s, e)
        time = tl.minimum(end, tl.load(w.lanes.arrival + e))
        over = time == float("inf")
        if time < float("inf"):
            now = tl.maximum(time, clock)
            present = tl.load(w.lanes.waiting + e) + tl.load(w.lanes.running + e)
            add_one(w.lanes.presence + e, present * (now - clock))
            tl.debug_barrier()
            tl.store(w.lanes.clock + e, now)
            tl.store(w.lanes.phase + e, tl.where(end <= now, _DEPART, _ARRIVE).to(tl.int64))
        tl.debug_barrier()
    return over


@triton.jit
def _end_episode(w, s, e):
    """The next one begins at once."""
    if s.completion:
        pay_for_time(w, e)
    if tl.load(w.lanes.ended + e) == 0:
        add_one(w.lanes.ended_episodes + e, 1)
        add_one(w.lanes.ended_length + e, tl.load(w.lanes.length + e))
        add_one(w.lanes.ended_total + e, tl.load(w.lanes.total + e))
    tl.store(w.lanes.ended + e, True)
    add_one(w.lanes.empty + e, 1)
    tl.debug_barrier()
    begin_episode(w, s, e)


@triton.jit
def pay_for_time(w, e):
    """For the time that pods were in the system since this was paid last."""
    present = tl.load(w.lanes.presence + e) - tl.load(w.lanes.earned_until + e)
    earn(w, e, -present / tl.load(w.of.reward_scale + e))


@triton.jit
def _depart(w, s, e):
    """One pod whose time has come, in the order of their ends; with the last of them arrivals may come.

    The class of the pod; -1: none is due.
    """
    left_class = tl.full((), -1, tl.int64)
    if s.ends:
        count, pod = first_due(w, s, e)
        if count > 0:
            left_class = tl.load(w.pods.pod_class + e * s.pods + pod)
            node = tl.load(w.pods.node + e * s.pods + pod)
            expect(w, s, e, left_class, -1)
            take_off(w, s, e, pod)
            if not s.drop_failures:
                wake(w, s, e, node, left_class)
        if count <= 1:
            tl.store(w.lanes.phase + e, _ARRIVE)
    else:
        tl.store(w.lanes.phase + e, _ARRIVE)
    tl.debug_barrier()
    return left_class


@triton.jit
def _arrive(w, s, e):
    """One pod whose time has come; after the last of them, those whose back-off has ended."""
    clock = tl.load(w.lanes.clock + e)
    arrival = tl.load(w.lanes.arrival + e)
    if arrival <= clock:
        arrival = _next_arrival(w, s, e, arrival)
    if arrival > clock:
        if s.backs_off:
            if tl.load(w.lanes.waiting + e) > tl.load(w.lanes.eligible + e):
                _come_back(w, s, e, clock)
        tl.store(w.lanes.phase + e, _HAND_OUT)
    tl.debug_barrier()


@triton.jit
def _next_arrival(w, s, e, arrival):
    """A pod comes into the queue; when the next one will, infinity after the last."""
    pod = tl.load(w.lanes.arrivals + e)
    start, count = tl.load(w.base.start + e), tl.load(w.base.count + e)
    if s.redraw:
        # Draws of an episode: one for the first pod, two for each after it, its gap the second.
        state = tl.load(w.lanes.drawn_from + e)
        drawn = _below(state + _STEP * tl.maximum(2 * pod, 1), count)
        gap = _below(state + _STEP * (2 * (pod + 1) + 1), tl.load(w.base.gap_count + e))
        following = arrival + tl.load(w.base.gap + tl.load(w.base.gap_start + e) + gap)
    else:
        drawn = tl.minimum(pod, count - 1)
        following = tl.load(w.base.arrival + start + tl.minimum(pod + 1, count - 1))
    at_pod = e * s.pods + pod
    c = tl.load(w.base.pod_class + start + drawn)
    tl.store(w.pods.pod_class + at_pod, c)
    tl.store(w.pods.level + at_pod, tl.load(w.classes.level + c))
    tl.store(w.pods.work + at_pod, tl.load(w.base.work + start + drawn))
    tl.store(w.pods.attempts + at_pod, tl.zeros((), tl.int64))
    tl.debug_barrier()
    expect(w, s, e, c, 1)
    enqueue(w, s, e, pod)
    if pod + 1 >= tl.load(w.base.episode + e):
        following = tl.full((), float("inf"), tl.float64)
    tl.store(w.lanes.arrivals + e, pod + 1)
    tl.store(w.lanes.arrival + e, following)
    tl.debug_barrier()
    return following


@triton.jit
def _below(state, bound):
    """`splitmix.next_below`"""
    z = (state ^ _shifted(state, 30)) * _MIX_A
    z = (z ^ _shifted(z, 27)) * _MIX_B
    z = z ^ _shifted(z, 31)
    return _shifted(z, 1) % bound


@triton.jit
def _shifted(z, places: tl.constexpr):
    """To the right, zeros coming in from the left."""
    return (z >> places) & ((1 << (64 - places)) - 1)


@triton.jit
def _come_back(w, s, e, clock):
    """Those whose back-off has ended stand in the queue again."""
    arrived = tl.load(w.lanes.arrivals + e)
    eligible = tl.zeros((), tl.int64)
    for block in range(0, arrived, s.pod_block):
        i = block + tl.arange(0, s.pod_block)
        at_pod = e * s.pods + i
        backing_off = tl.load(w.pods.status + at_pod, i < arrived, other=0) == _BACKING_OFF
        back = backing_off & (tl.load(w.pods.when + at_pod, backing_off, other=0.0) <= clock)
        tl.store(w.pods.status + at_pod, tl.full((s.pod_block,), _ACTIVE, tl.int8), back)
        eligible += tl.sum(back.to(tl.int64), 0)
    add_one(w.lanes.eligible + e, eligible)
    tl.debug_barrier()


@triton.jit
def _hand_out(w, s, e):
    """The first of the queue is to be decided about; woken pods come when nobody else stands there."""
    # Mostly somebody has just come, and nobody else stands there.
    pod = tl.maximum(tl.load(w.lanes.arrivals + e) - 1, 0)
    alone = tl.load(w.lanes.eligible + e) == 1
    if not (alone & (tl.load(w.pods.status + e * s.pods + pod) == _ACTIVE)):
        pod = first_in_queue(w, s, e)
    tl.store(w.pods.status + e * s.pods + pod, _DECIDING)
    tl.store(w.lanes.pod + e, pod)
    add_one(w.lanes.waiting + e, -1)
    add_one(w.lanes.eligible + e, -1)
    if s.completion:
        pay_for_time(w, e)
    tl.store(w.lanes.phase + e, _DECIDE)
    tl.debug_barrier()
