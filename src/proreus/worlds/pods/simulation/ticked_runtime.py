"""The ticked runtime: one-second ticks, containers that start one after the other, CPU contention.

These are the rules of the k8s simulator (decision note 0003). A placed pod first counts
down its container creation; each node starts at most one container per `start_spacing`;
running pods share the node's CPU between request and limit and finish when their work is
done. Work per tick of a GPU pod is 7.5 x speed x (cpu - 0.05) up to one core, of a CPU pod
a concave function of the cpu it gets.
"""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled
from proreus.worlds.pods.simulation.columns import Run
from proreus.worlds.pods.state.columns import Cluster, State

_GPU_RATE = 7.5
_GPU_OVERHEAD = 0.05
LEAST_GPU_CPU = 50
"""Thousandths of a core below which a GPU pod does no work at all."""
_SPEED, _CREATION, _EXTRA, _SPACING, _MINIMUM, _THRESHOLD = range(6)


@compiled
def bind(cluster: Cluster, state: State, run: Run, pod: int, n: int) -> None:
    """Start the countdown of a pod just placed on node n; those still counting there are held up by it."""
    pace = cluster.nodes.pace[n]
    longest = pace[_CREATION]
    other = state.first[n]
    while other >= 0:
        if other != pod and math.isnan(run.remaining[other]):
            run.countdown[other] += pace[_EXTRA]
            longest = max(longest, run.countdown[other])
        other = state.following[other]
    run.countdown[pod] = longest
    run.remaining[pod] = math.nan


@compiled
def tick_node(cluster: Cluster, state: State, run: Run, n: int) -> None:
    """One tick of node n: count down, start at most one container, work."""
    spacing = cluster.nodes.pace[n, _SPACING]
    ready = -1
    pod = state.first[n]
    while pod >= 0:
        if math.isnan(run.remaining[pod]):
            run.countdown[pod] -= 1.0
            if run.countdown[pod] <= 0.0 and (ready < 0 or _starts_before(state, run, pod, ready)):
                ready = pod
        pod = state.following[pod]
    if ready >= 0 and (spacing == 0.0 or run.clock[0] % spacing == 0.0):
        run.remaining[ready] = run.work[ready]

    asked = 0.0
    limits = 0.0
    pod = state.first[n]
    while pod >= 0:
        if not math.isnan(run.remaining[pod]):
            asked += cluster.classes.request[cluster.pod_class[pod], 0] / 1000.0
            limits += cpu_limit(cluster, cluster.pod_class[pod])
        pod = state.following[pod]
    pod = state.first[n]
    while pod >= 0:
        if not math.isnan(run.remaining[pod]):
            run.remaining[pod] -= work_per_tick(cluster, cluster.pod_class[pod], n, asked, limits)
        pod = state.following[pod]


@compiled
def _starts_before(state: State, run: Run, a: int, b: int) -> bool:
    """Earliest submission first, then the order of placement."""
    if run.arrival[a] != run.arrival[b]:
        return run.arrival[a] < run.arrival[b]
    return state.pod_rank[a] < state.pod_rank[b]


@compiled
def cpu_limit(cluster: Cluster, c: int) -> float:
    """The CPU limit of class c in cores; without one, its request."""
    limit = max(cluster.classes.cpu_limit[c], cluster.classes.request[c, 0])
    return limit / 1000.0


@compiled
def work_per_tick(cluster: Cluster, c: int, n: int, asked: float, limits: float) -> float:
    """Work per second of a pod of class c when the node's pods ask for and are limited to so many cores."""
    request = cluster.classes.request[c, 0] / 1000.0
    limit = cpu_limit(cluster, c)
    capacity = cluster.nodes.allocatable[n, 0] / 1000.0
    cpu = limit
    if limits > asked:
        cpu = min(request + (limit - request) / (limits - asked) * (capacity - asked), limit)
    speed = cluster.nodes.pace[n, _SPEED]
    if cluster.classes.gpu_num[c] > 0:
        return _GPU_RATE * speed if cpu > 1.0 else _GPU_RATE * (cpu - _GPU_OVERHEAD) * speed
    return slowed_speed(cluster, n, asked / capacity) * cpu_yield(cpu)


@compiled
def slowed_speed(cluster: Cluster, n: int, share_asked: float) -> float:
    """The speed of node n when so much of its CPU is asked for."""
    speed = cluster.nodes.pace[n, _SPEED]
    least, threshold = cluster.nodes.pace[n, _MINIMUM], cluster.nodes.pace[n, _THRESHOLD]
    if least <= 0.0 or threshold <= 0.0:
        return speed
    if share_asked > 0.99:
        return least
    if share_asked > threshold and speed > least:
        return speed - (share_asked - threshold) / (1.0 - threshold) * (speed - least)
    return speed


@compiled
def cpu_yield(cpu: float) -> float:
    """Work per second at speed 1 of a CPU pod that gets so many cores (the simulator's measured steps)."""
    if cpu > 3.2:
        return 3.0
    if cpu > 2.8:
        return cpu - 0.2
    if cpu > 2.6:
        return cpu - 0.25
    if cpu > 0.8:
        return cpu - 0.3
    if cpu > 0.64:
        return cpu - 0.27
    if cpu > 0.45:
        return cpu - 0.24
    return 0.46 * cpu
