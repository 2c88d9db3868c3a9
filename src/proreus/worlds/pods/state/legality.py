"""What is legal: the filters of kube-scheduler, and ours for GPUs, over columns.

`prepare` once per decision, then `refusal` per node: 0 or the code of the first
filter that refuses (`filters.py`).
"""

from __future__ import annotations

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_PODS
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.devices import devices_fit
from proreus.worlds.pods.state.filters import (
    EXISTING_ANTI_AFFINITY,
    GPU,
    GPU_NEVER,
    NODE_PORTS,
    OK,
    POD_AFFINITY,
    POD_ANTI_AFFINITY,
    RESOURCES,
    RESOURCES_NEVER,
    SPREAD,
    SPREAD_KEY_MISSING,
)


@compiled
def prepare(cluster: Cluster, state: State, c: int, scratch: Scratch) -> None:
    """Fill the scratch with matching pods per domain for each hard spread constraint of class c.

    Only nodes that have every key of the class's hard constraints take part, and that the constraint's
    policies let count; a domain without such a node does not exist.
    """
    terms = cluster.terms
    shape = cluster.classes.shape[c]
    h = 0
    for e in range(terms.spread_start[c], terms.spread_start[c + 1]):
        if not terms.spread_hard[e]:
            continue
        term = terms.spread[e]
        key = terms.key[term]
        count = scratch.spread_count[h]
        count[:] = -1
        for n in range(cluster.nodes.allocatable.shape[0]):
            if counts_for_spread(cluster, shape, e, n) and has_spread_keys(cluster, c, n, True):
                d = cluster.nodes.domain[key, n]
                count[d] = max(count[d], 0) + state.matching[term, n]
        scratch.spread_min[h] = least_in_domain(cluster, e, count)
        h += 1


@compiled
def least_in_domain(cluster: Cluster, e: int, count: I64) -> int:
    """The fewest matching pods of a domain of spread constraint e, 0 where there are too few domains.

    count: int64[D], -1 for a domain that does not exist.
    """
    domains = 0
    least = -1
    for d in range(cluster.nodes.domains[cluster.terms.key[cluster.terms.spread[e]]]):
        if count[d] >= 0:
            domains += 1
            if least < 0 or count[d] < least:
                least = count[d]
    return 0 if domains < cluster.terms.spread_min_domains[e] else max(least, 0)


@compiled
def shift_prepared(cluster: Cluster, scratch: Scratch, c: int, moved: tuple[int, int], sign: int) -> None:
    """What `prepare` has counted for class c, after a pod came to a node (sign 1) or left it (sign -1).

    moved: the class of that pod and the node.
    """
    other, n = moved
    terms = cluster.terms
    shape = cluster.classes.shape[c]
    h = 0
    for e in range(terms.spread_start[c], terms.spread_start[c + 1]):
        if not terms.spread_hard[e]:
            continue
        term = terms.spread[e]
        if (
            terms.selects[term, other]
            and counts_for_spread(cluster, shape, e, n)
            and has_spread_keys(cluster, c, n, True)
        ):
            scratch.spread_count[h, cluster.nodes.domain[terms.key[term], n]] += sign
            scratch.spread_min[h] = least_in_domain(cluster, e, scratch.spread_count[h])
        h += 1


@compiled
def counts_for_spread(cluster: Cluster, shape: int, e: int, n: int) -> bool:
    """Whether the policies of spread constraint e let pods of node n count for a class of that shape."""
    shapes, terms = cluster.shapes, cluster.terms
    return (shapes.allowed[shape, n] or not terms.spread_affinity[e]) and (
        shapes.tolerated[shape, n] or not terms.spread_taints[e]
    )


@compiled
def has_spread_keys(cluster: Cluster, c: int, n: int, hard: bool) -> bool:
    """Whether node n has the label of every hard (or every soft) spread constraint of class c."""
    terms = cluster.terms
    for e in range(terms.spread_start[c], terms.spread_start[c + 1]):
        if terms.spread_hard[e] == hard and cluster.nodes.domain[terms.key[terms.spread[e]], n] < 0:
            return False
    return True


@compiled
def refusal(cluster: Cluster, state: State, c: int, n: int, scratch: Scratch) -> int:
    """0 if a pod of class c may go to node n, else the code of the first filter that refuses."""
    code = local_refusal(cluster, state, c, n)
    if code != OK:
        return code
    return related_refusal(cluster, state, c, n, scratch)


@compiled
def related_refusal(cluster: Cluster, state: State, c: int, n: int, scratch: Scratch) -> int:
    """The filters that look at pods on other nodes too: spread, then affinity; `prepare` must have run."""
    code = spread_refusal(cluster, c, n, scratch)
    if code != OK:
        return code
    return affinity_refusal(cluster, state, c, n)


@compiled
def still_barren(cluster: Cluster, state: State, barren: I64, c: int) -> bool:
    """Whether it is known that every node by itself refuses class c, as it did when last looked at.

    barren: int64[C], the number of changes until which that is known, -1 where it is not; kept up to date.
    Only nodes that changed since are judged, so that a pod may be tried again and again at little cost.
    """
    since, now = barren[c], state.counts[0]
    if since < 0:
        return False
    ring = state.changed.shape[0]
    # Many changes, or a state that was cleared: looking at every node costs less, or is needed.
    known = 0 <= now - since <= min(ring, state.first.shape[0])
    for k in range(since, now if known else since):
        if local_refusal(cluster, state, c, state.changed[k % ring]) == OK:
            known = False
            break
    barren[c] = now if known else -1
    return known


@compiled
def local_refusal(cluster: Cluster, state: State, c: int, n: int) -> int:
    """The filters that look at node n alone: static constraints, ports, resources, devices."""
    classes = cluster.classes
    code = cluster.shapes.blocked[classes.shape[c], n]
    # The GPU model is checked with the GPUs, after the resources, though it is known beforehand.
    if code != OK and code != GPU_NEVER:
        return code
    for q in range(classes.port_start[c], classes.port_start[c + 1]):
        port = classes.port[q]
        for other in range(state.ports_used.shape[0]):
            if state.ports_used[other, n] > 0 and cluster.ports.conflict[port, other]:
                return NODE_PORTS
    short = False
    for r in range(state.free.shape[1]):
        need = classes.request[c, r]
        if need > state.free[n, r] and need > 0:
            # A node with no pod slots at all counts as full, not as too small: so kube-scheduler has it.
            if need > cluster.nodes.allocatable[n, r] and r != COL_PODS:
                return RESOURCES_NEVER
            short = True
    num, milli = classes.gpu_num[c], classes.gpu_milli[c]
    if num > 0:
        # Whole devices are a resource like any other to kube-scheduler; shares and models are ours.
        count, whole = cluster.nodes.gpu_count[n], milli == GPU_WHOLE
        if count < num and whole:
            return RESOURCES_NEVER
        if short:
            return RESOURCES
        if code == GPU_NEVER or count < num:
            return GPU_NEVER
        if not devices_fit(state.gpu_left[n], count, num, milli):
            return RESOURCES if whole else GPU
    return RESOURCES if short else OK


@compiled
def spread_refusal(cluster: Cluster, c: int, n: int, scratch: Scratch) -> int:
    """PodTopologySpread's filter; `prepare` must have run for class c."""
    terms = cluster.terms
    h = 0
    for e in range(terms.spread_start[c], terms.spread_start[c + 1]):
        if not terms.spread_hard[e]:
            continue
        d = cluster.nodes.domain[terms.key[terms.spread[e]], n]
        if d < 0:
            return SPREAD_KEY_MISSING
        here = max(scratch.spread_count[h, d], 0) + (1 if terms.spread_self[e] else 0)
        if here - scratch.spread_min[h] > terms.spread_skew[e]:
            return SPREAD
        h += 1
    return OK


@compiled
def affinity_refusal(cluster: Cluster, state: State, c: int, n: int) -> int:
    """InterPodAffinity's filter: required affinity, then anti-affinity in both directions."""
    terms = cluster.terms
    near = True
    anywhere = False
    for e in range(terms.need_start[c], terms.need_start[c + 1]):
        term = terms.need[e]
        d = cluster.nodes.domain[terms.key[term], n]
        if d < 0:
            return POD_AFFINITY
        if state.matching_in[term, d] == 0:
            near = False
        if state.matching_all[term] > 0:
            anywhere = True
    # The first pod of a group that wants to be near itself has to start somewhere.
    if not near and (anywhere or not terms.self_sufficient[c]):
        return POD_AFFINITY
    for e in range(terms.avoid_start[c], terms.avoid_start[c + 1]):
        term = terms.avoid[e]
        d = cluster.nodes.domain[terms.key[term], n]
        if d >= 0 and state.matching_in[term, d] > 0:
            return POD_ANTI_AFFINITY
    for e in range(terms.shun_start[c], terms.shun_start[c + 1]):
        term = terms.shun[e]
        d = cluster.nodes.domain[terms.key[term], n]
        if d >= 0 and state.avoided_in[term, d] > 0:
            return EXISTING_ANTI_AFFINITY
    return OK


@compiled
def has_relations(cluster: Cluster, c: int) -> bool:
    """Whether legality of class c depends on more than the node itself (hard spread, required affinity)."""
    terms = cluster.terms
    for e in range(terms.spread_start[c], terms.spread_start[c + 1]):
        if terms.spread_hard[e]:
            return True
    return (
        terms.need_start[c + 1] > terms.need_start[c]
        or terms.avoid_start[c + 1] > terms.avoid_start[c]
        or terms.shun_start[c + 1] > terms.shun_start[c]
    )
