"""From what a policy thinks of nodes to the 0 to 10 that kube-scheduler adds to its own scores. No I/O.

The best of the nodes that are asked about has 10 and is the only one; the others lie between 0 and 9 by how
their score compares. With a large `weight` of the extender the policy decides among what kube-scheduler's
filters have left; with a small one it has a say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proreus.kernels.arrays import F64, I64

BEST, NEXT = 10, 9
NEUTRAL = 0


def priorities(rows: Sequence[int | None], chosen: int, bids: tuple[I64, F64]) -> list[int]:
    """A score for each node that is asked about.

    rows: of each in the policy's columns, None where it is not known; chosen: the row that the policy decides
    for among all nodes, -1: none; bids: rows and how each is liked, where the policy says so.
    """
    liked = dict(zip(bids[0].tolist(), bids[1].tolist(), strict=True))
    given = [liked.get(row, -np.inf) if row is not None else -np.inf for row in rows]
    finite = [score for score in given if np.isfinite(score)]
    if not finite:
        return [BEST if row is not None and row == chosen else NEUTRAL for row in rows]
    highest, lowest = max(finite), min(finite)
    span = highest - lowest
    scores = [
        NEUTRAL if not np.isfinite(score) else NEXT if span <= 0 else int(NEXT * (score - lowest) / span)
        for score in given
    ]
    # Of equals the one that the policy itself decides for, else the first.
    equals = [place for place, score in enumerate(given) if score == highest]
    own = [place for place in equals if rows[place] == chosen]
    scores[(own or equals)[0]] = BEST
    return scores
