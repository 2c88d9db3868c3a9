"""What happens to the state of an open cluster: pods come, are bound and go; rows are counted anew."""

from __future__ import annotations

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.fragmentation import node_fragment
from proreus.worlds.pods.state.placement import expect, note_change, place, remove, shift

NOWHERE = -1


@compiled
def admit(cluster: Cluster, state: State, pod: int, n: int, devices: int, since: float) -> None:
    """A pod came: waiting, or on node n."""
    expect(cluster, state, cluster.pod_class[pod], 1)
    if n != NOWHERE:
        place(cluster, state, pod, n, devices, since)


@compiled
def dismiss(cluster: Cluster, state: State, base_load: F64, pod: int) -> int:
    """A pod goes, waiting or running; returns the class that it was of. base_load: float64[N, 2]."""
    c = cluster.pod_class[pod]
    expect(cluster, state, c, -1)
    n = state.pod_node[pod]
    if n != NOWHERE:
        remove(cluster, state, pod)
        _sum_load(cluster, state, base_load, n)
    cluster.pod_class[pod] = -1
    return c


@compiled
def weigh(
    cluster: Cluster, state: State, base_load: F64, n: int, measured: tuple[float, float], before: float
) -> None:
    """The load of node n is what was measured (mean, variance), and what pods bring that came later.

    before: pods that have been there since then were measured, too.
    """
    base_load[n, 0], base_load[n, 1] = measured
    pod = state.first[n]
    while pod >= 0:
        if state.pod_since[pod] <= before:
            c = cluster.pod_class[pod]
            base_load[n, 0] -= cluster.classes.load[c, 0]
            base_load[n, 1] -= cluster.classes.load[c, 1]
        pod = state.following[pod]
    _sum_load(cluster, state, base_load, n)
    note_change(cluster, state, n)


@compiled
def _sum_load(cluster: Cluster, state: State, base_load: F64, n: int) -> None:
    """The load of node n summed anew in order of placement: floating point does not subtract back.

    Less than nothing, where measured pods used less than expected and went, counts as nothing.
    """
    mean, variance = base_load[n, 0], base_load[n, 1]
    pod = _oldest(state, n)
    while pod >= 0:
        c = cluster.pod_class[pod]
        mean += cluster.classes.load[c, 0]
        variance += cluster.classes.load[c, 1]
        pod = state.preceding[pod]
    state.load[n, 0] = max(mean, 0.0)
    state.load[n, 1] = max(variance, 0.0)


@compiled
def _oldest(state: State, n: int) -> int:
    """The pod that is longest on node n, -1 where there is none; `preceding` leads to the newer ones."""
    pod = state.first[n]
    while pod >= 0 and state.following[pod] >= 0:
        pod = state.following[pod]
    return pod


@compiled
def lift(cluster: Cluster, state: State, n: int) -> None:
    """Take what the pods of node n add to every sum out of it; they stay in the node's list."""
    pod = state.first[n]
    while pod >= 0:
        shift(cluster, state, cluster.pod_class[pod], n, state.pod_devices[pod], -1)
        pod = state.following[pod]


@compiled
def lower(cluster: Cluster, state: State, n: int) -> None:
    """The reverse of `lift`, in order of placement."""
    pod = _oldest(state, n)
    while pod >= 0:
        shift(cluster, state, cluster.pod_class[pod], n, state.pod_devices[pod], 1)
        pod = state.preceding[pod]
    note_change(cluster, state, n)


@compiled
def count_term(cluster: Cluster, state: State, t: int) -> None:
    """Count the running pods that a new term selects; no pod exerts or avoids it yet."""
    key = cluster.terms.key[t]
    for pod in range(cluster.pod_class.shape[0]):
        n = state.pod_node[pod]
        if n >= 0 and cluster.terms.selects[t, cluster.pod_class[pod]]:
            state.matching[t, n] += 1
            d = cluster.nodes.domain[key, n]
            if d >= 0:
                state.matching_in[t, d] += 1
                state.matching_all[t] += 1


@compiled
def count_budget(cluster: Cluster, state: State, b: int, first: int) -> None:
    """Count the pods of a new budget, from pod row `first` on."""
    for pod in range(first, cluster.pod_class.shape[0]):
        c = cluster.pod_class[pod]
        if c >= 0 and cluster.budgets.selects[b, c]:
            state.expected[b] += 1
            if state.pod_node[pod] >= 0:
                state.healthy[b] += 1


@compiled
def refill_fragments(cluster: Cluster, state: State) -> None:
    """The fragmentation of every node as it stands, after typical pods changed."""
    for n in range(state.fragment.shape[0]):
        state.fragment[n] = node_fragment(
            cluster.typical,
            cluster.nodes.gpu_model[n],
            state.free[n, 0],
            state.gpu_left[n],
            cluster.nodes.gpu_count[n],
        )
