"""What a node costs an hour. No description of a node says, so list prices stand in."""

from __future__ import annotations

from proreus.kernels.arrays import F64
from proreus.model.resources import COL_CPU, COL_MEMORY
from proreus.worlds.pods.state.columns import Nodes

# Dollars an hour as OpenCost takes them for clusters whose bills it cannot read (configs/default.json: GCP
# us-central1). Only how they compare matters to a policy; who pays others scales all costs alike.
CORE, GIB, GPU = 0.031611, 0.004237, 0.95
_MILLI, _BYTES_OF_GIB = 1000.0, float(1 << 30)


def prices_of(nodes: Nodes) -> F64:
    """float64[N], dollars an hour."""
    cores, gib = nodes.allocatable[:, COL_CPU] / _MILLI, nodes.allocatable[:, COL_MEMORY] / _BYTES_OF_GIB
    prices: F64 = CORE * cores + GIB * gib + GPU * nodes.gpu_count
    return prices
