"""What networks choose among: some pods, each with its two best moves by a linear scorer, and to stop.

Of the hundreds of moves nearly all are bad, and which ones a linear scorer can tell. So the scorer makes the
offer and the network decides: pods are agents that bid, an agent has two rows (`policies.networks`), and the
last agent, which has one, stops. The rows are those of `encoding.moves`, zeros for the stop; the best move
of the scorer comes first.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, F64, I64
from proreus.kernels.jit import compiled
from proreus.worlds.rebalance.windows.encoding.figures import FIGURES
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, encode_move, fill_squares
from proreus.worlds.rebalance.windows.encoding.scores import score_moves
from proreus.worlds.rebalance.windows.state import Hosting

VERSION = "offers-1"
OFFERED = 12
"""Pods that bid."""
STOP_ROW, CHOICES = 2 * OFFERED, 2 * OFFERED + 2
"""The row of the stop, and rows in all: the other one of the last agent is never legal."""
SIZES = (len(FEATURES), len(FIGURES))
"""Features of a row and of the context."""
NO_MOVE = -1


@compiled
def fill_offers(hosting: Hosting, weights: F64, features: F64, moves: I64, rows: F32) -> None:
    """Fill `moves` int64[CHOICES] with the move of each row, NO_MOVE where there is none, and `rows`
    [CHOICES, FEATURES]; weights [FEATURES] of the scorer that makes the offer; features: room for one
    move's."""
    nodes, pods = hosting.pods.size, hosting.where.size
    scores = np.empty(pods * nodes)
    score_moves(hosting, weights, features, scores)
    best, second = np.empty(pods, dtype=np.int64), np.empty(pods, dtype=np.int64)
    for pod in range(pods):
        best[pod] = _highest(scores, pod * nodes, nodes, NO_MOVE)
        second[pod] = _highest(scores, pod * nodes, nodes, best[pod]) if best[pod] >= 0 else NO_MOVE
    moves[:] = NO_MOVE
    moves[STOP_ROW] = pods * nodes
    rows[:] = 0.0
    squares = np.empty((nodes, 2))
    fill_squares(hosting, squares)
    for offer in range(OFFERED):
        chosen = NO_MOVE
        for pod in range(pods):
            if best[pod] >= 0 and (chosen < 0 or scores[best[pod]] > scores[best[chosen]]):
                chosen = pod
        if chosen < 0:
            return
        for place in range(2):
            move = best[chosen] if place == 0 else second[chosen]
            if move >= 0:
                row = 2 * offer + place
                moves[row] = move
                encode_move(hosting, squares, (move // nodes, move % nodes), features)
                for feature in range(features.size):
                    rows[row, feature] = features[feature]
        best[chosen] = NO_MOVE


@compiled
def _highest(scores: F64, first: int, count: int, other_than: int) -> int:
    """Which of so many scores is highest, the first of equals; NO_MOVE where none is finite."""
    highest = NO_MOVE
    for move in range(first, first + count):
        if move == other_than or scores[move] == -np.inf:
            continue
        if highest < 0 or scores[move] > scores[highest]:
            highest = move
    return highest
