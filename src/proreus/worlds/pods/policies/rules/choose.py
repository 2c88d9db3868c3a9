"""From a rule to a choice: score (from the cache where there is one), break ties, preempt if need be."""

from __future__ import annotations

import math

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.pods.policies.rules.columns import HEAP, KUBE, RANDOM, ROTATING, PodRule
from proreus.worlds.pods.policies.rules.kube_scores import total_scores
from proreus.worlds.pods.policies.rules.memory import BLOCK, catch_up, judge_block
from proreus.worlds.pods.policies.rules.preempt import choose_preemption
from proreus.worlds.pods.policies.rules.scores import choose_devices, node_score
from proreus.worlds.pods.policies.rules.spread_memory import prepare_known
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.filters import OK
from proreus.worlds.pods.state.legality import (
    affinity_refusal,
    has_relations,
    prepare,
    related_refusal,
    spread_refusal,
    still_barren,
)

NOWHERE = -1


@compiled
def choose(cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, pod: int) -> tuple[int, int]:
    """(flat action, device mask) for `pod`."""
    c = cluster.pod_class[pod]
    if rule.kind == KUBE:
        n = kube_node(cluster, state, scratch, rule, c)
    else:
        n = scored_node(cluster, state, scratch, rule, c)
    return _with_devices(cluster, state, scratch, rule, (c, n))


@compiled
def choose_scored(
    cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, pod: int
) -> tuple[int, int, int]:
    """(flat action, device mask, nodes scored) of kube's rule for `pod`.

    The nodes are left in `scratch.nodes`, their totals and what compares them in `rule.totals` and
    `rule.parts`, where one of them was chosen.
    """
    c = cluster.pod_class[pod]
    n, feasible = _kube_choice(cluster, state, scratch, rule, c)
    if feasible == 1:
        total_scores(cluster, state, rule, c, scratch.nodes, feasible)
    action, devices = _with_devices(cluster, state, scratch, rule, (c, n))
    return action, devices, feasible


@compiled
def _with_devices(
    cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, chosen: tuple[int, int]
) -> tuple[int, int]:
    """(flat action, device mask) for chosen = (class, node or NOWHERE): a preemption where there is none."""
    c, n = chosen
    nodes = state.first.shape[0]
    if n != NOWHERE:
        return n, choose_devices(cluster, state, rule, c, n)
    if rule.preempts:
        n = choose_preemption(cluster, state, scratch, rule, c)
        if n != NOWHERE:
            return nodes + n, 0
    return 2 * nodes, 0


@compiled
def scored_node(cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, c: int) -> int:
    """The node with the highest score of a packing rule, or NOWHERE."""
    nodes = state.first.shape[0]
    cached = rule.cache.shape[0] > 0
    if cached:
        refresh(cluster, state, rule, c)
    related = has_relations(cluster, c)
    if related:
        prepare(cluster, state, c, scratch)
    start = rule.cursor[0] if rule.tie == ROTATING else 0
    best = NOWHERE
    best_score = -math.inf
    equals = 0
    cache = rule.cache
    for i in range(nodes):
        n = start + i
        if n >= nodes:
            n -= nodes
        score = cache[c, n] if cached else node_score(cluster, state, rule, c, n)
        if score < best_score or score == -math.inf:
            continue
        if related and (
            spread_refusal(cluster, c, n, scratch) != OK or affinity_refusal(cluster, state, c, n) != OK
        ):
            continue
        if score > best_score:
            best, best_score, equals = n, score, 1
        elif rule.tie == RANDOM:
            equals += 1
            if next_below(rule.rng, equals) == 0:
                best = n
    if rule.tie == ROTATING and best != NOWHERE:
        rule.cursor[0] = (best + 1) % nodes
    return best


@compiled
def fill_scores(
    cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, among: tuple[int, F64]
) -> None:
    """among = (class, float64[N]): filled with a packing rule's scores; -inf where the pod may not go."""
    c, scores = among
    related = has_relations(cluster, c)
    if related:
        prepare(cluster, state, c, scratch)
    for n in range(scores.shape[0]):
        scores[n] = node_score(cluster, state, rule, c, n)
        if related and scores[n] != -math.inf and related_refusal(cluster, state, c, n, scratch) != OK:
            scores[n] = -math.inf


@compiled
def refresh(cluster: Cluster, state: State, rule: PodRule, c: int) -> None:
    """Bring row c of the cache up to date: score only the nodes that changed since the row was last used."""
    nodes = state.first.shape[0]
    seen, now = rule.cache_seen[c], state.counts[0]
    ring = state.changed.shape[0]
    if seen < 0 or now - seen > ring:
        for n in range(nodes):
            rule.cache[c, n] = node_score(cluster, state, rule, c, n)
    else:
        rule.refreshes[0] += 1
        for k in range(seen, now):
            n = state.changed[k % ring]
            if rule.stamp[n] != rule.refreshes[0]:  # once per refresh, however often the node changed
                rule.stamp[n] = rule.refreshes[0]
                rule.cache[c, n] = node_score(cluster, state, rule, c, n)
    rule.cache_seen[c] = now


@compiled
def feasible_target(nodes: int, percentage: int) -> int:
    """kube's numFeasibleNodesToFind: after how many feasible nodes the search stops."""
    if nodes < 100 or percentage >= 100:
        return nodes
    if percentage == 0:
        percentage = max(5, 50 - nodes // 125)
    return max(100, nodes * percentage // 100)


@compiled
def find_feasible(cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, c: int) -> int:
    """Fill `scratch.nodes` with feasible nodes from the rotating start on; returns how many.

    The search ends where it meets one feasible node more than wanted, or has seen all. Where the pod names
    its nodes, only these are looked at. The next search starts as many nodes further as were judged by this.
    """
    nodes = cluster.nodes.visit_order.shape[0]
    shape = cluster.classes.shape[c]
    order = cluster.nodes.visit_order
    if cluster.shapes.narrowed[shape]:
        order = cluster.shapes.named[
            cluster.shapes.named_start[shape] : cluster.shapes.named_start[shape + 1]
        ]
    feasible, judged = 0, order.shape[0]
    barren = rule.memory.barren
    if barren.shape[0] == 0 or not still_barren(cluster, state, barren, c):
        feasible, judged = _search(cluster, state, scratch, rule, (c, order))
    rule.cursor[0] = (rule.cursor[0] + judged) % nodes
    return feasible


@compiled
def _search(
    cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, among: tuple[int, I64]
) -> tuple[int, int]:
    """(nodes found, nodes judged) for among = (class, the nodes to look at in their order)."""
    c, order = among
    memory = rule.memory
    catch_up(state, memory)
    prepare_known(cluster, state, memory, c, scratch)
    related = has_relations(cluster, c)
    looked = order.shape[0]
    wanted = feasible_target(looked, rule.percentage)
    codes, nodes = memory.codes, scratch.nodes
    feasible = 0
    judged = 0
    barren = True
    at = rule.cursor[0] % max(looked, 1)
    while judged < looked:
        k = judged % BLOCK
        if k == 0:
            judge_block(cluster, state, memory, c, (order, at))
        n = order[at]
        at += 1
        if at == looked:
            at = 0
        if codes[k] == OK:
            barren = False
            if not related or related_refusal(cluster, state, c, n, scratch) == OK:
                if feasible == wanted:
                    break
                nodes[feasible] = n
                feasible += 1
        judged += 1
    if barren and memory.barren.shape[0] > 0:
        memory.barren[c] = state.counts[0]
    return feasible, judged


@compiled
def kube_node(cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, c: int) -> int:
    """kube-scheduler's choice, or NOWHERE: filter a sample, score it, break ties as the version does."""
    return _kube_choice(cluster, state, scratch, rule, c)[0]


@compiled
def _kube_choice(cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, c: int) -> tuple[int, int]:
    """The same with the number of nodes in the sample; one alone is not scored."""
    feasible = find_feasible(cluster, state, scratch, rule, c)
    if feasible == 0:
        return NOWHERE, 0
    if feasible == 1:
        return scratch.nodes[0], 1
    total_scores(cluster, state, rule, c, scratch.nodes, feasible)
    if rule.tie == HEAP:
        return scratch.nodes[heap_root(rule.totals, feasible)], feasible
    best = 0
    equals = 1
    for i in range(1, feasible):
        if rule.totals[i] > rule.totals[best]:
            best, equals = i, 1
        elif rule.totals[i] == rule.totals[best] and rule.tie == RANDOM:
            equals += 1
            if next_below(rule.rng, equals) == 0:
                best = i
    return scratch.nodes[best], feasible


@compiled
def heap_root(totals: I64, count: int) -> int:
    """Which of the first `count` totals is the root of the max-heap that Go's container/heap makes of them.

    Building the heap, a node gives way to the larger of its children, to the left one of equals, and to
    neither if it is as large. So of equal totals the one wins that comes first when the tree of places is
    walked from the root, left before right: places are numbered from 1, the children of k are 2k and 2k+1.
    """
    best, best_level = 1, 0
    level, next_level = 0, 2
    for place in range(2, count + 1):
        if place == next_level:
            level += 1
            next_level *= 2
        total, top = totals[place - 1], totals[best - 1]
        if total > top or (total == top and place >> (level - best_level) < best):
            best, best_level = place, level
    return best - 1
