"""Numbers that say where something stands in an array."""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from proreus.kernels.jit import compiled_inline

# Of words of 64 bits: a bit, all of them, how far to shift for the word of a place, and its bit in that.
ONE: int = np.uint64(1)  # type: ignore[assignment]
ALL: int = np.uint64(2**64 - 1)  # type: ignore[assignment]
TO_WORD: int = np.uint64(6)  # type: ignore[assignment]
IN_WORD: int = np.uint64(63)  # type: ignore[assignment]


@compiled_inline
def unsigned(index: int) -> int:
    """A whole number from 0 up to 2^32 as one that cannot be negative.

    Of an index that could be, Numba's code asks at each use whether it counts from the end: at the heart of a
    loop these questions are a good part of the instructions.
    """
    return np.uint32(index)  # type: ignore[return-value]


@compiled_inline
def unsigned_word(number: int) -> int:
    """The same of 64 bits, as words of bits have it."""
    return np.uint64(number)  # type: ignore[return-value]


@compiled_inline
def signed(number: int) -> int:
    """Back again: one of each kind together would be a fraction to Numba."""
    return np.int64(number)  # type: ignore[return-value]


@compiled_inline
def lowest_bit(word: int) -> int:
    """The place of the lowest bit that is set in 64 of them, of which one must be."""
    return np.uint64(trailing_zeros(word))  # type: ignore[return-value]
