"""Numbers that say where something stands in an array."""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled_inline


@compiled_inline
def unsigned(index: int) -> int:
    """A whole number from 0 up to 2^32 as one that cannot be negative.

    Of an index that could be, Numba's code asks at each use whether it counts from the end: at the heart of a
    loop these questions are a good part of the instructions.
    """
    return np.uint32(index)  # type: ignore[return-value]
