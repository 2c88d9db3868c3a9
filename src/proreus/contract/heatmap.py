"""A run's heat map made small: one byte a cell, nodes in order, neighbours merged where there are many.

`trials` makes it in the worker, so that little crosses the process boundary; `report` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64

# More rows than a screen has lines would only make the report larger.
MOST_ROWS = 1_250


@dataclass(frozen=True)
class HeatMap:
    """How full the nodes were over time."""

    cells: NDArray[np.uint8]
    """[rows, moments] share in use of the scarcest resource, 255 is full; the fullest nodes come first."""
    times: F64
    """[moments] in seconds."""
    nodes: int
    nodes_per_row: int
    """More than one where neighbours in the order were averaged into a row."""
    by_end: bool
    """Ordered by how full they ended; by the mean where the cluster had emptied by then."""


def heat_map(shares: NDArray[np.float32], times: F64) -> HeatMap:
    """The map of an outcome's `heatmap` [moments, nodes]."""
    moments, nodes = shares.shape
    if not moments:
        return HeatMap(np.zeros((0, 0), dtype=np.uint8), times, nodes, 1, by_end=True)
    by_end = bool(shares[-1].mean() >= shares.mean(axis=1).max() / 2)
    means_over_time = shares.mean(axis=0)
    order = (
        np.lexsort((-means_over_time, -shares[-1])) if by_end else np.argsort(-means_over_time, kind="stable")
    )
    together = -(-nodes // MOST_ROWS)
    starts = np.arange(0, nodes, together)
    sums = np.add.reduceat(shares[:, order].astype(np.float64), starts, axis=1)
    means = sums / np.diff(np.append(starts, nodes))
    cells = np.rint(np.clip(means, 0.0, 1.0) * 255.0).astype(np.uint8).T
    return HeatMap(np.ascontiguousarray(cells), times, nodes, together, by_end)
