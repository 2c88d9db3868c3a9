"""What `kube` remembers of one run: verdicts and scores per class and node, and who fits nowhere.

A cell [class, node] is good as long as the node has not changed since it was filled. `catch_up` reads the
ring `State.changed` and counts the changes of every node in `version`; a cell keeps the count at which it was
filled. So a decision pays for the nodes that it looks at and that changed, not for those that changed
elsewhere, and nothing is computed before it is asked for. What depends on pods of other nodes (affinity) is
never kept here; sums over domains (spread) are, in `spread_memory`.

Who lets rows mean something else must say so:

- Another node in a node's row, or anything else about one node: note it in the ring, as `placement` does.
- Another class in a class's row: `forget_class(memory, c)`, and `forget_sums(memory, e)` for the spread
  constraints e that it got.
- Another number of rows: `new_memory` anew. A memory is empty at first, and an empty one is never wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import I8, I32, I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import packable
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.legality import local_refusal

_BYTES_A_CELL = 13  # of verdicts and scores
_BYTES_A_COUNT = 8  # of `counted` and `counted_in`
_BYTES_A_SUM = 16  # of `sums` and `homes`

BLOCK = 64
"""Nodes that are judged at once, so that a search goes through short rows and seldom calls."""

# Added to a verdict: evicting pods of lower priority would not help.
_HOPELESS_MARK = 64


@packable
class Memory(NamedTuple):
    """C classes, N nodes, E spread constraints of all classes, D most domains of a key."""

    barren: I64  # [C] as `legality.still_barren` has it; [0] where nothing is remembered
    version: I32  # [N] changes of the node that were read from the ring, and one
    read: I64  # [1] changes of all nodes that were read
    judged: I32  # [C, N] version at which the verdict was found, 0 never; [0, 0] without cells
    verdict: I8  # [C, N] of the filters that look at the node alone, with a mark where evicting does not help
    scored: I32  # [C, N] version at which the score was computed, 0 never
    score: I32  # [C, N] weighted sum of the scores that look at the node alone
    sums_seen: I64  # [E] number of changes that the sums have seen, -1 never filled; [0] without sums
    counted: I32  # [E, N] pods of the node that are in the sums, -1 where it does not count
    counted_in: I32  # [E, N] the domain in whose sum they are
    sums: I64  # [E, D] pods that match the constraint, over the nodes that count
    homes: I64  # [E, D] such nodes
    stale: I64  # [N] working space: nodes to score
    codes: I8  # [BLOCK] working space: verdicts of the nodes that come next


def new_memory(cluster: Cluster, most_bytes: int) -> Memory:
    """An empty memory for any run over the cluster; with 0 bytes one that remembers nothing.

    Where the cells would take more than that, it remembers only which classes fit nowhere.
    """
    classes, nodes = cluster.classes.shape.shape[0], cluster.nodes.gpu_count.shape[0]
    spreads = cluster.terms.spread.shape[0]
    domains = max(int(cluster.nodes.domains.max(initial=0)), 1)
    needed = _BYTES_A_CELL * classes * nodes
    needed += spreads * (_BYTES_A_COUNT * nodes + _BYTES_A_SUM * domains)
    rows, sums = (classes, spreads) if needed <= most_bytes else (0, 0)
    columns = nodes if rows else 0
    return Memory(
        barren=np.full(classes if most_bytes else 0, -1, dtype=np.int64),
        version=np.ones(nodes, dtype=np.int32),
        read=np.zeros(1, dtype=np.int64),
        judged=np.zeros((rows, columns), dtype=np.int32),
        verdict=np.zeros((rows, columns), dtype=np.int8),
        scored=np.zeros((rows, columns), dtype=np.int32),
        score=np.zeros((rows, columns), dtype=np.int32),
        sums_seen=np.full(sums, -1, dtype=np.int64),
        counted=np.zeros((sums, nodes), dtype=np.int32),
        counted_in=np.zeros((sums, nodes), dtype=np.int32),
        sums=np.zeros((sums, domains), dtype=np.int64),
        homes=np.zeros((sums, domains), dtype=np.int64),
        stale=np.zeros(nodes, dtype=np.int64),
        codes=np.zeros(BLOCK, dtype=np.int8),
    )


@compiled
def remembers(memory: Memory) -> bool:
    """Whether there are cells."""
    return memory.judged.shape[0] > 0


@compiled
def catch_up(state: State, memory: Memory) -> None:
    """Read from the ring which nodes changed; before cells are used, in every decision."""
    seen, now = memory.read[0], state.counts[0]
    ring = state.changed.shape[0]
    if 0 <= now - seen <= ring:
        for k in range(seen, now):
            memory.version[state.changed[k % ring]] += 1
    else:  # lapped, or a state that was cleared: every node may have changed
        memory.version[:] += 1
        memory.barren[:] = -1
        memory.sums_seen[:] = -1
    memory.read[0] = now


@compiled
def judge_block(cluster: Cluster, state: State, memory: Memory, c: int, where: tuple[I64, int]) -> None:
    """Fill `memory.codes` with `local_refusal` of the next nodes; where = (their order, the place to begin).

    `catch_up` must have run. The order is a circle.
    """
    order, at = where
    codes, looked = memory.codes, order.shape[0]
    if not remembers(memory):
        for k in range(min(codes.shape[0], looked)):
            codes[k] = local_refusal(cluster, state, c, order[at])
            at = at + 1 if at + 1 < looked else 0
        return
    judged, verdict, version = memory.judged[c], memory.verdict[c], memory.version
    for k in range(min(codes.shape[0], looked)):
        n = order[at]
        if judged[n] != version[n]:
            judged[n] = version[n]
            verdict[n] = local_refusal(cluster, state, c, n)
        codes[k] = verdict[n] & ~_HOPELESS_MARK
        at = at + 1 if at + 1 < looked else 0


@compiled
def known_verdict(cluster: Cluster, state: State, memory: Memory, c: int, n: int) -> int:
    """`local_refusal`, out of the cell where the node is as it was; `catch_up` must have run."""
    if memory.judged[c, n] != memory.version[n]:
        memory.judged[c, n] = memory.version[n]
        memory.verdict[c, n] = local_refusal(cluster, state, c, n)
    return memory.verdict[c, n] & ~_HOPELESS_MARK


@compiled
def known_hopeless(memory: Memory, c: int, n: int) -> bool:
    """Whether evicting from node n is known not to help class c; `catch_up` must have run."""
    return memory.judged[c, n] == memory.version[n] and (memory.verdict[c, n] & _HOPELESS_MARK) != 0


@compiled
def note_hopeless(cluster: Cluster, state: State, memory: Memory, c: int, n: int) -> None:
    """Evicting from node n does not help class c, nor will it as long as the node stays as it is."""
    memory.verdict[c, n] = known_verdict(cluster, state, memory, c, n) | _HOPELESS_MARK


@compiled
def forget_class(memory: Memory, c: int) -> None:
    """Row c will stand for another class."""
    if memory.barren.shape[0] > 0:
        memory.barren[c] = -1
    if remembers(memory):
        memory.judged[c] = 0
        memory.scored[c] = 0


@compiled
def forget_sums(memory: Memory, e: int) -> None:
    """Row e will stand for another spread constraint, or another class has it."""
    if memory.sums_seen.shape[0] > 0:
        memory.sums_seen[e] = -1
