"""kube-scheduler's score plugins over the feasible nodes, normalised to 0..100, whole-number arithmetic.

`nodes` is the feasible list, int64[>= feasible]; each function fills a row of `rule.parts`.
"""

from __future__ import annotations

import math

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.model.resources import COL_NETWORK
from proreus.worlds.pods.policies.rules import columns as cols
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.policies.rules.memory import catch_up, remembers
from proreus.worlds.pods.policies.rules.scores import fgd_score
from proreus.worlds.pods.policies.rules.spread_memory import refresh_sums, remembers_sums
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.legality import counts_for_spread, has_spread_keys

_TOP = 100
OLD_MINOR = 20
"""Up to 1.20 balance and spread were scored otherwise."""
# The plugins that compare a node with others, or look at pods elsewhere.
_COMPARED = (cols.TAINTS, cols.NODE_AFFINITY, cols.SPREAD, cols.POD_AFFINITY)
# The plugins of `kube_plus` alone.
_PLUS = (cols.GPU_FRAGMENTATION, cols.NETWORK_AND_DISK, cols.LOAD_PACKING, cols.LOAD_RISK)


@compiled
def score_nodes(cluster: Cluster, state: State, rule: PodRule, c: int, nodes: I64, feasible: int) -> None:
    """Fill `rule.parts` and `rule.totals` for the first `feasible` nodes of the list."""
    _own_scores(cluster, state, rule, c, nodes, feasible)
    _compared_parts(cluster, state, rule, c, nodes, feasible)
    for i in range(feasible):
        rule.totals[i] += _compared_score(rule, i)


@compiled
def total_scores(cluster: Cluster, state: State, rule: PodRule, c: int, nodes: I64, feasible: int) -> None:
    """Fill `rule.totals` as `score_nodes` does, out of memory where a node is as it was.

    The rows of `rule.parts` that look at a node alone are working space then.
    """
    memory = rule.memory
    if not remembers(memory):
        score_nodes(cluster, state, rule, c, nodes, feasible)
        return
    catch_up(state, memory)
    scored, score, version = memory.scored[c], memory.score[c], memory.version
    totals, stale = rule.totals, memory.stale
    count = 0
    for i in range(feasible):
        n = nodes[i]
        if scored[n] != version[n]:
            stale[count] = n
            count += 1
    _own_scores(cluster, state, rule, c, stale, count)
    for i in range(count):
        n = stale[i]
        score[n] = totals[i]
        scored[n] = version[n]
    _compared_parts(cluster, state, rule, c, nodes, feasible)
    for i in range(feasible):
        totals[i] = score[nodes[i]] + _compared_score(rule, i)


@compiled
def fill_factors(
    cluster: Cluster, state: State, rule: PodRule, of: tuple[int, I64, I64], factors: F64
) -> None:
    """of = (class, nodes, places): weighted scores of these few nodes, float64[plugins, nodes], that stand at
    these places of the list which `total_scores` was last asked about."""
    c, nodes, places = of
    _own_scores(cluster, state, rule, c, nodes, nodes.shape[0])
    for plugin in range(factors.shape[0]):
        compares = plugin in _COMPARED
        for i in range(places.shape[0]):
            factors[plugin, i] = rule.weights[plugin] * rule.parts[plugin, places[i] if compares else i]


@compiled
def _compared_parts(cluster: Cluster, state: State, rule: PodRule, c: int, nodes: I64, feasible: int) -> None:
    """The scores that compare a node with the others of the list, or look at pods elsewhere."""
    shape = cluster.classes.shape[c]
    _taints(cluster, rule, shape, nodes, feasible)
    _node_affinity(cluster, rule, shape, nodes, feasible)
    _pod_affinity(cluster, state, rule, c, nodes, feasible)
    _spread(cluster, state, rule, c, nodes, feasible)


@compiled
def _compared_score(rule: PodRule, i: int) -> int:
    """Their weighted sum for the node at place i of the list."""
    weights, parts = rule.weights, rule.parts
    return (
        weights[cols.TAINTS] * parts[cols.TAINTS, i]
        + weights[cols.NODE_AFFINITY] * parts[cols.NODE_AFFINITY, i]
        + weights[cols.SPREAD] * parts[cols.SPREAD, i]
        + weights[cols.POD_AFFINITY] * parts[cols.POD_AFFINITY, i]
    )


@compiled
def _own_scores(cluster: Cluster, state: State, rule: PodRule, c: int, nodes: I64, count: int) -> None:
    """The scores that look at a node alone for the first `count` of the list: parts, and totals of these.

    They may be kept as long as the node does not change: whatever they read, `placement` notes in the ring.
    """
    rule.rescored[0] += count
    shape, request = cluster.classes.shape[c], cluster.classes.request[c]
    asked_cpu, asked_memory = request[0], request[1]
    scoring = cluster.classes.scoring_incoming[c]
    # A pod that asks for neither CPU nor memory has no balance to keep.
    balances = asked_cpu > 0 or asked_memory > 0
    weights, parts, totals = rule.weights, rule.parts, rule.totals
    allocatable, free, scored = cluster.nodes.allocatable, state.free, state.scored
    mounted = rule.minor >= 36 and cluster.shapes.image_mounted.shape[0] > 0
    image = cluster.shapes.image_mounted if mounted else cluster.shapes.image
    strategy, ratio_shape, minor = rule.strategy, rule.ratio_shape, rule.minor
    plus = False
    for plugin in _PLUS:
        plus = plus or weights[plugin] > 0
    for i in range(count):
        n = nodes[i]
        room = (allocatable[n, 0], allocatable[n, 1])
        used = (scored[n, 0] + scoring[0], scored[n, 1] + scoring[1])
        parts[cols.FIT, i] = fit_score(strategy, ratio_shape, room, used)
        parts[cols.BALANCED, i] = 0
        if minor <= OLD_MINOR:
            parts[cols.BALANCED, i] = old_balanced_score(room, used)
        elif balances:
            held = (room[0] - free[n, 0], room[1] - free[n, 1])
            parts[cols.BALANCED, i] = balanced_score(minor, room, held, (asked_cpu, asked_memory))
        parts[cols.IMAGES, i] = image[shape, n]
        totals[i] = (
            weights[cols.FIT] * parts[cols.FIT, i]
            + weights[cols.BALANCED] * parts[cols.BALANCED, i]
            + weights[cols.IMAGES] * parts[cols.IMAGES, i]
        )
        if plus:
            totals[i] += _plus_score(cluster, state, rule, c, (n, i))


@compiled
def _plus_score(cluster: Cluster, state: State, rule: PodRule, c: int, at: tuple[int, int]) -> int:
    """The weighted sum of what `kube_plus` adds, filled in; at = (node, place in the list)."""
    n, i = at
    weights, parts = rule.weights, rule.parts
    allocatable, request = cluster.nodes.allocatable[n], cluster.classes.request[c]
    if weights[cols.GPU_FRAGMENTATION] > 0:
        parts[cols.GPU_FRAGMENTATION, i] = fgd_score(cluster, state, c, n)[0]
    if weights[cols.NETWORK_AND_DISK] > 0:
        parts[cols.NETWORK_AND_DISK, i] = bandwidth_score(allocatable, state.free[n], request)
    if weights[cols.LOAD_PACKING] > 0:
        expected = state.load[n, 0] + cluster.classes.load_guess[c]
        parts[cols.LOAD_PACKING, i] = target_load_score(expected, allocatable[0], rule.load_options[0])
    if weights[cols.LOAD_RISK] > 0:
        parts[cols.LOAD_RISK, i] = load_risk_score(
            state.load[n, 0] + request[0], state.load[n, 1], allocatable[0], rule.load_options
        )
    total = 0
    for plugin in _PLUS:
        total += weights[plugin] * parts[plugin, i]
    return total


@compiled
def fit_score(strategy: int, ratio_shape: F64, capacities: tuple[int, int], used: tuple[int, int]) -> int:
    """NodeResourcesFit over cpu and memory at weight 1 each; a resource the node lacks is left out.

    used: with the pod on the node.
    """
    total = 0.0
    exact = 0
    weight = 0
    for r in range(2):
        capacity = capacities[r]
        if capacity == 0:
            continue
        if strategy == cols.LEAST_ALLOCATED:
            exact += 0 if used[r] > capacity else (capacity - used[r]) * _TOP // capacity
            weight += 1
        elif strategy == cols.MOST_ALLOCATED:
            exact += min(used[r], capacity) * _TOP // capacity
            weight += 1
        else:
            share = _TOP if used[r] > capacity else used[r] * _TOP // capacity
            value = ratio_score(ratio_shape, share)
            if value > 0:
                total += value
                weight += 1
    if weight == 0:
        return 0
    if strategy in (cols.LEAST_ALLOCATED, cols.MOST_ALLOCATED):
        return exact // weight
    return math.floor(total / weight + 0.5)


@compiled
def ratio_score(shape: F64, utilisation: int) -> int:
    """RequestedToCapacityRatio: linear between the points of shape [points, 2], scores 0..10 times 10."""
    last = shape.shape[0] - 1
    for i in range(last + 1):
        if utilisation <= shape[i, 0]:
            if i == 0:
                return int(shape[0, 1]) * 10
            low, high = int(shape[i - 1, 1]) * 10, int(shape[i, 1]) * 10
            left, right = int(shape[i - 1, 0]), int(shape[i, 0])
            # Go divides towards zero, also on falling slopes.
            return low + int((high - low) * (utilisation - left) / (right - left))
    return int(shape[last, 1]) * 10


@compiled
def _balance(room: tuple[int, int], used_cpu: int, used_memory: int) -> int:
    """100 minus how far the shares of CPU and memory lie apart."""
    if room[0] == 0 or room[1] == 0:
        return _TOP
    cpu = min(1.0, used_cpu / room[0])
    memory = min(1.0, used_memory / room[1])
    return int((1.0 - abs(cpu - memory) / 2.0) * _TOP)


@compiled
def balanced_score(minor: int, room: tuple[int, int], held: tuple[int, int], asked: tuple[int, int]) -> int:
    """NodeResourcesBalancedAllocation; from 1.36 on the change that the pod makes, not the result.

    Each is (cpu, memory): what the node has, what its pods ask for, what this pod asks for.
    """
    after = _balance(room, held[0] + asked[0], held[1] + asked[1])
    if minor <= 35:
        return after
    change = 50 + after - _balance(room, held[0], held[1])
    return 50 + int(change / 2)


@compiled
def old_balanced_score(room: tuple[int, int], used: tuple[int, int]) -> int:
    """NodeResourcesBalancedAllocation of 1.20, by (cpu, memory) with what is unstated counted by default."""
    if used[0] >= room[0] or used[1] >= room[1]:
        return 0
    return int((1.0 - abs(used[0] / room[0] - used[1] / room[1])) * _TOP)


@compiled
def _taints(cluster: Cluster, rule: PodRule, shape: int, nodes: I64, feasible: int) -> None:
    repelled = cluster.shapes.repelled
    most = 0
    for i in range(feasible):
        most = max(most, repelled[shape, nodes[i]])
    for i in range(feasible):
        lost = 0 if most == 0 else _TOP * repelled[shape, nodes[i]] // most
        rule.parts[cols.TAINTS, i] = _TOP - lost


@compiled
def _node_affinity(cluster: Cluster, rule: PodRule, shape: int, nodes: I64, feasible: int) -> None:
    preferred = cluster.shapes.preferred
    most = 0
    for i in range(feasible):
        most = max(most, preferred[shape, nodes[i]])
    for i in range(feasible):
        rule.parts[cols.NODE_AFFINITY, i] = 0 if most == 0 else _TOP * preferred[shape, nodes[i]] // most


@compiled
def _pod_affinity(cluster: Cluster, state: State, rule: PodRule, c: int, nodes: I64, feasible: int) -> None:
    terms = cluster.terms
    likes = range(terms.like_start[c], terms.like_start[c + 1])
    feels = range(terms.feel_start[c], terms.feel_start[c + 1])
    parts = rule.parts
    if len(likes) + len(feels) == 0:
        for i in range(feasible):
            parts[cols.POD_AFFINITY, i] = 0
        return
    least, most = 0, 0
    for i in range(feasible):
        n = nodes[i]
        raw = 0
        for e in likes:
            d = cluster.nodes.domain[terms.key[terms.like[e]], n]
            if d >= 0:
                raw += terms.like_weight[e] * state.matching_in[terms.like[e], d]
        for e in feels:
            d = cluster.nodes.domain[terms.key[terms.feel[e]], n]
            if d >= 0:
                raw += state.drawn_in[terms.feel[e], d]
        parts[cols.POD_AFFINITY, i] = raw
        least = raw if i == 0 else min(least, raw)
        most = raw if i == 0 else max(most, raw)
    for i in range(feasible):
        raw = parts[cols.POD_AFFINITY, i]
        parts[cols.POD_AFFINITY, i] = 0 if most == least else int(_TOP * ((raw - least) / (most - least)))


@compiled
def _spread(cluster: Cluster, state: State, rule: PodRule, c: int, nodes: I64, feasible: int) -> None:
    terms = cluster.terms
    first, last = terms.spread_start[c], terms.spread_start[c + 1]
    soft = False
    # Nodes must have every key, unless all constraints are the scheduler's own; in 1.20 even then.
    strict = rule.minor <= OLD_MINOR
    for e in range(first, last):
        soft = soft or not terms.spread_hard[e]
        strict = strict or not terms.spread_default[e]
    parts, raw = rule.parts, rule.raw
    if not soft:
        for i in range(feasible):
            parts[cols.SPREAD, i] = 0
        return
    counted = 0
    for i in range(feasible):
        raw[i] = 0.0
        if not strict or has_spread_keys(cluster, c, nodes[i], False):
            counted += 1
        else:
            raw[i] = math.nan  # lacks a key: out of the comparison, scores 0
    for e in range(first, last):
        if not terms.spread_hard[e]:
            _add_spread(cluster, state, rule, (c, e), nodes, (feasible, counted, strict))

    half = 0.0 if rule.minor <= OLD_MINOR else 0.5
    least, most = -1, 0
    for i in range(feasible):
        if not math.isnan(raw[i]):
            rounded = math.floor(raw[i] + half)
            least = rounded if least < 0 else min(least, rounded)
            most = max(most, rounded)
    for i in range(feasible):
        if math.isnan(raw[i]):
            parts[cols.SPREAD, i] = 0
        elif most == 0:
            parts[cols.SPREAD, i] = _TOP
        else:
            parts[cols.SPREAD, i] = _TOP * (most + least - math.floor(raw[i] + half)) // most


@compiled
def _add_spread(
    cluster: Cluster,
    state: State,
    rule: PodRule,
    constraint: tuple[int, int],
    nodes: I64,
    scope: tuple[int, int, bool],
) -> None:
    """Add one soft constraint to `rule.raw`: matching pods in the domain, weighted by domain count."""
    e = constraint[1]
    feasible, counted, strict = scope
    terms = cluster.terms
    term = terms.spread[e]
    key = terms.key[term]
    domain = cluster.nodes.domain
    per_node = key == cluster.nodes.hostname_key[0]
    size = counted
    in_domain = rule.in_domain
    if not per_node:
        in_domain[: cluster.nodes.domains[key]] = -1
        size = 0
        keyless = 0
        for i in range(feasible):
            d = domain[key, nodes[i]]
            if d < 0:
                keyless = 1  # kube takes the missing label for one more domain
            elif not math.isnan(rule.raw[i]) and in_domain[d] < 0:
                in_domain[d] = 0
                size += 1
        if not strict:
            size += keyless
        _count_domains(cluster, state, rule, constraint, strict)
    weight = math.log(size + 2)
    for i in range(feasible):
        d = domain[key, nodes[i]]
        if d >= 0:
            here = state.matching[term, nodes[i]] if per_node else in_domain[d]
            rule.raw[i] += here * weight + (terms.spread_skew[e] - 1)


@compiled
def _count_domains(
    cluster: Cluster, state: State, rule: PodRule, constraint: tuple[int, int], strict: bool
) -> None:
    """Add to each domain of `rule.in_domain` that is 0 the matching pods of its nodes that count."""
    c, e = constraint
    terms, in_domain, memory = cluster.terms, rule.in_domain, rule.memory
    key = terms.key[terms.spread[e]]
    if remembers_sums(memory):
        refresh_sums(cluster, state, memory, constraint, strict)
        for d in range(cluster.nodes.domains[key]):
            if in_domain[d] >= 0:
                in_domain[d] = memory.sums[e, d]
        return
    shape = cluster.classes.shape[c]
    for n in range(cluster.nodes.domain.shape[1]):
        d = cluster.nodes.domain[key, n]
        if d >= 0 and in_domain[d] >= 0 and counts_for_spread(cluster, shape, e, n):
            if not strict or has_spread_keys(cluster, c, n, False):
                in_domain[d] += state.matching[terms.spread[e], n]


@compiled
def bandwidth_score(allocatable: I64, free: I64, request: I64) -> int:
    """LeastAllocated over network, disk and extended resources, for pods that ask for them."""
    total = 0
    weight = 0
    for r in range(COL_NETWORK, request.shape[0]):
        if request[r] > 0 and allocatable[r] > 0:
            total += (free[r] - request[r]) * _TOP // allocatable[r]
            weight += 1
    return _TOP if weight == 0 else total // weight


@compiled
def target_load_score(expected: float, capacity: int, target: float) -> int:
    """Trimaran TargetLoadPacking: fill nodes up to the target utilisation, avoid those above it."""
    if capacity == 0:
        return 0
    load = 100.0 * expected / capacity
    if load <= target:
        return math.floor((100.0 - target) * load / target + target + 0.5)
    if load <= 100.0:
        return math.floor(target * (100.0 - load) / (100.0 - target) + 0.5)
    return 0


@compiled
def load_risk_score(mean: float, variance: float, capacity: int, options: F64) -> int:
    """Trimaran LoadVariationRiskBalancing: prefer nodes whose load is low and steady."""
    if capacity == 0:
        return 0
    average = min(max(mean / capacity, 0.0), 1.0)
    deviation = min(max(math.sqrt(max(variance, 0.0)) / capacity, 0.0), 1.0)
    risk = options[1] * deviation ** (1.0 / options[2]) if options[2] > 0.0 else 0.0
    return math.floor(_TOP * (1.0 - (average + min(1.0, risk)) / 2.0) + 0.5)
