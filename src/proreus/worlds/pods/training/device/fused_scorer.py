"""The scorer on a GPU in a few fused kernels: what it makes of choices, and the gradient of PPO's loss.

What `torch_networks` and `clipped_loss` say in dozens of operations, with the same results but for rounding.
Nothing here waits for the device, and shapes depend on no data: CUDA graphs hold all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from proreus.learning.clipped_loss import Taken
from proreus.learning.tensor_lanes.rollout import Drawn, Judged
from proreus.worlds.pods.policies.scorer import HIDDEN, PARAMETERS
from proreus.worlds.pods.training.device.step import Seen

PROGRAMS = 792
"""Programs that share the tiles of a minibatch, at most: six for each of the 132 multiprocessors of an H200,
which has two or three at once."""
MANY_TILES = 1024
"""So many tiles, and no program has to wait for another."""
# What kernels are compiled with. The registers of three programs for each multiprocessor are enough for bids.
BIDS: dict[str, Any] = {"num_warps": 4, "maxnreg": 168}
ROWS: dict[str, Any] = {"num_warps": 4}
HEADS: dict[str, Any] = {"num_warps": 4}
_OF_HEADS = 64  # choices of a tile where there are no nodes in it


class Slots(NamedTuple):
    """What was chosen and what it came to; D choices, and N nodes."""

    rows: Tensor  # float32[D, N, F]
    context: Tensor  # float32[D, G]
    allowed: Tensor  # bool[D, N + 2]
    taken: Taken  # [D] each


class Gradient(NamedTuple):
    """What a step of the optimiser takes."""

    vector: Tensor  # float64[PARAMETERS]
    figures: Tensor  # float64[5], the means of `LossTerms`


def loss_gradient(params: Tensor, slots: Slots, chosen: Tensor, share: Tensor, settings: Tensor) -> Gradient:
    """The gradient of PPO's loss over the chosen slots, int64[B], and the means of its terms.

    share: [B], the weight of each; those of weight 0 cost next to nothing. settings: float64[3..], clip,
    weight of the value's error, weight of the entropy.
    """
    from proreus.worlds.pods.training.device import gradient_kernels
    from proreus.worlds.pods.training.device import scorer_kernels as kernels

    batch, nodes = len(chosen), slots.rows.shape[1]
    columns = kernels.Columns(slots.rows, slots.context, slots.allowed)
    played = gradient_kernels.Played(*slots.taken)
    listed = kernels.Listed(*_those_that_count(chosen, share.float()))
    new = params.new_empty
    pooled = kernels.Pooled(new(batch, HIDDEN), *(new(batch) for _ in range(5)))
    derived = gradient_kernels.Derived(new(batch, HIDDEN), *(new(batch) for _ in range(4)))
    sizes, tiling = (nodes, nodes + 2), _tiling(batch, nodes)
    programs = _programs(batch, tiling[0])
    kernels.bid_kernel[programs,](
        params, columns, played.action, listed, pooled, params, sizes, tiling, store_bids=False, **BIDS
    )
    of_heads = new(_programs(batch, _OF_HEADS), PARAMETERS - kernels.POOLED.value + 5)
    gradient_kernels.head_gradient_kernel[len(of_heads),](
        params, columns, played, listed, pooled, derived, settings, of_heads, sizes, (_OF_HEADS,), **HEADS
    )
    of_rows = new(programs, kernels.POOLED.value)
    gradient_kernels.row_gradient_kernel[programs,](
        params, columns, played.action, listed, derived, of_rows, sizes, tiling, **ROWS
    )
    sums = torch.cat([each.sum(0, dtype=torch.float64) for each in (of_rows, of_heads)])
    return Gradient(sums[:PARAMETERS], sums[PARAMETERS:])


def _those_that_count(chosen: Tensor, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(chosen, share) with those of a share first, in their order, and how many these are: int64[1]."""
    counts = share != 0.0
    numbers = torch.cumsum(counts, 0)
    places = torch.where(counts, numbers - 1, len(chosen))  # the others go where nobody looks
    first = chosen.new_zeros(len(chosen) + 1).scatter_(0, places, chosen)
    weights = share.new_zeros(len(chosen) + 1).scatter_(0, places, share)
    return first, weights, numbers[-1:]


def _tiling(choices: int, nodes: int) -> tuple[int, int]:
    """(choices, nodes) of a block: 128 rows. Few should be empty, and every program have something to do."""
    if nodes <= 8:
        return 16, 8
    empty = -nodes % 128 / nodes
    few = choices // 8 < MANY_TILES
    return (1, 128) if empty < 0.1 or (few and nodes > 16) else (8, 16)


def _programs(choices: int, of_tile: int) -> int:
    return min(-(-choices // of_tile), PROGRAMS)


class FusedJudge:
    """What the scorer makes of choices, with the parameters as they are then; a `DrawingJudge`."""

    def __init__(self, params: Tensor, returns: Tensor, heads: tuple[bool, bool]):
        """returns: float64[2], mean and spread of what values stand for; heads: may delay, may reject."""
        self._params, self._returns = params, returns
        self._heads = int(heads[0]), int(heads[1])
        self._lanes: dict[int, Tensor] = {}

    def __call__(self, seen: Seen) -> Judged:
        return self._answer(seen, None)[0]

    def draw(self, seen: Seen, unit: Tensor) -> Drawn:
        """unit: float64[E], from 0 to just below 1."""
        return Drawn(*self._answer(seen, unit))

    def _answer(self, seen: Seen, unit: Tensor | None) -> tuple[Judged, Tensor, Tensor]:
        from proreus.worlds.pods.training.device import scorer_kernels as kernels

        lanes, nodes = seen.legal.shape
        listed = self._all(kernels.Listed, lanes)
        rows, context, legal, ready = (
            each.contiguous() for each in (seen.rows, seen.context, seen.legal, seen.ready)
        )
        new = self._params.new_empty
        mean, bids = new(lanes, HIDDEN), new(lanes, nodes)
        pooled = kernels.Pooled(mean, *[mean] * 5)
        columns = kernels.Columns(rows, context, legal)
        tiling = _tiling(lanes, nodes)
        sizes = nodes, nodes
        kernels.bid_kernel[_programs(lanes, tiling[0]),](
            self._params, columns, listed.chosen, listed, pooled, bids, sizes, tiling,
            store_bids=True, **BIDS,
        )  # fmt: skip
        judged = Judged(
            allowed=legal.new_empty(lanes, nodes + 2),
            logs=new(lanes, nodes + 2),
            value=self._returns.new_empty(lanes),
        )
        action, log_chance = listed.chosen.new_empty(lanes), new(lanes)
        tiling = (16, 16) if nodes + 2 <= 16 else (1, 128 if nodes <= 126 else 512)
        kernels.answer_kernel[-(-lanes // tiling[0]),](
            self._params, context, (legal, ready), mean, bids, self._returns,
            self._returns if unit is None else unit, kernels.Answers(*judged, action, log_chance), lanes,
            (nodes, *self._heads), tiling, draw=unit is not None, **HEADS,
        )  # fmt: skip
        return judged, action, log_chance

    def _all(self, listed: Callable[..., Any], lanes: int) -> Any:
        """Every lane, listed."""
        if lanes not in self._lanes:
            self._lanes[lanes] = torch.arange(lanes + 1, device=self._params.device)
        every = self._lanes[lanes]
        return listed(every, self._params, every[lanes:])
