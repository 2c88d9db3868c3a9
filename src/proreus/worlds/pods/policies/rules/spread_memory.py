"""How many matching pods each domain holds, per spread constraint, without a look at every node.

Of every node the number that it last contributed is kept (`Memory.counted`); a change of the node changes the
sum of its domain by the difference. Filled whole at first, and again where that is less work.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.pods.policies.rules.memory import Memory
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.legality import (
    counts_for_spread,
    has_spread_keys,
    least_in_domain,
    prepare,
)


@compiled
def remembers_sums(memory: Memory) -> bool:
    """Whether sums per domain are kept."""
    return memory.sums_seen.shape[0] > 0


@compiled
def refresh_sums(
    cluster: Cluster, state: State, memory: Memory, constraint: tuple[int, int], keyed: bool
) -> None:
    """Bring `sums` and `homes` of constraint = (class, its entry) up to date.

    keyed: whether only nodes count that have the keys of all constraints of the class that are as hard or
    soft as this one; for one constraint it is always the same.
    """
    c, e = constraint
    nodes, ring = state.first.shape[0], state.changed.shape[0]
    seen, now = memory.sums_seen[e], state.counts[0]
    if seen < 0 or not 0 <= now - seen <= min(ring, nodes):
        memory.sums[e] = 0
        memory.homes[e] = 0
        memory.counted[e] = -1
        for n in range(nodes):
            _count(cluster, state, memory, (c, e, n), keyed)
    else:
        for k in range(seen, now):
            _count(cluster, state, memory, (c, e, state.changed[k % ring]), keyed)
    memory.sums_seen[e] = now


@compiled
def _count(cluster: Cluster, state: State, memory: Memory, cell: tuple[int, int, int], keyed: bool) -> None:
    """Let node n count for constraint e as it stands now; cell = (c, e, n)."""
    c, e, n = cell
    terms = cluster.terms
    d = cluster.nodes.domain[terms.key[terms.spread[e]], n]
    count = -1
    if (
        d >= 0
        and counts_for_spread(cluster, cluster.classes.shape[c], e, n)
        and (not keyed or has_spread_keys(cluster, c, n, terms.spread_hard[e]))
    ):
        count = state.matching[terms.spread[e], n]
    before = memory.counted[e, n]
    if before >= 0:
        memory.sums[e, memory.counted_in[e, n]] -= before
        memory.homes[e, memory.counted_in[e, n]] -= 1
    if count >= 0:
        memory.sums[e, d] += count
        memory.homes[e, d] += 1
    memory.counted[e, n] = count
    memory.counted_in[e, n] = d


@compiled
def prepare_known(cluster: Cluster, state: State, memory: Memory, c: int, scratch: Scratch) -> None:
    """The same as `legality.prepare`, out of the sums where they are kept."""
    if not remembers_sums(memory):
        prepare(cluster, state, c, scratch)
        return
    terms = cluster.terms
    h = 0
    for e in range(terms.spread_start[c], terms.spread_start[c + 1]):
        if not terms.spread_hard[e]:
            continue
        refresh_sums(cluster, state, memory, (c, e), True)
        count = scratch.spread_count[h]
        for d in range(count.shape[0]):
            count[d] = memory.sums[e, d] if memory.homes[e, d] > 0 else -1
        scratch.spread_min[h] = least_in_domain(cluster, e, count)
        h += 1
