"""Networks that start as a linear score of rows, so that training starts at a rule and not at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.policies.networks.bidder import BIDDERS


def with_scorer(
    kind: str, tensors: Mapping[str, NDArray[Any]], weights: NDArray[Any], sharpness: float
) -> dict[str, NDArray[Any]]:
    """The tensors of a network, changed so that it bids `sharpness` times what linear weights [F] score.

    Two hidden units carry the score, one its positive and one its negative part; the others stay as they are
    and count for nothing yet. `kind`: as in `BIDDERS`.
    """
    names = BIDDERS[kind]
    changed = {name: array.copy() for name, array in tensors.items()}
    signs = np.array([1.0, -1.0], dtype=np.float32)
    if changed[names["bias"]].size < signs.size:
        raise ValueError("a network needs at least two hidden units to score rows")
    changed[names["row"]][:2] = np.outer(signs, weights)
    for part in ("context", "bias", "deeper", "deeper_bias", "top", "top_whole", "top_bias"):
        if part in names:
            changed[names[part]][:2] = 0.0
    for part in ("deeper", "top"):
        if part in names:
            changed[names[part]][[0, 1], [0, 1]] = 1.0
    if "skip" in names:
        changed[names["skip"]][:] = 0.0
    changed[names["take"]][0] = 0.0
    changed[names["take"]][0, :2] = sharpness * signs
    return changed
