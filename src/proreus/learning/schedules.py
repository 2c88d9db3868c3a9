"""Values that change as training goes on: pure functions of how far it has come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def linear_decay(x: float, points: Sequence[float], values: Sequence[float]) -> float:
    """The value at `x` of the line through (points[i], values[i]); level before the first and after the last.

    >>> linear_decay(50, [0, 25, 90, 100], [0.9, 0.5, 0.2, 0.2])
    0.3846153846153846
    """
    if not points or len(points) != len(values):
        raise ValueError(f"{len(points)} points and {len(values)} values do not make a line")
    if list(points) != sorted(points):
        raise ValueError(f"the points {list(points)} do not rise")
    return float(np.interp(x, points, values))
