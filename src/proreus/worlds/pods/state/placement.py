"""What placing or removing a pod changes; who else writes `State` (`open_kernels`) does it with these.

`victims` shifts some of the sums for a dry run, and back.
"""

from __future__ import annotations

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.fragmentation import node_fragment


@compiled
def place(cluster: Cluster, state: State, pod: int, n: int, devices: int, now: float) -> None:
    """Put `pod` on node n and its GPU share on the devices of the bit mask."""
    state.pod_since[pod] = now
    state.pod_rank[pod] = state.counts[1]
    state.counts[1] += 1
    _attach(cluster, state, pod, n, devices)
    note_change(cluster, state, n)


@compiled
def place_without_gpus(cluster: Cluster, state: State, first: int, nodes: I64, since: F64) -> None:
    """nodes, since: [P]. Put the pods from `first` on, which hold no GPUs, on these nodes, in order."""
    for i in range(nodes.shape[0]):
        place(cluster, state, first + i, nodes[i], 0, since[i])


@compiled
def remove(cluster: Cluster, state: State, pod: int) -> None:
    """Take `pod` off its node."""
    n = state.pod_node[pod]
    _detach(cluster, state, pod)
    note_change(cluster, state, n)


@compiled
def expect(cluster: Cluster, state: State, c: int, sign: int) -> None:
    """One pod more (1) or fewer (-1) that its budgets count on, whether it runs or waits."""
    for b in range(state.expected.shape[0]):
        if cluster.budgets.selects[b, c]:
            state.expected[b] += sign


@compiled
def _attach(cluster: Cluster, state: State, pod: int, n: int, devices: int) -> None:
    """Into the list of the node and into every sum."""
    c = cluster.pod_class[pod]
    state.pod_node[pod] = n
    state.pod_devices[pod] = devices
    head = state.first[n]
    state.following[pod] = head
    state.preceding[pod] = -1
    if head >= 0:
        state.preceding[head] = pod
    state.first[n] = pod
    shift(cluster, state, c, n, devices, 1)


@compiled
def _detach(cluster: Cluster, state: State, pod: int) -> None:
    """The reverse of `_attach`."""
    c = cluster.pod_class[pod]
    n = state.pod_node[pod]
    after, before = state.following[pod], state.preceding[pod]
    if before >= 0:
        state.following[before] = after
    else:
        state.first[n] = after
    if after >= 0:
        state.preceding[after] = before
    state.pod_node[pod] = -1
    shift(cluster, state, c, n, state.pod_devices[pod], -1)


@compiled
def shift(cluster: Cluster, state: State, c: int, n: int, devices: int, sign: int) -> None:
    """Add (sign 1) or subtract (sign -1) one pod of class c on node n in every sum."""
    classes = cluster.classes
    shift_room(cluster, state, c, (n, devices), sign)
    state.scored[n, 0] += sign * classes.scoring[c, 0]
    state.scored[n, 1] += sign * classes.scoring[c, 1]
    state.load[n, 0] += sign * classes.load[c, 0]
    state.load[n, 1] += sign * classes.load[c, 1]
    if classes.gpu_num[c] > 0:
        state.kinds[n, classes.gpu_kind[c]] += sign
    for b in range(state.healthy.shape[0]):
        if cluster.budgets.selects[b, c]:
            state.healthy[b] += sign
    shift_terms(cluster, state, c, n, sign)


@compiled
def shift_room(cluster: Cluster, state: State, c: int, where: tuple[int, int], sign: int) -> None:
    """The sums by which a node by itself takes or refuses a pod; where = (node, device mask)."""
    n, devices = where
    classes = cluster.classes
    for r in range(state.free.shape[1]):
        state.free[n, r] -= sign * classes.request[c, r]
    if classes.gpu_num[c] > 0:
        milli = classes.gpu_milli[c]
        for d in range(cluster.nodes.gpu_count[n]):
            if (devices >> d) & 1:
                state.gpu_left[n, d] -= sign * milli
    for q in range(classes.port_start[c], classes.port_start[c + 1]):
        state.ports_used[classes.port[q], n] += sign


@compiled
def shift_terms(cluster: Cluster, state: State, c: int, n: int, sign: int) -> None:
    """The sums that affinity and spread of other pods read."""
    terms = cluster.terms
    for t in range(terms.key.shape[0]):
        if terms.selects[t, c]:
            state.matching[t, n] += sign
            d = cluster.nodes.domain[terms.key[t], n]
            if d >= 0:
                state.matching_in[t, d] += sign
                state.matching_all[t] += sign
    for e in range(terms.avoid_start[c], terms.avoid_start[c + 1]):
        t = terms.avoid[e]
        d = cluster.nodes.domain[terms.key[t], n]
        if d >= 0:
            state.avoided_in[t, d] += sign
    for e in range(terms.draw_start[c], terms.draw_start[c + 1]):
        t = terms.draw[e]
        d = cluster.nodes.domain[terms.key[t], n]
        if d >= 0:
            state.drawn_in[t, d] += sign * terms.draw_weight[e]


@compiled
def note_change(cluster: Cluster, state: State, n: int) -> None:
    """Note that node n changed: caches read the ring, curves read the fragmentation."""
    state.changed[state.counts[0] % state.changed.shape[0]] = n
    state.counts[0] += 1
    if cluster.nodes.gpu_count[n] > 0:
        state.fragment[n] = node_fragment(
            cluster.typical,
            cluster.nodes.gpu_model[n],
            state.free[n, 0],
            state.gpu_left[n],
            cluster.nodes.gpu_count[n],
        )
