"""A small counter-based random generator that kernels and plain Python share bit for bit (SplitMix64)."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import U64
from proreus.kernels.jit import compiled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_R30, _R27, _R31, _R11, _R1 = (np.uint64(bits) for bits in (30, 27, 31, 11, 1))


def seeded(seed: int) -> U64:
    """A generator's state, uint64[1], for any integer seed."""
    return np.array([np.uint64(seed % 2**64)], dtype=np.uint64)


@compiled
def _next(rng: U64) -> np.uint64:
    rng[0] = rng[0] + _STEP
    z = rng[0]
    z = (z ^ (z >> _R30)) * _MIX_A
    z = (z ^ (z >> _R27)) * _MIX_B
    return z ^ (z >> _R31)


@compiled
def next_below(rng: U64, bound: int) -> int:
    """A whole number in 0..bound-1; advances `rng`, uint64[1]."""
    return int(np.int64(_next(rng) >> _R1) % bound)


@compiled
def next_unit(rng: U64) -> float:
    """A number from 0 to just below 1; advances `rng`, uint64[1]."""
    return float(np.int64(_next(rng) >> _R11)) * 2.0**-53
