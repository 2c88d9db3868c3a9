"""The pods world in motion: `advance` until someone must decide, `apply` what was decided.

Event order at one moment: departures, arrivals, ended back-offs; then decisions, one at a
time, highest priority first, then longest in the queue. Pods that were woken while they back
off come after these, by the second in which their back-off ends.
"""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled
from proreus.worlds.pods.simulation import columns as cols
from proreus.worlds.pods.simulation.columns import Run
from proreus.worlds.pods.simulation.heap import heap_drop, heap_pop, heap_push
from proreus.worlds.pods.simulation.queue import (
    activate,
    back_off,
    enqueue,
    stamp,
    wake,
    wake_related,
)
from proreus.worlds.pods.simulation.recorder import count_use, move_clock, record
from proreus.worlds.pods.simulation.ticked_runtime import bind, tick_node
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.devices import devices_fit, tightest_devices
from proreus.worlds.pods.state.filters import CURABLE, OK
from proreus.worlds.pods.state.legality import (
    local_refusal,
    prepare,
    refusal,
    related_refusal,
    still_barren,
)
from proreus.worlds.pods.state.placement import expect, place, remove
from proreus.worlds.pods.state.queueing_hints import backoff_end
from proreus.worlds.pods.state.victims import choose_victims

FINISHED = -1

# What `apply` answers.
APPLIED, ILLEGAL_PLACE, ILLEGAL_DEVICES, ILLEGAL_PREEMPT, ILLEGAL_ACTION = range(5)


@compiled
def advance(cluster: Cluster, state: State, run: Run) -> int:
    """The next pod to decide about, or FINISHED when nothing more can happen."""
    while run.active.size[0] == 0:
        if run.woken.size[0] > 0:
            return heap_pop(run.woken)
        time = _next_time(run)
        if math.isinf(time):
            _fail_pooled(run)
            return FINISHED
        second = math.floor(run.clock[0])
        move_clock(run, time)
        if run.options[cols.TICKED]:
            if math.floor(time) > second:  # arrivals may come between ticks
                _tick(cluster, state, run)
        else:
            while run.running.size[0] > 0 and run.running.first[run.running.order[0]] <= time:
                _finish(cluster, state, run, run.running.order[0])
        while run.counters[cols.NEXT_ARRIVAL] < run.arrival.shape[0]:
            pod = run.counters[cols.NEXT_ARRIVAL]
            if run.arrival[pod] > time:
                break
            run.counters[cols.NEXT_ARRIVAL] += 1
            c = cluster.pod_class[pod]
            run.arrived[0] += cluster.classes.gpu_num[c] * cluster.classes.gpu_milli[c]
            expect(cluster, state, c, 1)
            if run.bound[pod] >= 0:
                _start_bound(cluster, state, run, pod)
            else:
                enqueue(cluster, run, pod)
        while run.backoff.size[0] > 0 and run.backoff.first[run.backoff.order[0]] <= time:
            activate(cluster, run, heap_pop(run.backoff))
    return heap_pop(run.active)


@compiled
def _next_time(run: Run) -> float:
    time = math.inf
    if run.counters[cols.NEXT_ARRIVAL] < run.arrival.shape[0]:
        time = run.arrival[run.counters[cols.NEXT_ARRIVAL]]
    if run.backoff.size[0] > 0:
        time = min(time, run.backoff.first[run.backoff.order[0]])
    if run.options[cols.TICKED]:
        if run.counters[cols.ALIVE] > 0:
            time = min(time, math.floor(run.clock[0]) + 1.0)
    elif run.running.size[0] > 0:
        time = min(time, run.running.first[run.running.order[0]])
    return max(time, run.clock[0])


@compiled
def _tick(cluster: Cluster, state: State, run: Run) -> None:
    """One second of the ticked runtime on every node that has pods."""
    for n in range(state.first.shape[0]):
        if state.first[n] < 0:
            continue
        tick_node(cluster, state, run, n)
        pod = state.first[n]
        while pod >= 0:
            after = state.following[pod]
            if run.remaining[pod] <= 0.0:  # NaN, not yet started, compares false
                _finish(cluster, state, run, pod)
            pod = after


@compiled
def _finish(cluster: Cluster, state: State, run: Run, pod: int) -> None:
    run.status[pod] = cols.DONE
    run.finished[pod] = run.clock[0]
    expect(cluster, state, cluster.pod_class[pod], -1)
    n = state.pod_node[pod]
    _take_off(cluster, state, run, pod)
    wake(cluster, state, run, n, cluster.pod_class[pod])


@compiled
def _take_off(cluster: Cluster, state: State, run: Run, pod: int) -> None:
    """Remove a running pod from its node and from the measures."""
    heap_drop(run.running, pod)
    n = state.pod_node[pod]
    before = state.fragment[n]
    remove(cluster, state, pod)
    if state.first[n] < 0:
        run.paid[0] -= run.price[n]
    count_use(cluster, run, cluster.pod_class[pod], -1, state.fragment[n] - before)
    record(cluster, state, run, waiting(run))


@compiled
def waiting(run: Run) -> int:
    """Pods that stand in the queue, back off or wait for room; not the one being decided about."""
    return run.active.size[0] + run.woken.size[0] + run.backoff.size[0] + run.counters[cols.POOL_SIZE]


@compiled
def _fail_pooled(run: Run) -> None:
    """Nothing will ever change again: what still waits has failed."""
    for i in range(run.counters[cols.POOL_SIZE]):
        run.status[run.pool[i]] = cols.FAILED
    run.counters[cols.POOL_SIZE] = 0


@compiled
def apply(
    cluster: Cluster, state: State, run: Run, scratch: Scratch, pod: int, choice: tuple[int, int]
) -> int:
    """Carry out `choice` = (flat action, device mask; 0 lets the tightest devices be taken) for `pod`."""
    action, devices = choice
    nodes = state.first.shape[0]
    if not 0 <= action < 2 * nodes + 2:
        return ILLEGAL_ACTION
    c = cluster.pod_class[pod]
    if action < 2 * nodes:
        n = action
        victims = 0
        if action >= nodes:
            n = action - nodes
            victims = _evict(cluster, state, run, scratch, pod, n)
            if victims == 0:
                return ILLEGAL_PREEMPT
        prepare(cluster, state, c, scratch)
        if refusal(cluster, state, c, n, scratch) != OK:
            return ILLEGAL_PLACE
        num, milli = cluster.classes.gpu_num[c], cluster.classes.gpu_milli[c]
        count = cluster.nodes.gpu_count[n]
        if devices == 0:
            devices = tightest_devices(state.gpu_left[n], count, num, milli)
        elif not _devices_legal(state, n, count, num, milli, devices):
            return ILLEGAL_DEVICES
        _start(cluster, state, run, pod, n, devices)
        for i in range(victims):
            wake(cluster, state, run, n, cluster.pod_class[scratch.pods[i]])
        if run.counters[cols.POOL_SIZE] > 0:
            wake_related(cluster, run, c)
    elif action == 2 * nodes:
        _delay(cluster, state, run, scratch, pod)
    else:
        run.status[pod] = cols.REJECTED
        expect(cluster, state, c, -1)
    run.counters[cols.DECISIONS] += 1
    record(cluster, state, run, waiting(run))
    return APPLIED


@compiled
def _devices_legal(state: State, n: int, count: int, num: int, milli: int, devices: int) -> bool:
    chosen = 0
    for d in range(count):
        if (devices >> d) & 1:
            if state.gpu_left[n, d] < milli:
                return False
            chosen += 1
    return chosen == num and (devices >> count) == 0


@compiled
def _start(cluster: Cluster, state: State, run: Run, pod: int, n: int, devices: int) -> None:
    now = run.clock[0]
    before = state.fragment[n]
    if state.first[n] < 0:
        run.paid[0] += run.price[n]
    place(cluster, state, pod, n, devices, now)
    count_use(cluster, run, cluster.pod_class[pod], 1, state.fragment[n] - before)
    run.status[pod] = cols.RUNNING
    run.started[pod] = now
    run.where[pod] = n
    run.counters[cols.PLACEMENTS] += 1
    if run.options[cols.TICKED]:
        bind(cluster, state, run, pod, n)
    elif not math.isinf(run.work[pod]):
        pace = cluster.nodes.pace[n]
        end = now + pace[1] + run.work[pod] / pace[0]
        heap_push(run.running, pod, end, 0.0, state.pod_rank[pod])


@compiled
def _start_bound(cluster: Cluster, state: State, run: Run, pod: int) -> None:
    """Start a pod on the node that it is bound to, whether it fits there or not."""
    n, c = run.bound[pod], cluster.pod_class[pod]
    num, milli = cluster.classes.gpu_num[c], cluster.classes.gpu_milli[c]
    count = cluster.nodes.gpu_count[n]
    devices = 0  # devices that the node does not have left are nobody's
    if devices_fit(state.gpu_left[n], count, num, milli):
        devices = tightest_devices(state.gpu_left[n], count, num, milli)
    _start(cluster, state, run, pod, n, devices)
    wake_related(cluster, run, c)
    record(cluster, state, run, waiting(run))


@compiled
def _evict(cluster: Cluster, state: State, run: Run, scratch: Scratch, pod: int, n: int) -> int:
    """Evict from node n whom the kube rules name for `pod`; how many, 0 where preemption is not legal."""
    c = cluster.pod_class[pod]
    prepare(cluster, state, c, scratch)
    if not cluster.classes.may_preempt[c] or not CURABLE[refusal(cluster, state, c, n, scratch)]:
        return 0
    victims, _ = choose_victims(cluster, state, c, n, scratch)
    if victims <= 0:
        return 0
    for i in range(victims):
        victim = scratch.pods[i]
        _take_off(cluster, state, run, victim)
        run.evicted[victim] += 1
        run.attempts[victim] = 0
        run.counters[cols.EVICTIONS] += 1
        if run.options[cols.REQUEUE_EVICTED]:
            enqueue(cluster, run, victim)
        else:
            run.status[victim] = cols.FAILED
            expect(cluster, state, cluster.pod_class[victim], -1)
    return victims


@compiled
def _delay(cluster: Cluster, state: State, run: Run, scratch: Scratch, pod: int) -> None:
    """No legal node: pool the pod until room comes free, or drop it. Else waiting was a choice: back off."""
    run.attempts[pod] += 1
    stamp(run, pod)
    limit = run.options[cols.ATTEMPT_LIMIT]
    if fits_somewhere(cluster, state, run, scratch, cluster.pod_class[pod]):
        if 0 < limit <= run.attempts[pod]:
            run.status[pod] = cols.FAILED
        else:
            back_off(run, pod, backoff_end(run.queued[pod], run.attempts[pod]))
    elif run.options[cols.DROP_FAILURES]:
        run.status[pod] = cols.FAILED
    else:
        run.status[pod] = cols.POOLED
        run.pool[run.counters[cols.POOL_SIZE]] = pod
        run.counters[cols.POOL_SIZE] += 1
    if run.status[pod] == cols.FAILED:
        expect(cluster, state, cluster.pod_class[pod], -1)


@compiled
def fits_somewhere(cluster: Cluster, state: State, run: Run, scratch: Scratch, c: int) -> bool:
    """Whether any node may take a pod of class c now."""
    if still_barren(cluster, state, run.barren, c):
        return False
    prepare(cluster, state, c, scratch)
    barren = True
    for n in range(state.first.shape[0]):
        if local_refusal(cluster, state, c, n) == OK:
            if related_refusal(cluster, state, c, n, scratch) == OK:
                return True
            barren = False
    if barren:
        run.barren[c] = state.counts[0]
    return False
