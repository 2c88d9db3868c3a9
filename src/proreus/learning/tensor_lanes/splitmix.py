"""The generator of `kernels.rng` over tensors, bit for bit: counters, so that draws need no order.

A state is int64 with the bits of the host's uint64; products and sums wrap the same way.
"""

from __future__ import annotations

import torch
from torch import Tensor

STEP = 0x9E3779B97F4A7C15 - (1 << 64)
MIX_A = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_B = 0x94D049BB133111EB - (1 << 64)


def ahead(state: Tensor, draws: Tensor | int) -> Tensor:
    """The state after so many draws."""
    if isinstance(draws, int):
        return state + ((STEP * draws + (1 << 63)) % (1 << 64) - (1 << 63))
    return state + STEP * draws


def next_below(state: Tensor, bound: Tensor) -> Tensor:
    """The whole number in 0..bound-1 that the draw which led to this state gave."""
    return torch.remainder(_shifted(_mixed(state), 1), bound)


def next_unit(state: Tensor) -> Tensor:
    """The number from 0 to just below 1, float64, that the draw which led to this state gave."""
    return _shifted(_mixed(state), 11).double() * 2.0**-53


def bits(state: Tensor) -> Tensor:
    """Sixty-three random bits: keys to sort by."""
    return _shifted(_mixed(state), 1)


def _mixed(z: Tensor) -> Tensor:
    z = (z ^ _shifted(z, 30)) * MIX_A
    z = (z ^ _shifted(z, 27)) * MIX_B
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, places: int) -> Tensor:
    """To the right, zeros coming in from the left."""
    return (z >> places) & ((1 << (64 - places)) - 1)
