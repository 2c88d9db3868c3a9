"""Virtual machines that are interchangeable: the same demand, in the same group of machines."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64
from proreus.worlds.rebalance.snapshots.state import Machines


def kinds_of(machines: Machines) -> tuple[I64, I64]:
    """(kind of each virtual machine, one virtual machine of each kind): int64[V], int64[K]."""
    columns = np.column_stack(
        [
            machines.demand,
            machines.double,
            machines.movable,
            machines.group[machines.machine],
        ]
    ).astype(np.int64)
    _, first, kind = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return kind.ravel().astype(np.int64), first.astype(np.int64)
