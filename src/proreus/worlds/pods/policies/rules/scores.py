"""The packing rules: one score per (pod class, node), higher is better.

Scores are whole numbers up to 100, as published: ties are frequent and their order
matters (FGD at full resolution packs a point worse). A score depends only on the class
and the node's own state, so it is cached and computed again only for nodes that changed.
"""

from __future__ import annotations

import math

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.pods.encoding.pair import DEVICE_LEFT, encode_pair, pod_kind
from proreus.worlds.pods.policies.rules import columns as cols
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.devices import LEVEL, shares_device, tightest_devices
from proreus.worlds.pods.state.filters import OK
from proreus.worlds.pods.state.fragmentation import node_fragment
from proreus.worlds.pods.state.legality import local_refusal

_TOP = 100.0
_WHOLE = 1000
_NOISE = 1e-9  # keeps a whole number that floating point put just below itself


@compiled
def node_score(cluster: Cluster, state: State, rule: PodRule, c: int, n: int) -> float:
    """The score of node n for class c under a packing rule; -inf where the node itself refuses."""
    rule.rescored[0] += 1
    if local_refusal(cluster, state, c, n) != OK:
        return -math.inf
    kind = rule.kind
    if kind == cols.FLAT:
        return 0.0
    if kind == cols.BEST_FIT:
        return float(math.floor(_TOP * (1.0 - _left_over(cluster, state, rule, c, n)) + _NOISE))
    if kind == cols.WORST_FIT:
        return float(math.floor(_TOP * _left_over(cluster, state, rule, c, n) + _NOISE))
    if kind == cols.DOT_PRODUCT:
        return _dot_product(cluster, state, rule, c, n)
    if kind == cols.BINPACK:
        return _binpack(cluster, state, c, n)
    if kind == cols.FGD:
        return float(fgd_score(cluster, state, c, n)[0])
    if kind == cols.LINEAR:
        return _linear(cluster, state, rule, c, n)
    if cluster.classes.gpu_num[c] == 0:
        return 0.0
    if kind == cols.GPU_PACKING:
        return float(_gpu_packing(cluster, state, c, n))
    return float(_gpu_clustering(cluster, state, c, n)) if kind == cols.GPU_CLUSTERING else 0.0


@compiled
def gpu_free(cluster: Cluster, state: State, n: int) -> int:
    """Milli-GPU left on node n."""
    left = 0
    for d in range(cluster.nodes.gpu_count[n]):
        left += state.gpu_left[n, d]
    return left


@compiled
def _left_over(cluster: Cluster, state: State, rule: PodRule, c: int, n: int) -> float:
    """What node n would have left over, relative to the largest node: half CPU, half GPU (else memory)."""
    cpu = (state.free[n, 0] - cluster.classes.request[c, 0]) / rule.scale[0]
    if rule.scale[2] > 0.0:
        asked = cluster.classes.gpu_num[c] * cluster.classes.gpu_milli[c]
        other = (gpu_free(cluster, state, n) - asked) / rule.scale[2]
    else:
        other = (state.free[n, 1] - cluster.classes.request[c, 1]) / rule.scale[1]
    return 0.5 * cpu + 0.5 * other


@compiled
def _dot_product(cluster: Cluster, state: State, rule: PodRule, c: int, n: int) -> float:
    """Alignment of demand and what is left (Tetris), in the published direction: the smaller the better."""
    product = state.free[n, 0] / rule.scale[0] * (cluster.classes.request[c, 0] / rule.scale[0])
    if rule.scale[2] > 0.0:
        asked = cluster.classes.gpu_num[c] * cluster.classes.gpu_milli[c]
        product += gpu_free(cluster, state, n) / rule.scale[2] * (asked / rule.scale[2])
    else:
        product += state.free[n, 1] / rule.scale[1] * (cluster.classes.request[c, 1] / rule.scale[1])
    return float(math.floor(_TOP * (1.0 - product / 2.0)))


@compiled
def _binpack(cluster: Cluster, state: State, c: int, n: int) -> float:
    """Volcano's binpack: mean share in use, the pod included, of the resources it asks for.

    Equal scores go to the node with most CPU, by a term far below any real difference.
    """
    share = 0.0
    asked = 0
    for r in range(2):
        need = cluster.classes.request[c, r]
        if need > 0:
            asked += 1
            total = cluster.nodes.allocatable[n, r]
            share += (total - state.free[n, r] + need) / total
    num = cluster.classes.gpu_num[c]
    if num > 0:
        asked += 1
        total = _WHOLE * cluster.nodes.gpu_count[n]
        share += (total - gpu_free(cluster, state, n) + num * cluster.classes.gpu_milli[c]) / total
    return _TOP * share / max(asked, 1) + 1e-12 * cluster.nodes.allocatable[n, 0]


@compiled
def _linear(cluster: Cluster, state: State, rule: PodRule, c: int, n: int) -> float:
    """A learned linear score over the features of the pair, with weights per kind of pod."""
    encode_pair(cluster, state, rule.encoding_scale, c, n, rule.features)
    weights = rule.linear[pod_kind(cluster, c)]
    total = 0.0
    for f in range(weights.shape[0]):
        total += weights[f] * rule.features[f]
    if rule.gaps.shape[0] > 0 and shares_device(cluster, c):
        left = round(rule.features[DEVICE_LEFT] * _WHOLE)
        milli = cluster.classes.gpu_milli[c]
        total += rule.gaps[left // LEVEL] - rule.gaps[(left + milli) // LEVEL]
    return total


@compiled
def _gpu_packing(cluster: Cluster, state: State, c: int, n: int) -> int:
    """Prefer shared devices, then free devices of used nodes, then empty nodes."""
    count = cluster.nodes.gpu_count[n]
    free = 0
    for d in range(count):
        if state.gpu_left[n, d] == _WHOLE:
            free += 1
    if free == count:
        return max(33 - free, free)
    mask = tightest_devices(
        state.gpu_left[n], count, cluster.classes.gpu_num[c], cluster.classes.gpu_milli[c]
    )
    opened = 0
    left_percent = 0
    for d in range(count):
        if (mask >> d) & 1:
            left_percent += state.gpu_left[n, d] * 100 // _WHOLE
            if state.gpu_left[n, d] == _WHOLE:
                opened += 1
    if opened > 0:
        return max(50 - opened, 33)
    return max(100 - left_percent // 10, 50)


@compiled
def _gpu_clustering(cluster: Cluster, state: State, c: int, n: int) -> int:
    """Put pods of one GPU kind (shared, 1, 2, 4, 8 devices) together; fuller nodes first within a band."""
    packed = 25 * (8 * _WHOLE - gpu_free(cluster, state, n)) // (8 * _WHOLE)
    present = 0
    for kind in range(state.kinds.shape[1]):
        if state.kinds[n, kind] > 0:
            present += 1
    if state.kinds[n, cluster.classes.gpu_kind[c]] > 0:
        return packed + (75 if present == 1 else 50)
    return packed + (25 if present == 0 else 0)


@compiled
def fgd_score(cluster: Cluster, state: State, c: int, n: int) -> tuple[int, int]:
    """(score, device mask) of fragmentation gradient descent: how much less GPU becomes unusable."""
    count = cluster.nodes.gpu_count[n]
    if count == 0:
        return 50, 0  # nothing to fragment: the sigmoid of zero
    left = state.gpu_left[n]
    model = cluster.nodes.gpu_model[n]
    cpu = state.free[n, 0] - cluster.classes.request[c, 0]
    num, milli = cluster.classes.gpu_num[c], cluster.classes.gpu_milli[c]
    before = state.fragment[n]
    if num == 1 and milli < _WHOLE:
        best, chosen = -1, 0
        for d in range(count):
            if left[d] < milli or _same_before(left, d):
                continue
            left[d] -= milli
            score = _less_fragment(before, node_fragment(cluster.typical, model, cpu, left, count))
            left[d] += milli
            if score > best:
                best, chosen = score, 1 << d
        return best, chosen
    mask = tightest_devices(left, count, num, milli)
    for d in range(count):
        if (mask >> d) & 1:
            left[d] -= milli
    score = _less_fragment(before, node_fragment(cluster.typical, model, cpu, left, count))
    for d in range(count):
        if (mask >> d) & 1:
            left[d] += milli
    return score, mask


@compiled
def _same_before(left: I64, d: int) -> bool:
    """Whether an earlier device has exactly as much left: the two are interchangeable."""
    for other in range(d):
        if left[other] == left[d]:
            return True
    return False


@compiled
def _less_fragment(before: float, after: float) -> int:
    return math.floor(_TOP / (1.0 + math.exp(-(before - after) / 1000.0)))


@compiled
def choose_devices(cluster: Cluster, state: State, rule: PodRule, c: int, n: int) -> int:
    """The devices a rule takes on the node it chose: FGD's best, Random's random, else the tightest."""
    num, milli = cluster.classes.gpu_num[c], cluster.classes.gpu_milli[c]
    if num == 0:
        return 0
    if rule.kind == cols.FGD:
        return fgd_score(cluster, state, c, n)[1]
    if rule.kind == cols.LINEAR:
        return encode_pair(cluster, state, rule.encoding_scale, c, n, rule.features)
    if rule.kind == cols.FLAT and rule.tie == cols.RANDOM and num == 1:
        fitting = 0
        chosen = 0
        for d in range(cluster.nodes.gpu_count[n]):
            if state.gpu_left[n, d] >= milli:
                fitting += 1
                if next_below(rule.rng, fitting) == 0:
                    chosen = d
        return 1 << chosen
    return tightest_devices(state.gpu_left[n], cluster.nodes.gpu_count[n], num, milli)
