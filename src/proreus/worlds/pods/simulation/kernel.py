"""The pods world in motion: `advance` until someone must decide, `apply` what was decided.

Event order at one moment: departures, arrivals, ended back-offs; then decisions, one at a
time, highest priority first, then longest in the queue.
"""

from __future__ import annotations

import math

from proreus.kernels.compiled import compiled
from proreus.worlds.pods.simulation.columns import (
    ACTIVE,
    ALIVE,
    ATTEMPT_LIMIT,
    BACKING_OFF,
    DECISIONS,
    DONE,
    DROP_FAILURES,
    EVICTIONS,
    FAILED,
    NEXT_ARRIVAL,
    PLACEMENTS,
    POOL_SIZE,
    POOLED,
    REJECTED,
    REQUEUE_EVICTED,
    RUNNING,
    SEQUENCE,
    SKIP_BACKOFF_WHEN_IDLE,
    TICKED,
    Run,
)
from proreus.worlds.pods.simulation.heap import heap_drop, heap_pop, heap_push
from proreus.worlds.pods.simulation.recorder import count_use, move_clock, record
from proreus.worlds.pods.simulation.ticked import bind, tick_node
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.devices import tightest_devices
from proreus.worlds.pods.state.filters import CURABLE, OK
from proreus.worlds.pods.state.legality import local_refusal, prepare, refusal
from proreus.worlds.pods.state.placement import place, remove
from proreus.worlds.pods.state.victims import choose_victims

FINISHED = -1

# What `apply` answers.
APPLIED, ILLEGAL_PLACE, ILLEGAL_DEVICES, ILLEGAL_PREEMPT, ILLEGAL_ACTION = range(5)

_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 10.0


@compiled
def advance(cluster: Cluster, state: State, run: Run) -> int:
    """The next pod to decide about, or FINISHED when nothing more can happen."""
    while run.active.size[0] == 0:
        time = _next_time(run)
        if math.isinf(time):
            _fail_pooled(run)
            return FINISHED
        second = math.floor(run.clock[0])
        move_clock(run, time)
        if run.options[TICKED]:
            if math.floor(time) > second:  # arrivals may come between ticks
                _tick(cluster, state, run)
        else:
            while run.running.size[0] > 0 and run.running.first[run.running.order[0]] <= time:
                _finish(cluster, state, run, run.running.order[0])
        while run.counters[NEXT_ARRIVAL] < run.arrival.shape[0]:
            pod = run.counters[NEXT_ARRIVAL]
            if run.arrival[pod] > time:
                break
            run.counters[NEXT_ARRIVAL] += 1
            c = cluster.pod_class[pod]
            run.arrived[0] += cluster.classes.gpu_num[c] * cluster.classes.gpu_milli[c]
            _activate(cluster, run, pod, time)
        while run.backoff.size[0] > 0 and run.backoff.first[run.backoff.order[0]] <= time:
            _activate(cluster, run, heap_pop(run.backoff), time)
    return heap_pop(run.active)


@compiled
def _next_time(run: Run) -> float:
    time = math.inf
    if run.counters[NEXT_ARRIVAL] < run.arrival.shape[0]:
        time = run.arrival[run.counters[NEXT_ARRIVAL]]
    if run.backoff.size[0] > 0:
        time = min(time, run.backoff.first[run.backoff.order[0]])
    if run.options[TICKED]:
        if run.counters[ALIVE] > 0:
            time = min(time, math.floor(run.clock[0]) + 1.0)
    elif run.running.size[0] > 0:
        time = min(time, run.running.first[run.running.order[0]])
    return max(time, run.clock[0])


@compiled
def _activate(cluster: Cluster, run: Run, pod: int, since: float) -> None:
    run.status[pod] = ACTIVE
    run.queued[pod] = since
    priority = cluster.classes.priority[cluster.pod_class[pod]]
    heap_push(run.active, pod, -float(priority), since, run.counters[SEQUENCE])
    run.counters[SEQUENCE] += 1


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
    run.status[pod] = DONE
    run.finished[pod] = run.clock[0]
    n = state.pod_node[pod]
    _take_off(cluster, state, run, pod)
    _wake(cluster, state, run, n, cluster.pod_class[pod])


@compiled
def _take_off(cluster: Cluster, state: State, run: Run, pod: int) -> None:
    """Remove a running pod from its node and from the measures."""
    heap_drop(run.running, pod)
    n = state.pod_node[pod]
    before = state.fragment[n]
    remove(cluster, state, pod)
    count_use(cluster, run, cluster.pod_class[pod], -1, state.fragment[n] - before)
    record(cluster, state, run, waiting(run))


@compiled
def waiting(run: Run) -> int:
    """Pods that stand in the queue, back off or wait for room; not the one being decided about."""
    return run.active.size[0] + run.backoff.size[0] + run.counters[POOL_SIZE]


@compiled
def _wake(cluster: Cluster, state: State, run: Run, n: int, gone: int) -> None:
    """A pod of class `gone` left node n: bring back the pooled pods that this may help (queueing hints).

    Those that fit on the node by itself; those that would fit if they evicted whom they may; and those
    whose affinity, anti-affinity or spread has to do with the pod that left.
    """
    kept = 0
    for i in range(run.counters[POOL_SIZE]):
        pod = run.pool[i]
        c = cluster.pod_class[pod]
        if (
            local_refusal(cluster, state, c, n) == OK
            or _room_by_eviction(cluster, state, c, n)
            or _counts(cluster, c, gone)
            or _excludes(cluster, c, gone)
        ):
            _bring_back(cluster, run, pod)
        else:
            run.pool[kept] = pod
            kept += 1
    run.counters[POOL_SIZE] = kept


@compiled
def _room_by_eviction(cluster: Cluster, state: State, c: int, n: int) -> bool:
    """Whether node n has pods that class c may evict, and would have every resource for it without them."""
    classes = cluster.classes
    if not classes.may_preempt[c]:
        return False
    lower = False
    pod = state.first[n]
    while pod >= 0 and not lower:
        lower = classes.priority[cluster.pod_class[pod]] < classes.priority[c]
        pod = state.following[pod]
    if not lower:
        return False
    for r in range(state.free.shape[1]):
        free = state.free[n, r]
        pod = state.first[n]
        while pod >= 0 and free < classes.request[c, r]:
            other = cluster.pod_class[pod]
            if classes.priority[other] < classes.priority[c]:
                free += classes.request[other, r]
            pod = state.following[pod]
        if free < classes.request[c, r]:
            return False
    return True


@compiled
def _wake_related(cluster: Cluster, run: Run, placed: int) -> None:
    """A pod of class `placed` came: bring back pooled pods whose affinity or spread counts such pods."""
    kept = 0
    for i in range(run.counters[POOL_SIZE]):
        pod = run.pool[i]
        if _counts(cluster, cluster.pod_class[pod], placed):
            _bring_back(cluster, run, pod)
        else:
            run.pool[kept] = pod
            kept += 1
    run.counters[POOL_SIZE] = kept


@compiled
def _counts(cluster: Cluster, waiting: int, other: int) -> bool:
    """Whether required affinity or hard spread of class `waiting` counts pods of class `other`."""
    terms = cluster.terms
    for e in range(terms.need_start[waiting], terms.need_start[waiting + 1]):
        if terms.selects[terms.need[e], other]:
            return True
    for e in range(terms.spread_start[waiting], terms.spread_start[waiting + 1]):
        if terms.spread_hard[e] and terms.selects[terms.spread[e], other]:
            return True
    return False


@compiled
def _excludes(cluster: Cluster, waiting: int, other: int) -> bool:
    """Whether required anti-affinity keeps pods of the two classes apart, whoever asks for it."""
    terms = cluster.terms
    for e in range(terms.avoid_start[waiting], terms.avoid_start[waiting + 1]):
        if terms.selects[terms.avoid[e], other]:
            return True
    for e in range(terms.avoid_start[other], terms.avoid_start[other + 1]):
        if terms.selects[terms.avoid[e], waiting]:
            return True
    return False


@compiled
def _bring_back(cluster: Cluster, run: Run, pod: int) -> None:
    """From the pool to the queue, at once where the scheduler is idle, else after the back-off."""
    if run.options[SKIP_BACKOFF_WHEN_IDLE]:
        _activate(cluster, run, pod, run.clock[0])
    else:
        _back_off(run, pod)


@compiled
def _back_off(run: Run, pod: int) -> None:
    """1 s doubling to 10 s, ending on a whole second as kube's flush does."""
    wait = min(_FIRST_BACKOFF * 2.0 ** max(run.attempts[pod] - 1, 0), _LONGEST_BACKOFF)
    run.status[pod] = BACKING_OFF
    heap_push(run.backoff, pod, math.ceil(run.clock[0] + wait), 0.0, run.counters[SEQUENCE])
    run.counters[SEQUENCE] += 1


@compiled
def _fail_pooled(run: Run) -> None:
    """Nothing will ever change again: what still waits has failed."""
    for i in range(run.counters[POOL_SIZE]):
        run.status[run.pool[i]] = FAILED
    run.counters[POOL_SIZE] = 0


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
            _wake(cluster, state, run, n, cluster.pod_class[scratch.pods[i]])
        if run.counters[POOL_SIZE] > 0:
            _wake_related(cluster, run, c)
    elif action == 2 * nodes:
        _delay(cluster, state, run, scratch, pod)
    else:
        run.status[pod] = REJECTED
    run.counters[DECISIONS] += 1
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
    place(cluster, state, pod, n, devices, now)
    count_use(cluster, run, cluster.pod_class[pod], 1, state.fragment[n] - before)
    run.status[pod] = RUNNING
    run.started[pod] = now
    run.where[pod] = n
    run.counters[PLACEMENTS] += 1
    if run.options[TICKED]:
        bind(cluster, state, run, pod, n)
    elif not math.isinf(run.work[pod]):
        pace = cluster.nodes.pace[n]
        end = now + pace[1] + run.work[pod] / pace[0]
        heap_push(run.running, pod, end, 0.0, state.pod_rank[pod])


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
        run.counters[EVICTIONS] += 1
        if run.options[REQUEUE_EVICTED]:
            _activate(cluster, run, victim, run.clock[0])
        else:
            run.status[victim] = FAILED
    return victims


@compiled
def _delay(cluster: Cluster, state: State, run: Run, scratch: Scratch, pod: int) -> None:
    """No legal node: pool the pod until room comes free, or drop it. Else waiting was a choice: back off."""
    run.attempts[pod] += 1
    limit = run.options[ATTEMPT_LIMIT]
    if fits_somewhere(cluster, state, cluster.pod_class[pod], scratch):
        if 0 < limit <= run.attempts[pod]:
            run.status[pod] = FAILED
        else:
            _back_off(run, pod)
    elif run.options[DROP_FAILURES]:
        run.status[pod] = FAILED
    else:
        run.status[pod] = POOLED
        run.pool[run.counters[POOL_SIZE]] = pod
        run.counters[POOL_SIZE] += 1


@compiled
def fits_somewhere(cluster: Cluster, state: State, c: int, scratch: Scratch) -> bool:
    """Whether any node may take a pod of class c now."""
    prepare(cluster, state, c, scratch)
    for n in range(state.first.shape[0]):
        if refusal(cluster, state, c, n, scratch) == OK:
            return True
    return False
