"""Kernels of the scorer for a GPU, in Triton: what it makes of choices, and the gradient of PPO's loss.

Nothing but `fused_scorer` imports this, since it imports triton. The network is that of `policies.scorer`,
whose names are used here: the hidden states of the nodes are by far most of the work, so they are never stored;
`row_gradient_kernel` computes them again.

Each program takes tiles of C choices and goes through their nodes in blocks of BN: a block is a matrix of
C * BN rows. Programs are fewer than tiles: each goes on with the tile that is as many further as there are
programs, keeps its sums in registers, and stores them once. So sums have an order: the same bits every time.

H hidden, F pair features (FP with zeros up to a power of two), G context features, N nodes, B choices.
`while` is where a range would do because the interpreter has no ranges that end in a tensor.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, NamedTuple

import triton
import triton.language as tl

from proreus.worlds.pods.encoding.context import PREEMPTING
from proreus.worlds.pods.policies.scorer import HIDDEN, LAYOUT

# Where the parts of the parameters stand. Kernels know no other globals than these.
_SIZES = [math.prod(shape) for shape in LAYOUT.values()]
_START = dict(zip(LAYOUT, accumulate([0, *_SIZES]), strict=False))
NODE, CONTEXT, BIAS = (tl.constexpr(_START[name]) for name in ("node", "context", "bias"))
PLACE, PREEMPT, POOLED = (tl.constexpr(_START[name]) for name in ("place", "preempt", "pooled"))
POOLED_CONTEXT, POOLED_BIAS = (tl.constexpr(_START[name]) for name in ("pooled_context", "pooled_bias"))
DELAY, REJECT, VALUE = (tl.constexpr(_START[name]) for name in ("delay", "reject", "value"))
OFFSETS, ALL = tl.constexpr(_START["offsets"]), tl.constexpr(sum(_SIZES))
H, F, G = tl.constexpr(HIDDEN), tl.constexpr(LAYOUT["node"][0]), tl.constexpr(LAYOUT["context"][0])
FP = tl.constexpr(triton.next_power_of_2(LAYOUT["node"][0]))
PREEMPTS = tl.constexpr(PREEMPTING)
LEAST = tl.constexpr(-1e30)  # stands for minus infinity: the difference of two of them is a number


class Columns(NamedTuple):
    """Where choices stand; D of them, of which others are listed."""

    rows: Any  # float32[D, N, F]
    context: Any  # float32[D, G]
    allowed: Any  # bool[D, width]; the first N are of the nodes


class Played(NamedTuple):
    """What was chosen and what it came to, [D] each."""

    action: Any  # int64
    log_chance: Any  # float32
    advantage: Any  # float32
    target: Any  # float32


class Listed(NamedTuple):
    """The choices to take."""

    chosen: Any  # int64[B], places in the columns
    share: Any  # float32[B], the weight of each
    count: Any  # int64[1]: only so many of them count, the first


class Pooled(NamedTuple):
    """What `bid_kernel` finds of the nodes of each choice."""

    mean: Any  # float32[B, H], of the hidden states of the nodes that may be chosen
    per: Any  # float32[B], 1 over their number
    most: Any  # float32[B], the largest bid m
    total: Any  # float32[B], sum of exp(bid - m)
    weighted: Any  # float32[B], sum of exp(bid - m) (bid - m)
    bid: Any  # float32[B], of the node that was chosen


class Derived(NamedTuple):
    """What `head_gradient_kernel` leaves for that of the rows."""

    mean: Any  # float32[B, H], the loss by each node's hidden state, through the mean
    log_total: Any  # float32[B], logarithm of the sum of exp(logit)
    entropy: Any  # float32[B]
    pull: Any  # float32[B], the loss by the logarithm of the chance of what was chosen
    push: Any  # float32[B], weight of the entropy in the loss


class Answers(NamedTuple):
    """What is made of each lane, K = N + 2."""

    allowed: Any  # bool[E, K]
    logs: Any  # float32[E, K]
    value: Any  # float64[E]
    action: Any  # int64[E]
    log_chance: Any  # float32[E]


@triton.jit
def _tanh(x):
    """To the last bits of float32, near zero as well, where a formula of exponentials alone loses them."""
    decay = tl.exp(-2.0 * tl.abs(x))
    large = (1.0 - decay) / (1.0 + decay)
    square = x * x
    series = ((-5.70498872745e-3 * square + 2.06390887954e-2) * square - 5.37397155531e-2) * square
    series = (series + 1.33314422036e-1) * square - 3.33332819422e-1  # Cephes' tanhf
    return tl.where(tl.abs(x) < 0.625, x + x * square * series, tl.where(x < 0, -large, large))


@triton.jit
def _vector(start):
    """[H] at start."""
    return tl.load(start + tl.arange(0, H))


@triton.jit
def _matrix(start, rows: tl.constexpr):
    """[rows, H] at start."""
    return tl.load(start + tl.arange(0, rows)[:, None] * H + tl.arange(0, H)[None, :])


@triton.jit
def _node_weights(vector):
    """W with rows of zeros at its end: [FP, H]."""
    i = tl.arange(0, FP)[:, None]
    return tl.load(vector + NODE + i * H + tl.arange(0, H)[None, :], mask=i < F, other=0.0)


@triton.jit
def _times(left, right, precision: tl.constexpr):
    """left [C, I] right [I, H]. Tensor cores take no less than 16 rows."""
    if left.shape[0] >= 16:
        return tl.dot(left, right, input_precision=precision)
    else:
        return tl.sum(left[:, :, None] * right[None, :, :], 1)


@triton.jit
def _outer(left, right, precision: tl.constexpr):
    """left [C, I] transposed, times right [C, H]."""
    if left.shape[0] >= 16:
        return tl.dot(tl.trans(left), right, input_precision=precision)
    else:
        return tl.sum(left[:, :, None] * right[:, None, :], 0)


@triton.jit
def _take(listed, tile, tiling: tl.constexpr):
    """(slot int64[C], live bool[C]) of the choices of a tile; those that are not live are slot 0."""
    at = tile * tiling[0] + tl.arange(0, tiling[0])
    live = at < tl.load(listed.count)
    return tl.load(listed.chosen + at, mask=live, other=0), live


@triton.jit
def _base(vector, columns, slot, precision: tl.constexpr):
    """(context [C, G], g U + b [C, H], the head that bids [C, H], whether it preempts bool[C])."""
    context = tl.load(columns.context + slot[:, None] * G + tl.arange(0, G)[None, :])
    base = _times(context, _matrix(vector + CONTEXT, G), precision) + _vector(vector + BIAS)[None, :]
    preempts = tl.load(columns.context + slot * G + PREEMPTS) > 0.0
    head = tl.where(
        preempts[:, None], _vector(vector + PREEMPT)[None, :], _vector(vector + PLACE)[None, :]
    )
    return context, base, head, preempts


@triton.jit
def _block(columns, slot, live, node, nodes: tl.constexpr, width: tl.constexpr):
    """(pair features [C * BN, FP], which nodes may be chosen bool[C, BN]) of some nodes, int32[BN]."""
    there = live[:, None] & (node < nodes)[None, :]
    of_node = slot[:, None] * nodes + node[None, :]  # int64[C, BN]
    feature = tl.arange(0, FP)
    features = tl.load(
        columns.rows + (of_node * F)[:, :, None] + feature[None, None, :],
        mask=there[:, :, None] & (feature < F)[None, None, :],
        other=0.0,
    )
    allowed = tl.load(columns.allowed + slot[:, None] * width + node[None, :], mask=there, other=0) != 0
    return tl.reshape(features, (slot.shape[0] * node.shape[0], FP)), allowed


@triton.jit
def _hidden(features, weights, base, precision: tl.constexpr):
    """[C, BN, H]: the hidden states of the nodes of a block."""
    at_node = tl.dot(features, weights, input_precision=precision)
    block: tl.constexpr = features.shape[0] // base.shape[0]
    return _tanh(tl.reshape(at_node, (base.shape[0], block, H)) + base[:, None, :])


@triton.jit
def bid_kernel(
    vector,  # float32[PARAMETERS]
    columns,  # Columns
    action,  # int64[D]; not read where bids are stored
    listed,  # Listed
    pooled,  # Pooled, written
    bids,  # float32[B, N], written if asked for
    sizes: tl.constexpr,  # (N, width of allowed)
    tiling: tl.constexpr,  # (C, BN)
    store_bids: tl.constexpr,  # else the softmax is summed up
    precision: tl.constexpr,
):
    """Bids of all nodes of all choices, what their softmax needs, and the mean of the hidden states."""
    choices: tl.constexpr = tiling[0]
    nodes: tl.constexpr = sizes[0]
    weights = _node_weights(vector)
    tiles = tl.cdiv(tl.load(listed.count), choices)
    tile = tl.program_id(0).to(tl.int64)
    while tile < tiles:
        at = tile * choices + tl.arange(0, choices)
        slot, live = _take(listed, tile, tiling)
        _, base, head, _ = _base(vector, columns, slot, precision)
        number = tl.zeros([choices], tl.float32)
        mean = tl.zeros([choices, H], tl.float32)
        most = tl.full([choices], LEAST, tl.float32)
        total = tl.zeros([choices], tl.float32)
        weighted = tl.zeros([choices], tl.float32)
        of_action = tl.zeros([choices], tl.float32)
        if not store_bids:
            taken = tl.load(action + slot, mask=live, other=0)
        for first in range(0, nodes, tiling[1]):
            node = first + tl.arange(0, tiling[1])
            features, allowed = _block(columns, slot, live, node, nodes, sizes[1])
            hidden = _hidden(features, weights, base, precision)
            bid = tl.sum(hidden * head[:, None, :], 2)  # [C, BN]
            mean += tl.sum(tl.where(allowed[:, :, None], hidden, 0.0), 1)
            number += tl.sum(allowed.to(tl.float32), 1)
            if store_bids:
                inside = live[:, None] & (node < nodes)[None, :]
                tl.store(bids + at[:, None] * nodes + node[None, :], bid, mask=inside)
            else:
                of_action += tl.sum(tl.where(node[None, :] == taken[:, None], bid, 0.0), 1)
                bid = tl.where(allowed, bid, LEAST)
                more = tl.maximum(most, tl.max(bid, 1))
                change, bid = most - more, bid - more[:, None]
                chance = tl.where(allowed, tl.exp(bid), 0.0)
                # sum of exp(b - m) (b - m), of the blocks before with the new m
                weighted = tl.exp(change) * (weighted + change * total) + tl.sum(chance * bid, 1)
                total = tl.exp(change) * total + tl.sum(chance, 1)
                most = more
        per = 1.0 / tl.maximum(number, 1.0)
        into = at[:, None] * H + tl.arange(0, H)[None, :]
        tl.store(pooled.mean + into, mean * per[:, None], mask=live[:, None])
        if not store_bids:
            tl.store(pooled.per + at, per, mask=live)
            tl.store(pooled.most + at, most, mask=live)
            tl.store(pooled.total + at, total, mask=live)
            tl.store(pooled.weighted + at, weighted, mask=live)
            tl.store(pooled.bid + at, of_action, mask=live)
        tile += tl.num_programs(0)


@triton.jit
def _layer(vector, mean, context, precision: tl.constexpr):
    """q [C, H] of the mean hidden state and the context."""
    across = _times(mean, _matrix(vector + POOLED, H), precision)
    of_context = _times(context, _matrix(vector + POOLED_CONTEXT, G), precision)
    return _tanh(across + of_context + _vector(vector + POOLED_BIAS)[None, :])


@triton.jit
def _output(vector, layer, weights, offset):
    """[C]: one of the three outputs of the layer."""
    return tl.sum(layer * _vector(vector + weights)[None, :], 1) + tl.load(vector + offset)


@triton.jit
def _entropy_gradient(log, entropy, push, pull):
    """The loss by a logit that was not chosen, of logarithm of its chance, but for what was chosen."""
    return tl.exp(log) * (push * (log + entropy) - pull)


@triton.jit
def head_gradient_kernel(
    vector,  # float32[PARAMETERS]
    columns,  # Columns
    played,  # Played
    listed,  # Listed
    pooled,  # Pooled
    derived,  # Derived, written
    settings,  # float64[3..]: clip, weights of the value's error and of the entropy
    sums,  # float32[programs, PARAMETERS - POOLED + 5], written: gradient of parts from "pooled" on; means
    sizes: tl.constexpr,  # (N, width of allowed)
    tiling: tl.constexpr,  # (C,)
    precision: tl.constexpr,
):
    """The loss of each choice, and its derivatives by all but the hidden states of the nodes."""
    choices: tl.constexpr = tiling[0]
    nodes: tl.constexpr = sizes[0]
    clip = tl.load(settings).to(tl.float32)
    value_weight = tl.load(settings + 1).to(tl.float32)
    entropy_weight = tl.load(settings + 2).to(tl.float32)
    delay_weights = _vector(vector + DELAY)
    reject_weights = _vector(vector + REJECT)
    value_weights = _vector(vector + VALUE)
    h = tl.arange(0, H)
    back = tl.load(vector + POOLED + h[:, None] + h[None, :] * H)  # V transposed
    d_pooled = tl.zeros([H, H], tl.float32)
    d_context = tl.zeros([G, H], tl.float32)
    d_bias = tl.zeros([H], tl.float32)
    d_delay = tl.zeros([H], tl.float32)
    d_reject = tl.zeros([H], tl.float32)
    d_value = tl.zeros([H], tl.float32)
    # Of each place in a tile; added up at the end: outputs' derivatives, means of the loss's terms.
    of_delay = tl.zeros([choices], tl.float32)
    of_reject = tl.zeros([choices], tl.float32)
    of_value = tl.zeros([choices], tl.float32)
    policy = tl.zeros([choices], tl.float32)
    error = tl.zeros([choices], tl.float32)
    entropies = tl.zeros([choices], tl.float32)
    kl = tl.zeros([choices], tl.float32)
    clipped = tl.zeros([choices], tl.float32)
    tiles = tl.cdiv(tl.load(listed.count), choices)
    tile = tl.program_id(0).to(tl.int64)
    while tile < tiles:
        at = tile * choices + tl.arange(0, choices)
        slot, live = _take(listed, tile, tiling)
        share = tl.load(listed.share + at, mask=live, other=0.0)
        context = tl.load(columns.context + slot[:, None] * G + tl.arange(0, G)[None, :])
        into = at[:, None] * H + h[None, :]
        mean = tl.load(pooled.mean + into, mask=live[:, None], other=0.0)
        layer = _layer(vector, mean, context, precision)
        delay = _output(vector, layer, DELAY, OFFSETS)
        reject = _output(vector, layer, REJECT, OFFSETS + 1)
        value = _output(vector, layer, VALUE, OFFSETS + 2)

        # The softmax of the nodes' bids, which stands ready, and of the other two.
        may_delay = live & (tl.load(columns.allowed + slot * sizes[1] + nodes) != 0)
        may_reject = live & (tl.load(columns.allowed + slot * sizes[1] + nodes + 1) != 0)
        to_delay, to_reject = tl.where(may_delay, delay, LEAST), tl.where(may_reject, reject, LEAST)
        of_nodes = tl.load(pooled.most + at, mask=live, other=0.0)
        most = tl.maximum(of_nodes, tl.maximum(to_delay, to_reject))
        total = tl.load(pooled.total + at, mask=live, other=1.0)
        weighted = tl.load(pooled.weighted + at, mask=live, other=0.0)
        change, to_delay, to_reject = of_nodes - most, to_delay - most, to_reject - most
        weighted = tl.exp(change) * (weighted + change * total)
        weighted += tl.exp(to_delay) * to_delay + tl.exp(to_reject) * to_reject
        total = tl.exp(change) * total + tl.exp(to_delay) + tl.exp(to_reject)
        log_total = most + tl.log(total)
        entropy = tl.log(total) - weighted / total

        # The terms of the loss, as `clipped_terms` has them.
        action = tl.load(played.action + slot, mask=live, other=0)
        bid = tl.load(pooled.bid + at, mask=live, other=0.0)
        bid = tl.where(action == nodes, delay, tl.where(action == nodes + 1, reject, bid))
        moved = tl.where(live, bid - log_total - tl.load(played.log_chance + slot), 0.0)
        advantage = tl.load(played.advantage + slot)
        ratio = tl.exp(moved)
        bounded = tl.minimum(tl.maximum(ratio, 1.0 - clip), 1.0 + clip) * advantage
        free = ratio * advantage <= bounded  # else the bound is what counts, and it does not move
        miss = value - tl.load(played.target + slot)
        policy -= share * tl.minimum(ratio * advantage, bounded)
        error += share * miss * miss
        entropies += share * entropy
        kl += share * (ratio - 1.0 - moved)
        clipped += tl.where(tl.abs(ratio - 1.0) > clip, share, 0.0)

        pull = tl.where(free, -share * ratio * advantage, 0.0)
        push = share * entropy_weight
        tl.store(derived.log_total + at, log_total, mask=live)
        tl.store(derived.entropy + at, entropy, mask=live)
        tl.store(derived.pull + at, pull, mask=live)
        tl.store(derived.push + at, push, mask=live)

        to_delay = tl.where(may_delay, delay - log_total, LEAST)
        to_reject = tl.where(may_reject, reject - log_total, LEAST)
        by_delay = _entropy_gradient(to_delay, entropy, push, pull)
        by_reject = _entropy_gradient(to_reject, entropy, push, pull)
        by_delay += tl.where(action == nodes, pull, 0.0)
        by_reject += tl.where(action == nodes + 1, pull, 0.0)
        by_value = 2.0 * value_weight * share * miss
        of_delay += by_delay
        of_reject += by_reject
        of_value += by_value
        d_delay += tl.sum(by_delay[:, None] * layer, 0)
        d_reject += tl.sum(by_reject[:, None] * layer, 0)
        d_value += tl.sum(by_value[:, None] * layer, 0)
        by_layer = by_delay[:, None] * delay_weights[None, :] + by_reject[:, None] * reject_weights[None, :]
        by_layer = (by_layer + by_value[:, None] * value_weights[None, :]) * (1.0 - layer * layer)
        d_pooled += _outer(mean, by_layer, precision)
        d_context += _outer(context, by_layer, precision)
        d_bias += tl.sum(by_layer, 0)
        per = tl.load(pooled.per + at, mask=live, other=0.0)
        tl.store(derived.mean + into, _times(by_layer, back, precision) * per[:, None], mask=live[:, None])
        tile += tl.num_programs(0)
    start = sums + tl.program_id(0) * (ALL - POOLED + 5)
    tl.store(start + h[:, None] * H + h[None, :], d_pooled)
    of_context = start + (POOLED_CONTEXT - POOLED)
    tl.store(of_context + tl.arange(0, G)[:, None] * H + h[None, :], d_context)
    tl.store(start + (POOLED_BIAS - POOLED) + h, d_bias)
    tl.store(start + (DELAY - POOLED) + h, d_delay)
    tl.store(start + (REJECT - POOLED) + h, d_reject)
    tl.store(start + (VALUE - POOLED) + h, d_value)
    last = start + (OFFSETS - POOLED)
    tl.store(last, tl.sum(of_delay, 0))
    tl.store(last + 1, tl.sum(of_reject, 0))
    tl.store(last + 2, tl.sum(of_value, 0))
    tl.store(last + 3, tl.sum(policy, 0))
    tl.store(last + 4, tl.sum(error, 0))
    tl.store(last + 5, tl.sum(entropies, 0))
    tl.store(last + 6, tl.sum(kl, 0))
    tl.store(last + 7, tl.sum(clipped, 0))


@triton.jit
def row_gradient_kernel(
    vector,  # float32[PARAMETERS]
    columns,  # Columns
    action,  # int64[D]
    listed,  # Listed
    derived,  # Derived
    sums,  # float32[programs, POOLED], written: gradient of the parts before "pooled"
    sizes: tl.constexpr,  # (N, width of allowed)
    tiling: tl.constexpr,  # (C, BN)
    precision: tl.constexpr,
):
    """The loss by the parameters from which the nodes' hidden states and their bids come."""
    choices: tl.constexpr = tiling[0]
    nodes: tl.constexpr = sizes[0]
    weights = _node_weights(vector)
    h = tl.arange(0, H)
    d_node = tl.zeros([FP, H], tl.float32)
    d_context = tl.zeros([G, H], tl.float32)
    d_bias = tl.zeros([H], tl.float32)
    d_place = tl.zeros([H], tl.float32)
    d_preempt = tl.zeros([H], tl.float32)
    tiles = tl.cdiv(tl.load(listed.count), choices)
    tile = tl.program_id(0).to(tl.int64)
    while tile < tiles:
        at = tile * choices + tl.arange(0, choices)
        slot, live = _take(listed, tile, tiling)
        context, base, head, preempts = _base(vector, columns, slot, precision)
        by_mean = tl.load(derived.mean + at[:, None] * H + h[None, :], mask=live[:, None], other=0.0)
        log_total = tl.load(derived.log_total + at, mask=live, other=0.0)
        entropy = tl.load(derived.entropy + at, mask=live, other=0.0)
        pull = tl.load(derived.pull + at, mask=live, other=0.0)
        push = tl.load(derived.push + at, mask=live, other=0.0)
        taken = tl.load(action + slot, mask=live, other=0)
        by_base = tl.zeros([choices, H], tl.float32)
        by_head = tl.zeros([choices, H], tl.float32)
        for first in range(0, nodes, tiling[1]):
            node = first + tl.arange(0, tiling[1])
            features, allowed = _block(columns, slot, live, node, nodes, sizes[1])
            hidden = _hidden(features, weights, base, precision)
            log = tl.sum(hidden * head[:, None, :], 2) - log_total[:, None]  # [C, BN]
            log = tl.where(allowed, log, LEAST)
            by_bid = _entropy_gradient(log, entropy[:, None], push[:, None], pull[:, None])
            chosen = allowed & (node[None, :] == taken[:, None])  # node N is delay, and not in the block
            by_bid += tl.where(chosen, pull[:, None], 0.0)
            by_head += tl.sum(by_bid[:, :, None] * hidden, 1)
            through_mean = tl.where(allowed[:, :, None], by_mean[:, None, :], 0.0)
            by_hidden = by_bid[:, :, None] * head[:, None, :] + through_mean
            before = by_hidden * (1.0 - hidden * hidden)  # before the tanh
            by_base += tl.sum(before, 1)
            flat = tl.reshape(before, (choices * tiling[1], H))
            d_node = tl.dot(tl.trans(features), flat, d_node, input_precision=precision)
        d_context += _outer(context, by_base, precision)
        d_bias += tl.sum(by_base, 0)
        d_preempt += tl.sum(tl.where(preempts[:, None], by_head, 0.0), 0)
        d_place += tl.sum(tl.where(preempts[:, None], 0.0, by_head), 0)
        tile += tl.num_programs(0)
    start = sums + tl.program_id(0) * POOLED
    i = tl.arange(0, FP)[:, None]
    tl.store(start + NODE + i * H + h[None, :], d_node, mask=i < F)
    tl.store(start + CONTEXT + tl.arange(0, G)[:, None] * H + h[None, :], d_context)
    tl.store(start + BIAS + h, d_bias)
    tl.store(start + PLACE + h, d_place)
    tl.store(start + PREEMPT + h, d_preempt)


@triton.jit
def _logits(bids, seen, lane, k, outputs, heads: tl.constexpr, nodes: tl.constexpr):
    """(logits [C, BK], allowed bool[C, BK]) of the actions k, int32[BK]; all in lanes that are not ready.

    seen: legal bool[E, N], ready bool[E]. lane: int64[C]; outputs: those of delay and reject.
    """
    to_node = (lane >= 0)[:, None] & (k < nodes)[None, :]
    place = lane[:, None] * nodes + k[None, :]
    bid = tl.load(bids + place, mask=to_node, other=0.0)
    legal = tl.load(seen[0] + place, mask=to_node, other=0) != 0
    unready = tl.load(seen[1] + lane, mask=lane >= 0, other=0) == 0
    allowed = legal | ((k == nodes) & (heads[0] != 0))[None, :] | ((k == nodes + 1) & (heads[1] != 0))[None, :]
    allowed = (allowed | unready[:, None]) & (k < nodes + 2)[None, :]
    logit = tl.where((k == nodes)[None, :], outputs[0][:, None], bid)
    logit = tl.where((k == nodes + 1)[None, :], outputs[1][:, None], logit)
    return tl.where(allowed, logit, LEAST), allowed


@triton.jit
def answer_kernel(
    vector,  # float32[PARAMETERS]
    context,  # float32[E, G]
    seen,  # (legal bool[E, N], ready bool[E])
    mean,  # float32[E, H], of the hidden states
    bids,  # float32[E, N]
    scale,  # float64[2]: mean and spread of what values stand for
    unit,  # float64[E], where an action is drawn
    answers,  # Answers, written
    lanes,  # E
    nodes: tl.constexpr,  # N
    heads: tl.constexpr,  # whether delay and reject are allowed
    tiling: tl.constexpr,  # (C, BK): actions are taken in blocks, too
    draw: tl.constexpr,
    precision: tl.constexpr,
):
    """Chances of all actions, values and drawn actions of C lanes."""
    choices: tl.constexpr = tiling[0]
    width: tl.constexpr = nodes + 2
    lane = tl.program_id(0).to(tl.int64) * choices + tl.arange(0, choices)
    live = lane < lanes
    known = tl.where(live, lane, 0)
    h = tl.arange(0, H)
    pooled = tl.load(mean + known[:, None] * H + h[None, :])
    features = tl.load(context + known[:, None] * G + tl.arange(0, G)[None, :])
    layer = _layer(vector, pooled, features, precision)
    delay = _output(vector, layer, DELAY, OFFSETS)
    reject = _output(vector, layer, REJECT, OFFSETS + 1)
    value = _output(vector, layer, VALUE, OFFSETS + 2).to(tl.float64)
    tl.store(answers.value + lane, value * tl.load(scale + 1) + tl.load(scale), mask=live)

    most = tl.full([choices], LEAST, tl.float32)
    total = tl.zeros([choices], tl.float32)
    for first in range(0, width, tiling[1]):
        k = first + tl.arange(0, tiling[1])
        logit, allowed = _logits(bids, seen, known, k, (delay, reject), heads, nodes)
        more = tl.maximum(most, tl.max(logit, 1))
        chance = tl.where(allowed, tl.exp(logit - more[:, None]), 0.0)
        total = tl.exp(most - more) * total + tl.sum(chance, 1)
        most = more
    log_total = most + tl.log(total)

    # The action is how many running sums of the chances the unit has passed, and no further than the last.
    sum_before = tl.zeros([choices], tl.float64)
    passed = tl.zeros([choices], tl.int32)
    last = tl.zeros([choices], tl.int32)
    for first in range(0, width, tiling[1]):
        k = first + tl.arange(0, tiling[1])
        logit, allowed = _logits(bids, seen, known, k, (delay, reject), heads, nodes)
        log = logit - log_total[:, None]
        into = lane[:, None] * width + k[None, :]
        inside = live[:, None] & (k < width)[None, :]
        tl.store(answers.logs + into, tl.where(allowed, log, float("-inf")), mask=inside)
        tl.store(answers.allowed + into, allowed, mask=inside)
        if draw:
            chance = tl.where(allowed, tl.exp(log), 0.0).to(tl.float64)
            sums = sum_before[:, None] + tl.cumsum(chance, 1)
            below = (sums <= tl.load(unit + known)[:, None]) & (k < width)[None, :]
            passed += tl.sum(below.to(tl.int32), 1)
            sum_before += tl.sum(chance, 1)
            last = tl.maximum(last, tl.max(tl.where(allowed, k[None, :], 0), 1))
    if draw:
        action = tl.minimum(passed, last)
        bid = tl.load(bids + known * nodes + action, mask=action < nodes, other=0.0)
        bid = tl.where(action == nodes, delay, tl.where(action == nodes + 1, reject, bid))
        tl.store(answers.action + lane, action.to(tl.int64), mask=live)
        tl.store(answers.log_chance + lane, bid - log_total, mask=live)
