"""Starting a run over inside a kernel: an empty cluster, and pods drawn anew from a base workload."""

from __future__ import annotations

import math

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.pods.simulation.columns import FUTURE, STRIDE, Heap, Run
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.fragmentation import fill_fragments

# So many events between two samples of the curve: a run that nobody will plot takes none.
_NO_CURVE = 1 << 62


@compiled
def clear_state(cluster: Cluster, state: State) -> None:
    """The cluster with nothing on it. Caches over `state` must forget what they saw."""
    nodes = cluster.nodes
    state.free[:] = nodes.allocatable
    for n in range(state.first.shape[0]):
        for d in range(state.gpu_left.shape[1]):
            state.gpu_left[n, d] = 1000 if d < nodes.gpu_count[n] else 0
    fill_fragments(cluster, state.gpu_left, state.fragment)
    state.scored[:] = 0
    state.expected[:] = 0
    state.load[:] = 0.0
    state.kinds[:] = 0
    state.ports_used[:] = 0
    state.matching[:] = 0
    state.matching_in[:] = 0
    state.matching_all[:] = 0
    state.avoided_in[:] = 0
    state.drawn_in[:] = 0
    state.healthy[:] = 0
    state.pod_node[:] = -1
    state.pod_devices[:] = 0
    state.pod_since[:] = 0.0
    state.pod_rank[:] = 0
    state.first[:] = -1
    state.following[:] = -1
    state.preceding[:] = -1
    state.changed[:] = 0
    state.counts[:] = 0


@compiled
def clear_run(state: State, run: Run) -> None:
    """The run before its first arrival, without a curve; arrivals, work and bindings stay as they are."""
    run.status[:] = FUTURE
    run.attempts[:] = 0
    run.queued[:] = 0.0
    run.started[:] = math.nan
    run.finished[:] = math.nan
    run.evicted[:] = 0
    run.where[:] = -1
    _clear_heap(run.active)
    _clear_heap(run.backoff)
    _clear_heap(run.running)
    _clear_heap(run.woken)
    run.ticket[:] = 0
    run.barren[:] = -1
    run.clock[0] = run.arrival[0]
    run.used[:] = 0.0
    run.used[run.used.shape[0] - 1] = state.fragment.sum()
    run.peak[:] = run.used
    run.integral[:] = 0.0
    run.paid[:] = 0.0
    run.arrived[0] = 0.0
    run.presence[0] = 0.0
    run.countdown[:] = 0.0
    run.remaining[:] = math.nan
    run.counters[:] = 0
    run.counters[STRIDE] = _NO_CURVE


@compiled
def _clear_heap(heap: Heap) -> None:
    heap.slot[:] = -1
    heap.size[0] = 0


@compiled
def redraw(pod_class: I64, run: Run, base_class: I64, base_work: F64, base_gap: F64, rng: U64) -> None:
    """Draw every pod's class with its work from one pod of the base, and the gap before it from another.

    pod_class: int64[P] is filled, and the arrivals and work of `run`; the base may have any number of pods.
    """
    time = 0.0
    for pod in range(pod_class.shape[0]):
        drawn = next_below(rng, base_class.shape[0])
        pod_class[pod] = base_class[drawn]
        run.work[pod] = base_work[drawn]
        if pod > 0:
            time += base_gap[next_below(rng, base_gap.shape[0])]
        run.arrival[pod] = time
