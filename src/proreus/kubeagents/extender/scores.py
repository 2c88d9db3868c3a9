"""From what a policy thinks of nodes to the 0 to 10 that kube-scheduler adds to its own scores. No I/O.

The best of the nodes that are asked about has 10 and is the only one; the others lie between 0 and 9 by how
their score compares. With a large `weight` of the extender the policy decides among what kube-scheduler's
filters have left; with a small one it has a say.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I64

BEST, NEXT = 10, 9
NEUTRAL = 0


def priorities(rows: I64, chosen: int, bids: tuple[I64, F64]) -> list[int]:
    """A score for each node that is asked about.

    rows: of each in the policy's columns, -1 where it is not known; chosen: the row that the policy decides
    for among all nodes, -1: none; bids: rows and how each is liked, where the policy says so.
    """
    liked = np.full(max(rows.max(initial=-1), bids[0].max(initial=-1)) + 2, -np.inf)
    liked[bids[0]] = bids[1]
    given = liked[rows]  # those that are not known stand at the end, where nobody bids
    counted = np.isfinite(given)
    scores = np.full(len(rows), NEUTRAL, dtype=np.int64)
    if not counted.any():
        scores[(rows == chosen) & (rows >= 0)] = BEST
        return scores.tolist()
    highest, lowest = given[counted].max(), given[counted].min()
    span = highest - lowest
    scores[counted] = NEXT if span <= 0 else (NEXT * ((given[counted] - lowest) / span)).astype(np.int64)
    # Of equals the one that the policy itself decides for, else the first.
    equals = np.flatnonzero(given == highest)
    own = equals[rows[equals] == chosen]
    scores[own[0] if len(own) else equals[0]] = BEST
    return scores.tolist()
