"""What is worth trying a pod again for that fitted nowhere (kube's hints), and how long it backs off.

The simulator's queue and the engine's stand on these alike.
"""

from __future__ import annotations

import math

from proreus.kernels.arrays import I64, Bool
from proreus.kernels.jit import compiled
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.filters import OK
from proreus.worlds.pods.state.legality import has_relations, local_refusal
from proreus.worlds.pods.state.victims import room_by_eviction

_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 10.0


@compiled
def backoff_end(failed: float, attempts: int) -> float:
    """1 s doubling to 10 s from the failed decision on, until the second in which it ends is over."""
    wait = min(_FIRST_BACKOFF * 2.0 ** max(attempts - 1, 0), _LONGEST_BACKOFF)
    return math.floor(failed + wait) + 1.0


@compiled
def node_helps(cluster: Cluster, state: State, waiting: int, n: int) -> bool:
    """Whether class `waiting` fits on node n by itself, or would if it evicted whom it may."""
    if local_refusal(cluster, state, waiting, n) == OK:
        return True
    return bool(cluster.classes.may_preempt[waiting]) and room_by_eviction(cluster, state, waiting, n)


@compiled
def leaving_helps(cluster: Cluster, state: State, waiting: int, n: int, gone: int) -> bool:
    """Whether it may help class `waiting` that a pod of class `gone` left node n.

    It fits on the node by itself, or would fit if it evicted whom it may, or its affinity, anti-affinity or
    spread has to do with the pod that left.
    """
    return (
        node_helps(cluster, state, waiting, n)
        or coming_helps(cluster, waiting, gone)
        or _excludes(cluster, waiting, gone)
    )


@compiled
def coming_helps(cluster: Cluster, waiting: int, other: int) -> bool:
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
def helped_by_leaving(
    cluster: Cluster, state: State, waiting: I64, gone: tuple[int, int], helped: Bool
) -> None:
    """helped: bool[len(waiting)], filled for these classes; gone = (class of the pod that left, its node)."""
    for i in range(waiting.shape[0]):
        helped[i] = leaving_helps(cluster, state, waiting[i], gone[1], gone[0])


@compiled
def helped_by_coming(cluster: Cluster, waiting: I64, placed: int, helped: Bool) -> None:
    """helped: bool[len(waiting)], filled for these classes; a pod of class `placed` came."""
    for i in range(waiting.shape[0]):
        helped[i] = coming_helps(cluster, waiting[i], placed)


@compiled
def helped_by_node(cluster: Cluster, state: State, waiting: I64, n: int, helped: Bool) -> None:
    """helped: bool[len(waiting)], filled for these classes; node n came, or is not what it was."""
    for i in range(waiting.shape[0]):
        helped[i] = node_helps(cluster, state, waiting[i], n) or has_relations(cluster, waiting[i])
