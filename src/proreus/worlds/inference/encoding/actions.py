"""A row of features for each flat action: what the pools would be like after it. For learners that score
actions, such as PPO."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, F64
from proreus.worlds.inference.encoding.demand import arrivals_of, demand_of
from proreus.worlds.inference.encoding.pools import CONTEXT, FEATURES, MOST, encode
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.state.observation import InferenceObservation

VERSION = "inference-actions-1"
_POOLS = 2
"""Of which features are shown; a service of one pool has zeros for the other."""
_OF_POOL = ("expected load after it", "likely most after it", "change", "share of the pool that changes")
ROW = (*(f"{what}, pool {pool}" for pool in range(_POOLS) for what in _OF_POOL), "migrates", "does nothing")
SIZES = (len(ROW), _POOLS * len(FEATURES) + len(CONTEXT))


def encode_actions(seen: InferenceObservation) -> tuple[F32, F32]:
    """(rows [K, F], context [G]) of a decision."""
    arrivals, table = arrivals_of(seen), seen.steps.table()
    pools, context = encode(seen, arrivals)
    columns: list[F64] = []
    for pool in seen.pools:
        each = demand_of(seen, pool.role).each
        change = table[:, seen.steps.roles.index(pool.role)]
        moved = table[:, -1] * Scale(migrate=1).moved_into(pool.role)
        after = np.maximum(pool.coming + change + moved, 0.5)
        columns += [
            arrivals.expected * each / after,
            arrivals.likely_most * each / after,
            change / max(seen.steps.scale, 1),
            (change + moved) / max(pool.coming, 1),
        ]
    columns += [np.zeros(len(table))] * (_POOLS - len(seen.pools)) * len(_OF_POOL)
    columns += [table[:, -1] / max(seen.steps.migrate, 1), (table == 0).all(axis=1).astype(np.float64)]
    rows = np.clip(np.stack(columns, axis=1), -MOST, MOST).astype(np.float32)
    missing = np.zeros((_POOLS - len(seen.pools)) * len(FEATURES), dtype=np.float32)
    return rows, np.concatenate([pools.ravel(), missing, context])
