"""Where a pod costs least of what is still to come: the device whose loss is smallest, by `worth`."""

from __future__ import annotations

import math

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.worlds.pods.policies.rules.choose import NOWHERE, refresh, scored_node
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.policies.rules.scores import choose_devices, node_score
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.devices import LEVEL, shares_device
from proreus.worlds.pods.state.filters import OK
from proreus.worlds.pods.state.legality import has_relations, prepare, related_refusal

_EQUAL = 10.0
"""Milli-GPU by which losses must differ to count; below, the base rule's score decides."""


@compiled
def loss(worth: F64, left: int, milli: int) -> float:
    """Milli-GPU lost in the end by taking `milli` off a device with so much left; worth: float64[LEVELS]."""
    return worth[(left - milli) // LEVEL] - worth[left // LEVEL]


@compiled
def best_room(
    cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, choice: tuple[int, F64]
) -> tuple[int, int]:
    """(node or NOWHERE, device mask) for choice = (class, worth); where no device is shared, the rule's."""
    c, worth = choice
    if not shares_device(cluster, c):
        n = scored_node(cluster, state, scratch, rule, c)
        if n == NOWHERE:
            return n, 0
        return n, choose_devices(cluster, state, rule, c, n)
    cached = rule.cache.shape[0] > 0
    if cached:
        refresh(cluster, state, rule, c)
    related = has_relations(cluster, c)
    if related:
        prepare(cluster, state, c, scratch)
    milli = cluster.classes.gpu_milli[c]
    best, mask = NOWHERE, 0
    least, highest = math.inf, -math.inf
    for n in range(state.first.shape[0]):
        score = rule.cache[c, n] if cached else node_score(cluster, state, rule, c, n)
        if score == -math.inf or (related and related_refusal(cluster, state, c, n, scratch) != OK):
            continue
        for d in range(cluster.nodes.gpu_count[n]):
            left = state.gpu_left[n, d]
            if left < milli:
                continue
            cost = math.floor(loss(worth, left, milli) / _EQUAL)
            if cost < least or (cost == least and score > highest):
                best, mask, least, highest = n, 1 << d, cost, score
    return best, mask
