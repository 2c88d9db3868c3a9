"""tanh and exp of float32 arrays as polynomials: they vectorise, and round alike on every machine."""

from __future__ import annotations

import math

import numpy as np

from proreus.kernels.arrays import F32, I32
from proreus.kernels.jit import compiled

_ONE, _ZERO, _HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)

# Rational approximation of tanh, exact to float32's last digits; the coefficients are Eigen's.
_LIMIT = np.float32(7.9)
_P1, _P3, _P5, _P7, _P9, _P11, _P13 = (
    np.float32(p)
    for p in (
        4.89352455891786e-03,
        6.37261928875436e-04,
        1.48572235717979e-05,
        5.12229709037114e-08,
        -8.60467152213735e-11,
        2.00018790482477e-13,
        -2.76076847742355e-16,
    )
)
_Q0, _Q2, _Q4, _Q6 = (
    np.float32(q)
    for q in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
)
_LOG2_E, _LN_2 = np.float32(1.4426950408889634), np.float32(math.log(2.0))
_E2, _E3, _E4, _E5, _E6 = (np.float32(1.0 / math.factorial(n)) for n in (2, 3, 4, 5, 6))


@compiled
def tanh_of(values: F32) -> None:
    """In place; values: float32[..]."""
    for j in range(values.shape[0]):
        x = min(max(values[j], -_LIMIT), _LIMIT)
        s = x * x
        above = ((((((_P13 * s + _P11) * s + _P9) * s + _P7) * s + _P5) * s + _P3) * s + _P1) * x
        values[j] = above / (((_Q6 * s + _Q4) * s + _Q2) * s + _Q0)


@compiled
def exponentials(values: F32, bounds: tuple[np.float32, np.float32], out: F32, bits: I32) -> None:
    """Fill out[A] with e^(x - most), values: float32[A]; bounds: most, and the least exponent that counts.

    out and bits, which is working space, may be longer than A.
    """
    most, least = bounds
    for k in range(values.shape[0]):  # exp(x) = 2^n e^r, |r| < ln 2 / 2
        x = min(max(values[k] - most, least), _ZERO)
        n = np.floor(x * _LOG2_E + _HALF)
        r = x - n * _LN_2
        out[k] = ((((((_E6 * r + _E5) * r + _E4) * r + _E3) * r + _E2) * r) + _ONE) * r + _ONE
        bits[k] = (np.int32(n) + np.int32(127)) << np.int32(23)
    powers = bits.view(np.float32)
    for k in range(values.shape[0]):
        out[k] *= powers[k]
