"""`PodsPopulation` whose step is two kernels: one program a lane for time, one for each block of its nodes.

Scores are added feature by feature in the order of the encoding, in double precision, without fused products,
and among equals the first node is taken: the choices are the host's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.encoding.pair import DEVICE_LEFT
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.devices import LEVEL
from proreus.worlds.pods.training.device import columns
from proreus.worlds.pods.training.device.fused.events import begin_episode, decided, delay, happen, move_clock
from proreus.worlds.pods.training.device.fused.features import block_features
from proreus.worlds.pods.training.device.fused.layout import columns_of, room_for, sizes_of, widened
from proreus.worlds.pods.training.device.fused.nodes import block_legal
from proreus.worlds.pods.training.device.fused.placement import place
from proreus.worlds.pods.training.device.fused.world import EXACT
from proreus.worlds.pods.training.device.population import RESTING, PodsPopulation
from proreus.worlds.pods.training.device.tables import Tables

_DECIDE, _NEW_EPISODE = tl.constexpr(columns.DECIDE), tl.constexpr(columns.NEW_EPISODE)
_RESTING = tl.constexpr(RESTING)
_DEVICE_LEFT = tl.constexpr(DEVICE_LEFT)
_LEVEL = tl.constexpr(LEVEL)
_GPU_WHOLE = tl.constexpr(GPU_WHOLE)
_EVENTS = 8
"""Of a lane in one step, at most."""
_WARPS = 4


class Members(NamedTuple):
    """What is played, and what it comes to. Z levels of a gap, B blocks of nodes."""

    weights: Tensor  # float64[E, kinds, F]
    gaps: Tensor  # float64[Z]
    kind: Tensor  # int64[C]
    amount: Tensor  # float64[C, 3]
    used: Tensor  # float64[E, 3] now
    peak: Tensor  # float64[E, 3]
    integral: Tensor  # float64[E, 3]
    span: Tensor  # float64[E]
    score: Tensor  # float64[E, B] the best of each block, minus infinity where there is none
    node: Tensor  # int64[E, B] of it
    devices: Tensor  # int64[E, B] bit masks


class Shape(NamedTuple):
    """Constants besides `Sizes`."""

    kinds: Any
    gaps: Any
    blocks: Any
    wide_blocks: Any
    events: Any


class FusedPopulation(PodsPopulation):
    """The same runs; a lane does several things in a step."""

    def __init__(
        self, workloads: Sequence[Compiled], members: int, options: PodsOptions, device: str
    ) -> None:
        super().__init__(workloads, members, options, device)
        tables = widened(self.tables)
        self._columns = columns_of(tables, self.state)
        self._sizes = sizes_of(tables, self._rules, self.state, _EVENTS)
        lanes, nodes = self.tables.lanes.allocatable.shape[:2]
        blocks = -(-nodes // int(self._sizes.node_block))
        self._grid = lanes, blocks
        self._best = (
            torch.zeros((lanes, blocks), dtype=torch.float64, device=self._device),
            torch.zeros((lanes, blocks), dtype=torch.int64, device=self._device),
            torch.zeros((lanes, blocks), dtype=torch.int64, device=self._device),
        )

    @staticmethod
    def room(tables: Tables) -> int:
        """For how many pods of a lane."""
        return room_for(tables)

    @torch.no_grad()
    def step(self) -> None:
        """Place what was chosen, let time pass to the next pod, score the nodes for it."""
        weights, gaps = self._weights, self._gaps
        members = Members(
            weights,
            gaps,
            self._kind,
            self._amount,
            self._used,
            self._peak,
            self._integral,
            self._span,
            *self._best,
        )
        _, blocks = self._grid
        shape = Shape(
            *map(
                tl.constexpr,
                (weights.shape[1], gaps.shape[0], blocks, triton.next_power_of_2(blocks), _EVENTS),
            )
        )
        play_on[self._grid[:1]](self._columns, members, self._sizes, shape, num_warps=1, **EXACT)
        score_block[self._grid](self._columns, members, self._sizes, shape, num_warps=_WARPS, **EXACT)


@triton.jit
def play_on(w, members, s: tl.constexpr, shape: tl.constexpr):
    """Place the pod at hand of one lane, and go on until there is another. One warp."""
    e = tl.program_id(0).to(tl.int64)
    three = tl.arange(0, 4)
    is_amount = three < 3
    at_sums = e * 3 + three
    if tl.load(w.lanes.phase + e) == _NEW_EPISODE:
        begin_episode(w, s, e)
    if tl.load(w.lanes.phase + e) == _DECIDE:
        _place_best(w, members, s, shape, e)
    left = tl.full((), shape.events, tl.int32)
    while (left > 0) & (tl.load(w.lanes.phase + e) < _DECIDE):
        before = tl.load(w.lanes.clock + e)
        used = tl.load(members.used + at_sums, is_amount, other=0.0)
        if move_clock(w, s, e):
            first = tl.load(w.base.arrival + tl.load(w.base.start + e))
            tl.store(members.span + e, before - first)
            tl.store(w.lanes.phase + e, _RESTING)
            tl.debug_barrier()
        else:
            passed = tl.load(w.lanes.clock + e) - before
            integral = tl.load(members.integral + at_sums, is_amount, other=0.0)
            tl.store(members.integral + at_sums, integral + used * passed, is_amount)
            gone = happen(w, s, e)
            if gone >= 0:
                amount = tl.load(members.amount + gone * 3 + three, is_amount, other=0.0)
                tl.store(members.used + at_sums, used - amount, is_amount)
            tl.debug_barrier()
        left -= 1


@triton.jit
def _place_best(w, members, s, shape, e):
    """On the first of the nodes with the highest score; where there is none, the pod waits or is dropped."""
    b = tl.arange(0, shape.wide_blocks)
    is_block = b < shape.blocks
    score = tl.load(members.score + e * shape.blocks + b, is_block, other=float("-inf"))
    most = tl.max(score, 0)
    pod = tl.load(w.lanes.pod + e)
    if most > float("-inf"):
        best = e * shape.blocks + tl.min(tl.where(score == most, b, shape.blocks), 0)
        place(w, s, e, pod, tl.load(members.node + best), tl.load(members.devices + best))
        c = tl.load(w.pods.pod_class + e * s.pods + pod)
        three = tl.arange(0, 4)
        is_amount = three < 3
        at_sums = e * 3 + three
        used = tl.load(members.used + at_sums, is_amount, other=0.0)
        used += tl.load(members.amount + c * 3 + three, is_amount, other=0.0)
        peak = tl.load(members.peak + at_sums, is_amount, other=0.0)
        tl.store(members.used + at_sums, used, is_amount)
        tl.store(members.peak + at_sums, tl.maximum(peak, used), is_amount)
    else:
        delay(w, s, e, pod, most > float("-inf"))
    decided(w, e)


@triton.jit
def score_block(w, members, s: tl.constexpr, shape: tl.constexpr):
    """The best of a block of nodes for the pod at hand of one lane."""
    e = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    if tl.load(w.lanes.phase + e) == _DECIDE:
        c = tl.load(w.pods.pod_class + e * s.pods + tl.load(w.lanes.pod + e))
        n = block * s.node_block + tl.arange(0, s.node_block)
        legal = block_legal(w, s, e, c, n, 0)
        best = tl.full((), float("-inf"), tl.float64)
        node = tl.full((), 0, tl.int64)
        devices = tl.full((), 0, tl.int64)
        if tl.sum(legal.to(tl.int32), 0) > 0:
            features, taken, _ = block_features(w, s, e, c, n)
            kind = tl.load(members.kind + c)
            at_weights = (e * shape.kinds + kind) * s.features
            total = features[0] * tl.load(members.weights + at_weights)
            for feature in tl.static_range(1, s.features):
                total = total + features[feature] * tl.load(members.weights + at_weights + feature)
            if shape.gaps > 0:
                total = total + _gap_change(w, members, shape, c, features[_DEVICE_LEFT])
            total = tl.where(legal, total, float("-inf"))
            best = tl.max(total, 0)
            node = tl.min(tl.where(legal & (total == best), n, s.nodes), 0).to(tl.int64)
            devices = tl.sum(tl.where(n == node, taken, 0), 0)
        at_block = e * shape.blocks + block
        tl.store(members.score + at_block, best)
        tl.store(members.node + at_block, node)
        tl.store(members.devices + at_block, devices)


@triton.jit
def _gap_change(w, members, shape, c, device_left):
    """What the gap that is left on a shared device is worth, less what it was before."""
    milli = tl.load(w.classes.gpu_milli + c)
    left = tl.floor(device_left * _GPU_WHOLE + 0.5).to(tl.int64)
    after = tl.minimum(tl.maximum(left // _LEVEL, 0), shape.gaps - 1)
    before = tl.minimum(tl.maximum((left + milli) // _LEVEL, 0), shape.gaps - 1)
    change = tl.load(members.gaps + after) - tl.load(members.gaps + before)
    shares = (tl.load(w.classes.gpu_num + c) == 1) & (milli < _GPU_WHOLE)
    return tl.where(shares, change, 0.0)
