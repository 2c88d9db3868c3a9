"""What a cluster of virtual machines is like: seven figures, by which a policy knows where it is.

All but one are known before the first machine comes, and none is the number of servers: the same figures
stand for five servers and for a hundred.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.worlds.vms.model import Treatment
from proreus.worlds.vms.state.servers import UNITS

FIGURES = (
    "turns_away",  # 1: a machine that fits nowhere is turned away
    "waits",  # 1: it waits; neither: the run ends
    "keeps",  # 1: deleted machines give nothing back
    "grows",  # 1: servers are added
    "cores",  # of a NUMA node, mean; logarithm to base 2
    "memory_per_core",  # GB, mean; logarithm to base 2
    "crowded",  # where machines are turned away: 1 if the servers were full lately, 0 if not
)
WIDTHS = np.array([0.1, 1.0, 1.0, 1.0, 0.25, 0.25, 0.2])
"""Clusters that differ by so much in one figure are neighbours and no longer the same."""


Stage = Literal["both", "calm", "crowded"]
"""When an expert for clusters that turn machines away decides."""
CROWDED: dict[Stage, float] = {"both": 0.5, "calm": 0.0, "crowded": 1.0}
"""The figure of that name; an expert for both is a neighbour of either."""


def cluster_figures(treatment: Treatment, capacity: I32, stage: Stage = "both") -> F64:
    """float64[7]: see `FIGURES`; capacity [N, 2, 2] as `state.servers` has it."""
    cores, memory = capacity.reshape(-1, 2).mean(axis=0) / UNITS
    return np.array(
        [
            float(treatment.full == "reject"),
            float(treatment.full == "wait"),
            float(not treatment.release),
            float(treatment.grows),
            np.log2(cores),
            np.log2(memory / cores),
            CROWDED[stage] if treatment.full == "reject" else 0.0,
        ]
    )
