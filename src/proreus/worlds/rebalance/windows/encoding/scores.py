"""What every legal move is worth to a linear scorer: its weights times the features of the move."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.worlds.rebalance.windows.encoding.moves import (
    BASIC,
    FIRST_SIZE,
    VIEWED,
    encode_forecasts,
    encode_sizes,
    fill_squares,
    view_node,
)
from proreus.worlds.rebalance.windows.state import Hosting, may_move


@compiled
def score_moves(hosting: Hosting, weights: F64, features: F64, scores: F64) -> None:
    """Fill `scores` [P * N], minus infinity where a move is not legal; features: room for one move's."""
    nodes, pods = hosting.pods.size, hosting.where.size
    # What a node is like without the move is the same for many of them, and found once.
    now, gone, come = np.empty((nodes, VIEWED)), np.empty(VIEWED), np.empty(VIEWED)
    forecasts, views = weights[:FIRST_SIZE].any(), weights[BASIC:].any()
    squares = np.empty((nodes, 2))
    scores[:] = -np.inf
    if views:
        fill_squares(hosting, squares)
        for node in range(nodes):
            view_node(hosting, squares, node, (0, 0), now[node])
    for pod in range(pods):
        if hosting.moved[pod]:
            continue
        source = hosting.where[pod]
        if views:
            view_node(hosting, squares, source, (pod, -1), gone)
        for node in range(nodes):
            if may_move(hosting, pod, node):
                score, first = 0.0, FIRST_SIZE
                if forecasts:
                    encode_forecasts(hosting, pod, node, features)
                    first = 0
                encode_sizes(hosting, pod, node, features)
                for feature in range(first, BASIC):
                    score += weights[feature] * features[feature]
                if views:
                    view_node(hosting, squares, node, (pod, 1), come)
                    for place in range(VIEWED):
                        gain = now[source, place] + now[node, place] - gone[place] - come[place]
                        score += weights[BASIC + place] * gain
                scores[pod * nodes + node] = score
