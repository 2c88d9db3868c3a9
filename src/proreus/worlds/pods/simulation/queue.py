"""The queue of waiting pods: where a pod stands in it, how long it backs off, what wakes it from the pool.

As in kube-scheduler a pod goes by its priority and by the time of its last failed decision, from which the
back-off counts too. A pod that is woken while it backs off is taken only when no other is in the queue.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.pods.simulation import columns as c
from proreus.worlds.pods.simulation.columns import Run
from proreus.worlds.pods.simulation.heap import heap_push
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.queueing_hints import backoff_end, coming_helps, leaving_helps


@compiled
def stamp(run: Run, pod: int) -> None:
    """Note when the pod came into the queue, or failed: the time that its place in the queue goes by."""
    run.queued[pod] = run.clock[0]
    run.ticket[pod] = run.counters[c.SEQUENCE]
    run.counters[c.SEQUENCE] += 1


@compiled
def enqueue(cluster: Cluster, run: Run, pod: int) -> None:
    """A pod that is new to the queue."""
    stamp(run, pod)
    activate(cluster, run, pod)


@compiled
def activate(cluster: Cluster, run: Run, pod: int) -> None:
    """Into the queue, at the place that its stamp gives it."""
    run.status[pod] = c.ACTIVE
    priority = cluster.classes.priority[cluster.pod_class[pod]]
    heap_push(run.active, pod, -float(priority), run.queued[pod], run.ticket[pod])


@compiled
def _bring_back(cluster: Cluster, run: Run, pod: int) -> None:
    """From the pool to the queue; while the pod backs off, behind all others, or after the back-off."""
    end = backoff_end(run.queued[pod], run.attempts[pod])
    if end <= run.clock[0]:
        activate(cluster, run, pod)
    elif run.options[c.SKIP_BACKOFF_WHEN_IDLE]:
        run.status[pod] = c.ACTIVE
        priority = cluster.classes.priority[cluster.pod_class[pod]]
        heap_push(run.woken, pod, end, -float(priority), run.ticket[pod])
    else:
        back_off(run, pod, end)


@compiled
def back_off(run: Run, pod: int, end: float) -> None:
    run.status[pod] = c.BACKING_OFF
    heap_push(run.backoff, pod, end, 0.0, run.ticket[pod])


@compiled
def wake(cluster: Cluster, state: State, run: Run, n: int, gone: int) -> None:
    """A pod of class `gone` left node n: bring back the pooled pods that this may help."""
    kept = 0
    for i in range(run.counters[c.POOL_SIZE]):
        pod = run.pool[i]
        if leaving_helps(cluster, state, cluster.pod_class[pod], n, gone):
            _bring_back(cluster, run, pod)
        else:
            run.pool[kept] = pod
            kept += 1
    run.counters[c.POOL_SIZE] = kept


@compiled
def wake_related(cluster: Cluster, run: Run, placed: int) -> None:
    """A pod of class `placed` came: bring back pooled pods whose affinity or spread counts such pods."""
    kept = 0
    for i in range(run.counters[c.POOL_SIZE]):
        pod = run.pool[i]
        if coming_helps(cluster, cluster.pod_class[pod], placed):
            _bring_back(cluster, run, pod)
        else:
            run.pool[kept] = pod
            kept += 1
    run.counters[c.POOL_SIZE] = kept
