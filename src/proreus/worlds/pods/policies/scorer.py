"""The size-free scorer: one small network, shared by all nodes, that bids for a pod.

For each legal node n with pair features f_n, in the context g of the decision (`encoding.context`):

    h_n    = tanh(f_n W + g U + b)            hidden state of the node
    bid_n  = h_n . place                      or h_n . preempt, where others must go first
    q      = tanh(mean_n(h_n) V + g X + c)    the cluster as a whole
    delay, reject, value = q . (delay, reject, value) + their offsets

Parameters are one flat float32 vector; `LAYOUT` says what stands where. `forward` and `backward` are
kernels that allocate nothing; `policies.torch_networks` holds the same network in torch, and a test keeps the
two equal. H = HIDDEN, F pair features, G context features, K rows (legal nodes).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.activations import exponentials, tanh_of
from proreus.kernels.arrays import F32
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES

HIDDEN = 32
_BLOCK = 8  # rows that `backward` takes at once
_F, _G, _H = len(PAIR_FEATURES), len(CONTEXT_FEATURES), HIDDEN

# name -> shape, in the order of the flat vector; inputs come before outputs: [from, to].
LAYOUT: dict[str, tuple[int, ...]] = {
    "node": (_F, _H),  # W
    "context": (_G, _H),  # U
    "bias": (_H,),  # b
    "place": (_H,),
    "preempt": (_H,),
    "pooled": (_H, _H),  # V
    "pooled_context": (_G, _H),  # X
    "pooled_bias": (_H,),  # c
    "delay": (_H,),
    "reject": (_H,),
    "value": (_H,),
    "offsets": (3,),  # of delay, reject and value
}
_ENDS = np.cumsum([math.prod(shape) for shape in LAYOUT.values()]).tolist()
PARAMETERS: int = _ENDS[-1]
_START: dict[str, int] = dict(zip(LAYOUT, [0, *_ENDS], strict=False))
(
    _NODE,
    _CONTEXT,
    _BIAS,
    _PLACE,
    _PREEMPT,
    _POOLED,
    _POOLED_CONTEXT,
    _POOLED_BIAS,
    _DELAY,
    _REJECT,
    _VALUE,
    _OFF,
) = _START.values()

# Which of the actions besides rows are allowed: bits of `heads`.
MAY_DELAY, MAY_REJECT = 1, 2


def part(vector: F32, name: str) -> F32:
    """The named part of a flat vector in its shape; a view."""
    start = _START[name]
    return vector[start : start + math.prod(LAYOUT[name])].reshape(LAYOUT[name])


def initial_parameters(seed: int) -> F32:
    """float32[PARAMETERS]: random hidden layers, bids and heads near zero, so that all choices are open."""
    random = np.random.default_rng(seed)
    vector = np.zeros(PARAMETERS, dtype=np.float32)
    for name in ("node", "context", "pooled", "pooled_context"):
        shape = LAYOUT[name]
        part(vector, name)[:] = random.normal(0.0, shape[0] ** -0.5, shape)
    for name in ("place", "preempt", "delay", "reject", "value"):
        part(vector, name)[:] = random.normal(0.0, 0.01, LAYOUT[name])
    return vector


@packable
class ScorerScratch(NamedTuple):
    """Working space of `forward` and `backward` for up to N rows."""

    hidden: F32  # [N + 8, H]
    tail: F32  # [8, F]
    base: F32  # [H]
    pooled: F32  # [H]
    layer: F32  # [H]
    logits: F32  # [N + 10] the rows', then delay, then reject
    chances: F32  # [N + 10] `softmax` of them
    bits: NDArray[np.int32]  # [N + 10]
    d_logits: F32  # [N + 10] in: derivative of the loss
    d_value: F32  # [1] in: derivative of the loss
    d_layer: F32  # [H]
    d_mean: F32  # [H]
    d_base: F32  # [H]


def new_scorer_scratch(nodes: int) -> ScorerScratch:
    """Working space for clusters of up to so many nodes."""
    widths = {"logits", "chances", "d_logits"}
    small = {
        name: np.zeros(nodes + _BLOCK + 2 if name in widths else _H, np.float32)
        for name in ScorerScratch._fields
    }
    small["hidden"] = np.zeros((nodes + _BLOCK, _H), np.float32)
    small["tail"] = np.zeros((_BLOCK, _F), np.float32)
    small["d_value"] = np.zeros(1, np.float32)
    return pack(ScorerScratch(**{**small, "bits": np.zeros(nodes + _BLOCK + 2, np.int32)}))  # type: ignore[arg-type]


_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@compiled
def forward(params: F32, rows: F32, choice: tuple[int, bool], context: F32, work: ScorerScratch) -> float:
    """Fill `work.logits`; returns the value.

    choice: how many of rows, float32[.., F], there are, and whether they preempt; context: float32[G].
    """
    count, preempting = choice
    base, pooled, layer, hidden = work.base, work.pooled, work.layer, work.hidden
    _affine(params[_CONTEXT:_BIAS], context, params[_BIAS:_PLACE], base)
    node = params[_NODE:_CONTEXT].reshape(_F, _H)
    head = params[_PREEMPT:_POOLED] if preempting else params[_PLACE:_PREEMPT]
    pooled[:] = _ZERO
    for k in range(count):
        for j in range(_H):
            total = base[j]
            for i in range(_F):
                total += rows[k, i] * node[i, j]
            hidden[k, j] = total
    tanh_of(hidden.reshape(-1)[: count * _H])
    padded = (count + _BLOCK - 1) // _BLOCK * _BLOCK
    hidden[count:padded] = _ZERO
    for first in range(0, padded, _BLOCK):
        block = hidden[first : first + _BLOCK]
        _rows_times(block, head, work.logits[first : first + _BLOCK])
        for j in range(_H):
            total = pooled[j]
            for k in range(_BLOCK):
                total += block[k, j]
            pooled[j] = total
    share = _ONE / np.float32(max(count, 1))
    for j in range(_H):
        pooled[j] *= share
    _affine(params[_POOLED_CONTEXT:_POOLED_BIAS], context, params[_POOLED_BIAS:_DELAY], layer)
    across = params[_POOLED:_POOLED_CONTEXT].reshape(_H, _H)
    for j in range(_H):
        total = layer[j]
        for i in range(_H):
            total += pooled[i] * across[i, j]
        layer[j] = total
    tanh_of(layer)
    delay, reject, value = params[_OFF], params[_OFF + 1], params[_OFF + 2]
    for j in range(_H):
        delay += layer[j] * params[_DELAY + j]
        reject += layer[j] * params[_REJECT + j]
        value += layer[j] * params[_VALUE + j]
    work.logits[count] = delay
    work.logits[count + 1] = reject
    return value


@compiled
def _affine(weights: F32, inputs: F32, bias: F32, out: F32) -> None:
    """out[H] = inputs[G] weights[G * H] + bias[H]."""
    matrix = weights.reshape(_G, _H)
    for j in range(_H):
        total = bias[j]
        for i in range(_G):
            total += inputs[i] * matrix[i, j]
        out[j] = total


_LEAST = np.float32(-87.0)


@compiled
def softmax(work: ScorerScratch, count: int, heads: int) -> float:
    """Fill `work.chances` from the logits of `count` rows and the allowed heads; returns log of their sum."""
    logits, chances, bits = work.logits, work.chances, work.bits
    most = np.float32(-math.inf)
    for k in range(count):
        most = max(most, logits[k])
    if heads & MAY_DELAY:
        most = max(most, logits[count])
    if heads & MAY_REJECT:
        most = max(most, logits[count + 1])
    exponentials(logits[: count + 2], (most, _LEAST), chances, bits)
    if not heads & MAY_DELAY:
        chances[count] = _ZERO
    if not heads & MAY_REJECT:
        chances[count + 1] = _ZERO
    total = _ZERO
    for k in range(count + 2):
        total += chances[k]
    share = _ONE / total
    for k in range(count + 2):
        chances[k] *= share
    return most + np.log(total)


@compiled
def backward(
    params: F32, rows: F32, choice: tuple[int, bool], context: F32, work: ScorerScratch, gradient: F32
) -> None:
    """Add that of the loss to gradient: float32[PARAMETERS]; `forward` of the same must have come before.

    In: `work.d_logits` and `work.d_value`, the derivatives by the outputs. Overwrites `work.hidden`.
    """
    count, preempting = choice
    hidden, pooled, layer = work.hidden, work.pooled, work.layer
    d_layer, d_mean, d_base = work.d_layer, work.d_mean, work.d_base
    delay, reject, value = work.d_logits[count], work.d_logits[count + 1], work.d_value[0]
    for j in range(_H):
        derivative = delay * params[_DELAY + j] + reject * params[_REJECT + j] + value * params[_VALUE + j]
        d_layer[j] = derivative * (_ONE - layer[j] * layer[j])
        gradient[_DELAY + j] += delay * layer[j]
        gradient[_REJECT + j] += reject * layer[j]
        gradient[_VALUE + j] += value * layer[j]
        gradient[_POOLED_BIAS + j] += d_layer[j]
    gradient[_OFF] += delay
    gradient[_OFF + 1] += reject
    gradient[_OFF + 2] += value
    across = params[_POOLED:_POOLED_CONTEXT].reshape(_H, _H)
    share = _ONE / np.float32(max(count, 1))
    _rows_times(across, d_layer, d_mean)
    for i in range(_H):
        d_mean[i] *= share
    _outer(pooled, d_layer, gradient[_POOLED:_POOLED_CONTEXT])
    _outer(context, d_layer, gradient[_POOLED_CONTEXT:_POOLED_BIAS])

    head = params[_PREEMPT:_POOLED] if preempting else params[_PLACE:_PREEMPT]
    s_head = gradient[_PREEMPT:_POOLED] if preempting else gradient[_PLACE:_PREEMPT]
    d_base[:] = _ZERO
    padded = (count + _BLOCK - 1) // _BLOCK * _BLOCK
    whole = count // _BLOCK * _BLOCK
    for k in range(count + 2, padded):
        work.d_logits[k] = _ZERO  # of a larger choice before: zero times what is not a number is none either
    for k in range(whole, padded):
        for i in range(_F):
            work.tail[k - whole, i] = rows[k, i] if k < count else _ZERO
    s_node = gradient[_NODE:_CONTEXT].reshape(_F, _H)
    for first in range(0, padded, _BLOCK):
        block, bids = hidden[first : first + _BLOCK], work.d_logits[first : first + _BLOCK]
        for j in range(_H):
            total = s_head[j]
            for k in range(_BLOCK):  # the padding is zero, so that it adds nothing
                total += bids[k] * block[k, j]
            s_head[j] = total
        for k in range(_BLOCK):
            bid = bids[k]
            for j in range(_H):
                h = block[k, j]
                block[k, j] = (bid * head[j] + d_mean[j]) * (_ONE - h * h)
        if first == whole:
            block[count - whole :] = _ZERO
            _add_block(work.tail, block, s_node)
        else:
            _add_block(rows[first : first + _BLOCK], block, s_node)
        for j in range(_H):
            total = d_base[j]
            for k in range(_BLOCK):
                total += block[k, j]
            d_base[j] = total
    _outer(context, d_base, gradient[_CONTEXT:_BIAS])
    for j in range(_H):
        gradient[_BIAS + j] += d_base[j]


@compiled
def _add_block(rows: F32, gradient: F32, out: F32) -> None:
    """out[F, H] += rows[8, F] transposed times gradient[8, H]."""
    for i in range(_F):
        for j in range(_H):
            total = out[i, j]
            for k in range(_BLOCK):
                total += rows[k, i] * gradient[k, j]
            out[i, j] = total


@compiled
def _outer(left: F32, right: F32, out: F32) -> None:
    """out[I * H] += left[I] x right[H]; four rows at once, for the sake of vectors. I is a multiple of 4."""
    matrix = out.reshape(left.shape[0], _H)
    for i in range(0, left.shape[0], 4):
        a, b, c, d = left[i], left[i + 1], left[i + 2], left[i + 3]
        for j in range(_H):
            x = right[j]
            matrix[i, j] += a * x
            matrix[i + 1, j] += b * x
            matrix[i + 2, j] += c * x
            matrix[i + 3, j] += d * x


@compiled
def _rows_times(matrix: F32, vector: F32, out: F32) -> None:
    """out[I] = matrix[I, H] vector[H]; four rows at once, for the sake of vectors. I is a multiple of 4."""
    for i in range(0, matrix.shape[0], 4):
        a = b = c = d = _ZERO
        for j in range(_H):
            x = vector[j]
            a += matrix[i, j] * x
            b += matrix[i + 1, j] * x
            c += matrix[i + 2, j] * x
            d += matrix[i + 3, j] * x
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
