"""Kernels of the scorer for a GPU, in Triton: what it makes of choices.

Only `fused_scorer` imports this and `gradient_kernels`, and not before it needs them: they import triton.
The network is that of `policies.scorer`, whose names are used here. The hidden states of the nodes are by far
most of the work and of the memory: they are never stored; who needs them computes them again.

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


class Answers(NamedTuple):
    """What is made of each lane, K = N + 2."""

    allowed: Any  # bool[E, K]
    logs: Any  # float32[E, K]
    value: Any  # float64[E]
    action: Any  # int64[E]
    log_chance: Any  # float32[E]


@triton.jit
def _tanh(x):
    """To some 2e-7: (1 - d) / (1 + d) for d = exp(-2 x).

    Powers of two and roots are single instructions for a GPU, while a division or an `exp` is eight. With all
    hidden states computed twice, this is what most instructions are for.
    """
    power = tl.minimum(x * -2.8853900817779268, 30.0, propagate_nan=tl.PropagateNan.ALL)
    decay = tl.exp2(power)
    root = tl.rsqrt(1.0 + decay)
    return (1.0 - decay) * (root * root)


@triton.jit
def vector_at(start):
    """[H] at start."""
    return tl.load(start + tl.arange(0, H))


@triton.jit
def matrix_at(start, rows: tl.constexpr):
    """[rows, H] at start."""
    return tl.load(start + tl.arange(0, rows)[:, None] * H + tl.arange(0, H)[None, :])


@triton.jit
def node_weights(vector):
    """W with rows of zeros at its end: [FP, H]."""
    i = tl.arange(0, FP)[:, None]
    return tl.load(vector + NODE + i * H + tl.arange(0, H)[None, :], mask=i < F, other=0.0)


@triton.jit
def split(x):
    """(high, low): two numbers of 11 bits each for tensor cores, which see no more; together they are x."""
    bits = x.to(tl.int32, bitcast=True)
    high = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return high, x - high


@triton.jit
def product(left, right, total):
    """total + left right, both `split`, as exact as float32: low times low is less than its last bit."""
    total = tl.dot(left[1], right[0], total, input_precision="tf32")
    total = tl.dot(left[0], right[1], total, input_precision="tf32")
    return tl.dot(left[0], right[0], total, input_precision="tf32")


@triton.jit
def times(left, right):
    """left [C, I] right [I, H]. Tensor cores take no less than 16 rows."""
    if left.shape[0] >= 16:
        return product(split(left), split(right), tl.zeros([left.shape[0], right.shape[1]], tl.float32))
    else:
        return tl.sum(left[:, :, None] * right[None, :, :], 1)


@triton.jit
def take(listed, tile, tiling: tl.constexpr):
    """(slot int64[C], live bool[C]) of the choices of a tile; those that are not live are slot 0."""
    at = tile * tiling[0] + tl.arange(0, tiling[0])
    live = at < tl.load(listed.count)
    return tl.load(listed.chosen + at, mask=live, other=0), live


@triton.jit
def context_of(columns, slot, live):
    """[C, G]"""
    place = slot[:, None] * G + tl.arange(0, G)[None, :]
    return tl.load(columns.context + place, mask=live[:, None], other=0.0)


@triton.jit
def base_of(vector, columns, slot, live):
    """(context [C, G], g U + b [C, H], the head that bids [C, H], whether it preempts bool[C])."""
    context = context_of(columns, slot, live)
    base = times(context, matrix_at(vector + CONTEXT, G)) + vector_at(vector + BIAS)[None, :]
    preempts = tl.load(columns.context + slot * G + PREEMPTS, mask=live, other=0.0) > 0.0
    head = tl.where(
        preempts[:, None], vector_at(vector + PREEMPT)[None, :], vector_at(vector + PLACE)[None, :]
    )
    return context, base, head, preempts


@triton.jit
def block_of(columns, slot, live, node, nodes: tl.constexpr, width: tl.constexpr):
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
def hidden_of(features, weights, base):
    """[C, BN, H]: the hidden states of the nodes of a block; features and weights are `split`."""
    at_node = product(features, weights, tl.zeros([features[0].shape[0], H], tl.float32))
    block: tl.constexpr = features[0].shape[0] // base.shape[0]
    return _tanh(tl.reshape(at_node, (base.shape[0], block, H)) + base[:, None, :])


@triton.jit
def bid_kernel(  # noqa: PLR0913 (a kernel)
    vector,  # float32[PARAMETERS]
    columns,  # Columns
    action,  # int64[D]; not read where bids are stored
    listed,  # Listed
    pooled,  # Pooled, written
    bids,  # float32[B, N], written if asked for
    sizes: tl.constexpr,  # (N, width of allowed)
    tiling: tl.constexpr,  # (C, BN)
    store_bids: tl.constexpr,  # else the softmax is summed up
):
    """Bids of all nodes of all choices, what their softmax needs, and the mean of the hidden states."""
    choices: tl.constexpr = tiling[0]
    nodes: tl.constexpr = sizes[0]
    weights = split(node_weights(vector))
    tiles = tl.cdiv(tl.load(listed.count), choices)
    tile = tl.program_id(0).to(tl.int64)
    while tile < tiles:
        at = tile * choices + tl.arange(0, choices)
        slot, live = take(listed, tile, tiling)
        _, base, head, _ = base_of(vector, columns, slot, live)
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
            features, allowed = block_of(columns, slot, live, node, nodes, sizes[1])
            hidden = hidden_of(split(features), weights, base)
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
def layer_of(vector, mean, context):
    """q [C, H] of the mean hidden state and the context."""
    across = times(mean, matrix_at(vector + POOLED, H))
    of_context = times(context, matrix_at(vector + POOLED_CONTEXT, G))
    return _tanh(across + of_context + vector_at(vector + POOLED_BIAS)[None, :])


@triton.jit
def output_of(vector, layer, weights, offset):
    """[C]: one of the three outputs of the layer."""
    return tl.sum(layer * vector_at(vector + weights)[None, :], 1) + tl.load(vector + offset)


@triton.jit
def _logits(bids, seen, lane, k, outputs, sizes: tl.constexpr):
    """(logits [C, BK], allowed bool[C, BK]) of the actions k, int32[BK]; all in lanes that are not ready.

    seen: legal bool[E, N], ready bool[E]. lane: int64[C]; outputs: those of delay and reject;
    sizes: N, and whether delay and reject are allowed.
    """
    nodes: tl.constexpr = sizes[0]
    place = lane[:, None] * nodes + k[None, :]
    to_node = (lane >= 0)[:, None] & (k < nodes)[None, :]
    bid = tl.load(bids + place, mask=to_node, other=0.0)
    legal = tl.load(seen[0] + place, mask=to_node, other=0) != 0
    unready = tl.load(seen[1] + lane) == 0
    may = ((k == nodes) & (sizes[1] != 0)) | ((k == nodes + 1) & (sizes[2] != 0))
    allowed = (legal | may[None, :] | unready[:, None]) & (k < nodes + 2)[None, :]
    logit = tl.where((k == nodes)[None, :], outputs[0][:, None], bid)
    logit = tl.where((k == nodes + 1)[None, :], outputs[1][:, None], logit)
    return tl.where(allowed, logit, LEAST), allowed


@triton.jit
def answer_kernel(  # noqa: PLR0913 (a kernel)
    vector,  # float32[PARAMETERS]
    context,  # float32[E, G]
    seen,  # (legal bool[E, N], ready bool[E])
    mean,  # float32[E, H], of the hidden states
    bids,  # float32[E, N]
    scale,  # float64[2]: mean and spread of what values stand for
    unit,  # float64[E], where an action is drawn
    answers,  # Answers, written
    lanes,  # E
    sizes: tl.constexpr,  # (N, whether delay is allowed, whether reject is)
    tiling: tl.constexpr,  # (C, BK): actions are taken in blocks, too
    draw: tl.constexpr,
):
    """Chances of all actions, values and drawn actions of C lanes."""
    choices: tl.constexpr = tiling[0]
    nodes: tl.constexpr = sizes[0]
    width: tl.constexpr = nodes + 2
    lane = tl.program_id(0).to(tl.int64) * choices + tl.arange(0, choices)
    live = lane < lanes
    known = tl.where(live, lane, 0)
    h = tl.arange(0, H)
    pooled = tl.load(mean + known[:, None] * H + h[None, :])
    features = tl.load(context + known[:, None] * G + tl.arange(0, G)[None, :])
    layer = layer_of(vector, pooled, features)
    delay = output_of(vector, layer, DELAY, OFFSETS)
    reject = output_of(vector, layer, REJECT, OFFSETS + 1)
    value = output_of(vector, layer, VALUE, OFFSETS + 2).to(tl.float64)
    tl.store(answers.value + lane, value * tl.load(scale + 1) + tl.load(scale), mask=live)

    most = tl.full([choices], LEAST, tl.float32)
    total = tl.zeros([choices], tl.float32)
    for first in range(0, width, tiling[1]):
        k = first + tl.arange(0, tiling[1])
        logit, allowed = _logits(bids, seen, known, k, (delay, reject), sizes)
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
        logit, allowed = _logits(bids, seen, known, k, (delay, reject), sizes)
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
