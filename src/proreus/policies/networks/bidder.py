"""Networks trained by QMIX, PPO or DQN over rows, as one kernel: places bid, the highest bid wins.

The three learn in torch (`policies.networks.row_networks`, `policies.networks.q_network`) and differ in
what they learn from. What decides is alike, so that one kernel plays all of them, without torch and
inside a world's own kernels:

    deep  = relu(D relu(R row + C context + b) + d)                  each place
    whole = relu(W [mean of deep, maximum of deep, context] + w)     all places, or the legal ones alone
    high  = relu(T deep + V whole + t)                               each place; T may be missing
    bid   = take . high - skip . (mean of high over the server's two places)

Bids are those of the torch networks but for a constant that all places share; tests keep the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F32, I64, U8
from proreus.kernels.jit import compiled
from proreus.kernels.structs import packable

_ZERO = np.float32(0.0)


@packable
class Bidder(NamedTuple):
    """A network in which every place bids for the request; what it computes stands above.

    H hidden units; F features of a place, G of the whole. Inputs come first: [from, to].
    """

    row: F32  # [F, H]
    context: F32  # [G, H]
    bias: F32  # [H]
    deeper: F32  # [H, H]
    deeper_bias: F32  # [H]
    whole: F32  # [2 H + G, H]
    whole_bias: F32  # [H]
    top: F32  # [H, H], or [0, H]: what stands below goes up as it is
    top_whole: F32  # [H, H]
    top_bias: F32  # [H]
    take: F32  # [H] what taking the request is worth
    skip: F32  # [H] what passing is worth to a server; zero where nobody passes
    legal_only: I64  # [1] 1: the whole is made of the legal places alone


# kind of checkpoint -> part of a bidder -> tensor of the network that was trained; what is not named is zero
BIDDERS: dict[str, dict[str, str]] = {
    "agents": {
        "row": "agents.trunk.of_row.weight",
        "context": "agents.trunk.of_context.weight",
        "bias": "agents.trunk.of_row.bias",
        "deeper": "agents.trunk.deeper.weight",
        "deeper_bias": "agents.trunk.deeper.bias",
        "whole": "agents.trunk.whole.weight",
        "whole_bias": "agents.trunk.whole.bias",
        "top_whole": "agents.from_whole.weight",
        "take": "agents.take.weight",
        "skip": "agents.skip.weight",
    },
    "actor": {
        "row": "actor.of_row.weight",
        "context": "actor.of_context.weight",
        "bias": "actor.of_row.bias",
        "deeper": "actor.deeper.weight",
        "deeper_bias": "actor.deeper.bias",
        "whole": "actor.whole.weight",
        "whole_bias": "actor.whole.bias",
        "top_whole": "from_whole.weight",
        "take": "logit.weight",
    },
    "q": {
        "row": "of_node.weight",
        "context": "of_context.weight",
        "bias": "of_node.bias",
        "deeper": "deeper.weight",
        "deeper_bias": "deeper.bias",
        "whole": "summary.weight",
        "whole_bias": "summary.bias",
        "top": "bid_of_node.weight",
        "top_whole": "bid_of_summary.weight",
        "top_bias": "bid_of_node.bias",
        "take": "bid.weight",
    },
}


def bidder_of(kind: str, tensors: Mapping[str, NDArray[Any]], sizes: tuple[int, int]) -> Bidder:
    """The bidder of a checkpoint's tensors; sizes: features of a row and of the context.

    ValueError names a tensor that is missing, wrong or not finite.
    """
    names = BIDDERS[kind]
    width = tensors[names["deeper"]].shape[0] if names["deeper"] in tensors else 1
    shapes = _shapes(width, sizes)
    parts = {part: np.zeros(shape, dtype=np.float32) for part, shape in shapes.items()}
    parts["top"] = np.zeros((0, width), dtype=np.float32)
    for part, name in names.items():
        # Torch's layers have outputs first; the value network's bid has a second head, which preempts.
        heads = (2 if kind == "q" else 1,) if part in ("take", "skip") else ()
        expected = heads + shapes[part][::-1]
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != expected or not np.isfinite(tensor).all():
            raise ValueError(f"{name}: needs finite numbers of shape {expected}")
        parts[part] = np.ascontiguousarray(tensor[0] if heads else tensor.T, dtype=np.float32)
    return Bidder(**parts, legal_only=np.array([kind == "q"], dtype=np.int64))


def no_bidder(sizes: tuple[int, int]) -> Bidder:
    """Of a rule that does not bid."""
    parts = {part: np.zeros(shape, dtype=np.float32) for part, shape in _shapes(0, sizes).items()}
    return Bidder(**parts, legal_only=np.zeros(1, dtype=np.int64))


def _shapes(width: int, sizes: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    """Of the parts of a bidder with so many hidden units."""
    vectors = dict.fromkeys(("bias", "deeper_bias", "whole_bias", "top_bias", "take", "skip"), (width,))
    squares = dict.fromkeys(("deeper", "top", "top_whole"), (width, width))
    row, context = sizes
    layers = {"row": (row, width), "context": (context, width), "whole": (2 * width + context, width)}
    return {**vectors, **squares, **layers}


@compiled
def make_bids(bidder: Bidder, rows: F32, context: F32, fits: U8, bids: F32) -> None:
    """Fill `bids`, [P], of the places that fit; rows [P, F], context [G], fits [P or more]."""
    places, width = rows.shape[0], bidder.bias.size
    deep, high = np.empty((places, width), dtype=np.float32), np.empty((places, width), dtype=np.float32)
    base, below, summary = (
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
    )
    base[:] = bidder.bias
    _add_layer(bidder.context, context, base)
    for place in range(places):
        if bidder.legal_only[0] and not fits[place]:
            continue
        twin = _twin(rows, fits, place)
        if twin >= 0:
            deep[place] = deep[twin]
            continue
        below[:] = base
        _add_layer(bidder.row, rows[place], below)
        _relu(below)
        deep[place] = bidder.deeper_bias
        _add_layer(bidder.deeper, below, deep[place])
        _relu(deep[place])
    _summarise(bidder, deep, context, fits, summary)
    base[:] = bidder.top_bias
    _add_layer(bidder.top_whole, summary, base)
    for server in range((places + 1) // 2):
        last = min(2 * server + 2, places)  # of rows that are no pairs the last one may stand alone
        if not (fits[2 * server] or fits[last - 1]):
            continue
        passing = _ZERO
        for place in range(2 * server, last):
            if bidder.legal_only[0] and not fits[place]:
                continue
            high[place] = base
            if bidder.top.shape[0]:
                _add_layer(bidder.top, deep[place], high[place])
            else:
                for j in range(width):
                    high[place, j] += deep[place, j]
            _relu(high[place])
            taking = _ZERO
            for j in range(width):
                taking += bidder.take[j] * high[place, j]
                passing += bidder.skip[j] * high[place, j]
            bids[place] = taking
        for place in range(2 * server, last):
            bids[place] -= passing * np.float32(0.5)


@compiled
def _summarise(bidder: Bidder, deep: F32, context: F32, fits: U8, summary: F32) -> None:
    """The whole, [H]: mean and maximum of the places that count, and the context."""
    width = summary.size
    inputs = np.zeros(2 * width + context.size, dtype=np.float32)
    count = 0
    for place in range(deep.shape[0]):
        if bidder.legal_only[0] and not fits[place]:
            continue
        count += 1
        for j in range(width):
            inputs[j] += deep[place, j]
            inputs[width + j] = max(inputs[width + j], deep[place, j])  # none of them is negative
    for j in range(width):
        inputs[j] /= np.float32(count)
    inputs[2 * width :] = context
    summary[:] = bidder.whole_bias
    _add_layer(bidder.whole, inputs, summary)
    _relu(summary)


@compiled
def _twin(rows: F32, fits: U8, place: int) -> int:
    """One of the two places before that looks the same, or -1: then nothing needs to be computed again."""
    for twin in range(max(place - 2, 0), place):
        same = fits[twin] == fits[place]
        for feature in range(rows.shape[1]):
            same &= rows[twin, feature] == rows[place, feature]
        if same:
            return twin
    return -1


@compiled
def _add_layer(weights: F32, inputs: F32, out: F32) -> None:
    """out[J] += inputs[I] weights[I, J]; inputs that are zero, as many are after a `_relu`, cost nothing."""
    for i in range(inputs.size):
        x = inputs[i]
        if x != _ZERO:
            for j in range(out.size):
                out[j] += x * weights[i, j]


@compiled
def _relu(values: F32) -> None:
    for j in range(values.size):
        values[j] = max(values[j], _ZERO)
