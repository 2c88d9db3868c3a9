"""The queue of waiting pods: where a pod stands in it, how long it backs off, what wakes it from the pool.

As in kube-scheduler a pod goes by its priority and by the time of its last failed decision, from which the
back-off counts too. A pod that is woken while it backs off is taken only when no other is in the queue.
"""

from __future__ import annotations

import math

from proreus.kernels.compiled import compiled
from proreus.worlds.pods.simulation.columns import (
    ACTIVE,
    BACKING_OFF,
    POOL_SIZE,
    SEQUENCE,
    SKIP_BACKOFF_WHEN_IDLE,
    Run,
)
from proreus.worlds.pods.simulation.heap import heap_push
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.filters import OK
from proreus.worlds.pods.state.legality import local_refusal
from proreus.worlds.pods.state.victims import room_by_eviction

_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 10.0


@compiled
def stamp(run: Run, pod: int) -> None:
    """Note when the pod came into the queue, or failed: the time that its place in the queue goes by."""
    run.queued[pod] = run.clock[0]
    run.ticket[pod] = run.counters[SEQUENCE]
    run.counters[SEQUENCE] += 1


@compiled
def enqueue(cluster: Cluster, run: Run, pod: int) -> None:
    """A pod that is new to the queue."""
    stamp(run, pod)
    activate(cluster, run, pod)


@compiled
def activate(cluster: Cluster, run: Run, pod: int) -> None:
    """Into the queue, at the place that its stamp gives it."""
    run.status[pod] = ACTIVE
    priority = cluster.classes.priority[cluster.pod_class[pod]]
    heap_push(run.active, pod, -float(priority), run.queued[pod], run.ticket[pod])


@compiled
def _bring_back(cluster: Cluster, run: Run, pod: int) -> None:
    """From the pool to the queue; while the pod backs off, behind all others, or after the back-off."""
    end = backoff_end(run, pod)
    if end <= run.clock[0]:
        activate(cluster, run, pod)
    elif run.options[SKIP_BACKOFF_WHEN_IDLE]:
        run.status[pod] = ACTIVE
        priority = cluster.classes.priority[cluster.pod_class[pod]]
        heap_push(run.woken, pod, end, -float(priority), run.ticket[pod])
    else:
        back_off(run, pod, end)


@compiled
def backoff_end(run: Run, pod: int) -> float:
    """1 s doubling to 10 s from the failed decision on, until the second in which it ends is over."""
    wait = min(_FIRST_BACKOFF * 2.0 ** max(run.attempts[pod] - 1, 0), _LONGEST_BACKOFF)
    return math.floor(run.queued[pod] + wait) + 1.0


@compiled
def back_off(run: Run, pod: int, end: float) -> None:
    run.status[pod] = BACKING_OFF
    heap_push(run.backoff, pod, end, 0.0, run.ticket[pod])


@compiled
def wake(cluster: Cluster, state: State, run: Run, n: int, gone: int) -> None:
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
            or (cluster.classes.may_preempt[c] and room_by_eviction(cluster, state, c, n))
            or _counts(cluster, c, gone)
            or _excludes(cluster, c, gone)
        ):
            _bring_back(cluster, run, pod)
        else:
            run.pool[kept] = pod
            kept += 1
    run.counters[POOL_SIZE] = kept


@compiled
def wake_related(cluster: Cluster, run: Run, placed: int) -> None:
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
