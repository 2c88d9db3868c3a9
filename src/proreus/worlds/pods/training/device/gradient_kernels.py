"""Kernels of the gradient of PPO's loss for a GPU, in Triton; `scorer_kernels` has the network and the names.

`bid_kernel` comes first, then `head_gradient_kernel`, which goes through choices alone, then
`row_gradient_kernel`, which goes through their nodes again. H, F, FP, G, N, B, C, BN as there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from proreus.worlds.pods.training.device.scorer_kernels import (
    ALL,
    BIAS,
    CONTEXT,
    DELAY,
    FP,
    LEAST,
    NODE,
    OFFSETS,
    PLACE,
    POOLED,
    POOLED_BIAS,
    POOLED_CONTEXT,
    PREEMPT,
    REJECT,
    VALUE,
    F,
    G,
    H,
    base_of,
    block_of,
    context_of,
    hidden_of,
    layer_of,
    node_weights,
    output_of,
    product,
    split,
    take,
    times,
    vector_at,
)

WARPS = tl.constexpr(4)  # of a program


class Played(NamedTuple):
    """What was chosen and what it came to, [D] each."""

    action: Any  # int64
    log_chance: Any  # float32
    advantage: Any  # float32
    target: Any  # float32


class Derived(NamedTuple):
    """What `head_gradient_kernel` leaves for that of the rows."""

    mean: Any  # float32[B, H], the loss by each node's hidden state, through the mean
    log_total: Any  # float32[B], logarithm of the sum of exp(logit)
    entropy: Any  # float32[B]
    pull: Any  # float32[B], the loss by the logarithm of the chance of what was chosen
    push: Any  # float32[B], weight of the entropy in the loss


@triton.jit
def outer(left, right):
    """left [C, I] transposed, times right [C, H]."""
    if left.shape[0] >= 16:
        return times(tl.trans(left), right)
    else:
        return tl.sum(left[:, :, None] * right[:, None, :], 0)


@triton.jit
def _thin(x):
    """[4, 8, H]: sums of rows of x, [C, BN, H], that add up to the sum of all.

    Of a product of tensor cores (64 rows for four warps), a thread has rows 8 and 64 apart: here it adds up
    its own, and need not wait for others.
    """
    rows: tl.constexpr = x.shape[0] * x.shape[1]
    x = tl.reshape(x, (rows // 64, 4, 2, 8, H))
    return tl.sum(tl.sum(x, 2), 0)


@triton.jit
def _entropy_gradient(log, entropy, push, pull):
    """The loss by a logit that was not chosen, of logarithm of its chance, but for what was chosen."""
    return tl.exp(log) * (push * (log + entropy) - pull)


@triton.jit
def head_gradient_kernel(  # noqa: PLR0913 (a kernel)
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
):
    """The loss of each choice, and its derivatives by all but the hidden states of the nodes."""
    choices: tl.constexpr = tiling[0]
    nodes: tl.constexpr = sizes[0]
    clip = tl.load(settings).to(tl.float32)
    value_weight = tl.load(settings + 1).to(tl.float32)
    entropy_weight = tl.load(settings + 2).to(tl.float32)
    delay_weights = vector_at(vector + DELAY)
    reject_weights = vector_at(vector + REJECT)
    value_weights = vector_at(vector + VALUE)
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
        slot, live = take(listed, tile, tiling)
        share = tl.load(listed.share + at, mask=live, other=0.0)
        context = context_of(columns, slot, live)
        into = at[:, None] * H + h[None, :]
        mean = tl.load(pooled.mean + into, mask=live[:, None], other=0.0)
        layer = layer_of(vector, mean, context)
        delay = output_of(vector, layer, DELAY, OFFSETS)
        reject = output_of(vector, layer, REJECT, OFFSETS + 1)
        value = output_of(vector, layer, VALUE, OFFSETS + 2)

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
        moved = bid - log_total - tl.load(played.log_chance + slot, mask=live, other=0.0)
        advantage = tl.load(played.advantage + slot, mask=live, other=0.0)
        ratio = tl.exp(moved)
        bounded = tl.minimum(tl.maximum(ratio, 1.0 - clip), 1.0 + clip) * advantage
        free = ratio * advantage <= bounded  # else the bound is what counts, and it does not move
        miss = value - tl.load(played.target + slot, mask=live, other=0.0)
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
        d_pooled += outer(mean, by_layer)
        d_context += outer(context, by_layer)
        d_bias += tl.sum(by_layer, 0)
        per = tl.load(pooled.per + at, mask=live, other=0.0)
        tl.store(derived.mean + into, times(by_layer, back) * per[:, None], mask=live[:, None])
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
def row_gradient_kernel(  # noqa: PLR0913 (a kernel)
    vector,  # float32[PARAMETERS]
    columns,  # Columns
    action,  # int64[D]
    listed,  # Listed
    derived,  # Derived
    sums,  # float32[programs, POOLED], written: gradient of the parts before "pooled"
    sizes: tl.constexpr,  # (N, width of allowed)
    tiling: tl.constexpr,  # (C, BN)
):
    """The loss by the parameters from which the nodes' hidden states and their bids come."""
    choices: tl.constexpr = tiling[0]
    nodes: tl.constexpr = sizes[0]
    weights = split(node_weights(vector))
    h = tl.arange(0, H)
    d_node = tl.zeros([WARPS, FP, H], tl.float32)
    d_context = tl.zeros([G, H], tl.float32)
    d_bias = tl.zeros([4, 8, H], tl.float32)
    d_place = tl.zeros([4, 8, H], tl.float32)
    d_preempt = tl.zeros([4, 8, H], tl.float32)
    tiles = tl.cdiv(tl.load(listed.count), choices)
    tile = tl.program_id(0).to(tl.int64)
    while tile < tiles:
        at = tile * choices + tl.arange(0, choices)
        slot, live = take(listed, tile, tiling)
        context, base, head, preempts = base_of(vector, columns, slot, live)
        by_mean = tl.load(derived.mean + at[:, None] * H + h[None, :], mask=live[:, None], other=0.0)
        log_total = tl.load(derived.log_total + at, mask=live, other=0.0)
        entropy = tl.load(derived.entropy + at, mask=live, other=0.0)
        pull = tl.load(derived.pull + at, mask=live, other=0.0)
        push = tl.load(derived.push + at, mask=live, other=0.0)
        taken = tl.load(action + slot, mask=live, other=0)
        by_base = tl.zeros([choices, H], tl.float32)
        for first in range(0, nodes, tiling[1]):
            node = first + tl.arange(0, tiling[1])
            features, allowed = block_of(columns, slot, live, node, nodes, sizes[1])
            hidden = hidden_of(split(features), weights, base)
            log = tl.sum(hidden * head[:, None, :], 2) - log_total[:, None]  # [C, BN]
            log = tl.where(allowed, log, LEAST)
            by_bid = _entropy_gradient(log, entropy[:, None], push[:, None], pull[:, None])
            chosen = allowed & (node[None, :] == taken[:, None])  # node N is delay, and not in the block
            by_bid += tl.where(chosen, pull[:, None], 0.0)
            d_preempt += _thin(tl.where(preempts[:, None], by_bid, 0.0)[:, :, None] * hidden)
            d_place += _thin(tl.where(preempts[:, None], 0.0, by_bid)[:, :, None] * hidden)
            through_mean = tl.where(allowed[:, :, None], by_mean[:, None, :], 0.0)
            by_hidden = by_bid[:, :, None] * head[:, None, :] + through_mean
            before = by_hidden * (1.0 - hidden * hidden)  # before the tanh
            by_base += tl.sum(before, 1)
            d_bias += _thin(before)
            # Each warp multiplies rows of its own: as one product, it would take twice the registers.
            share: tl.constexpr = choices * tiling[1] // WARPS
            ours = tl.trans(tl.reshape(features, (WARPS, share, FP)), 0, 2, 1)
            d_node = product(split(ours), split(tl.reshape(before, (WARPS, share, H))), d_node)
        d_context += outer(context, by_base)
        tile += tl.num_programs(0)
    start = sums + tl.program_id(0) * POOLED
    i = tl.arange(0, FP)[:, None]
    tl.store(start + NODE + i * H + h[None, :], tl.sum(d_node, 0), mask=i < F)
    tl.store(start + CONTEXT + tl.arange(0, G)[:, None] * H + h[None, :], d_context)
    tl.store(start + BIAS + h, tl.sum(tl.sum(d_bias, 0), 0))
    tl.store(start + PLACE + h, tl.sum(tl.sum(d_place, 0), 0))
    tl.store(start + PREEMPT + h, tl.sum(tl.sum(d_preempt, 0), 0))
