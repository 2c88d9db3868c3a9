"""The rules that move pods, as one kernel: `choose_move`. Equals fall to the first pod, then the first node.

The hotspot rule is the one that VMAgent's DeployEnv meant to have: while a node is hotter than the threshold,
its largest pod whose move helps goes to the coldest node that can take it. It believes that the next window
is like the last one, and so does the balance rule.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, F64, I64
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.policies.networks.bidder import make_bids
from proreus.worlds.rebalance.windows.encoding.figures import FIGURES, fill_figures, nearest
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES
from proreus.worlds.rebalance.windows.encoding.offers import CHOICES, STOP_ROW, fill_offers
from proreus.worlds.rebalance.windows.encoding.scores import score_moves
from proreus.worlds.rebalance.windows.policies import columns as c
from proreus.worlds.rebalance.windows.policies.columns import MoveRule
from proreus.worlds.rebalance.windows.state import LAST, Hosting, may_move, use_of, use_with

LEAST_GAIN = 0.02
"""Of the balance rule: a smaller fall of the sum of squared shares is not worth a migration."""


@compiled
def choose_move(hosting: Hosting, rule: MoveRule) -> int:
    """The next move as pod * nodes + node, or pods * nodes to stop."""
    kind = rule.kind[0]
    if kind == c.NOTHING:
        return hosting.where.size * hosting.pods.size
    if kind == c.RANDOM:
        return _random_move(hosting, rule)
    if kind == c.HOTSPOT:
        return _cool_hottest(hosting, rule.level[0] if rule.level[0] > 0.0 else hosting.threshold[0])
    if kind == c.BALANCE:
        return _level(hosting)
    if kind == c.ADAPTIVE:
        fill_figures(hosting, rule.figures)
        expert = nearest(rule.figures, rule.stands)
        return (
            _highest_score(hosting, rule.experts[expert], rule.features) if expert >= 0 else _level(hosting)
        )
    if kind == c.BIDDING:
        return _highest_bid(hosting, rule)
    return _highest_score(hosting, rule.weights, rule.features)


@compiled
def _random_move(hosting: Hosting, rule: MoveRule) -> int:
    """Half of the time to stop, else any legal move."""
    nodes, pods = hosting.pods.size, hosting.where.size
    legal = 0
    for pod in range(pods):
        for node in range(nodes):
            legal += may_move(hosting, pod, node)
    if next_below(rule.rng, 2) == 0 or legal == 0:
        return pods * nodes
    left = next_below(rule.rng, legal)
    for pod in range(pods):
        for node in range(nodes):
            if may_move(hosting, pod, node):
                if left == 0:
                    return pod * nodes + node
                left -= 1
    return pods * nodes


@compiled
def _cool_hottest(hosting: Hosting, level: float) -> int:
    nodes, pods = hosting.pods.size, hosting.where.size
    best, hottest, largest = pods * nodes, level, 0.0
    for pod in range(pods):
        source = hosting.where[pod]
        heat = use_of(hosting, LAST, source)
        size = hosting.forecast[LAST, pod, 0] / hosting.capacity[source, 0]
        size = max(size, hosting.forecast[LAST, pod, 1] / hosting.capacity[source, 1])
        if heat <= level or size <= 0.0 or heat < hottest or (heat == hottest and size <= largest):
            continue
        target = _coldest_for(hosting, pod, level)
        if target >= 0:
            best, hottest, largest = pod * nodes + target, heat, size
    return best


@compiled
def _coldest_for(hosting: Hosting, pod: int, level: float) -> int:
    """The coldest node that the pod may go to and that it does not make hot; -1: none."""
    target, coldest = -1, 1e300
    for node in range(hosting.pods.size):
        if may_move(hosting, pod, node) and use_with(hosting, LAST, node, pod) <= level:
            heat = use_of(hosting, LAST, node)
            if heat < coldest:
                target, coldest = node, heat
    return target


@compiled
def _level(hosting: Hosting) -> int:
    """The move that takes most off the sum of squared shares, and so off the variance of loads."""
    nodes, pods = hosting.pods.size, hosting.where.size
    best, most = pods * nodes, LEAST_GAIN
    for pod in range(pods):
        source = hosting.where[pod]
        for node in range(nodes):
            if not may_move(hosting, pod, node):
                continue
            gain = 0.0
            for resource in range(2):
                amount = hosting.forecast[LAST, pod, resource]
                here = hosting.load[LAST, source, resource] / hosting.capacity[source, resource]
                there = hosting.load[LAST, node, resource] / hosting.capacity[node, resource]
                gain += here**2 - (here - amount / hosting.capacity[source, resource]) ** 2
                gain += there**2 - (there + amount / hosting.capacity[node, resource]) ** 2
            if gain > most:
                best, most = pod * nodes + node, gain
    return best


@compiled
def _highest_score(hosting: Hosting, weights: F64, features: F64) -> int:
    """The move with the highest score above 0, which is that of stopping; features: room for one move's."""
    scores = np.empty(hosting.where.size * hosting.pods.size)
    score_moves(hosting, weights, features, scores)
    best, most = scores.size, 0.0
    for move in range(scores.size):
        if scores[move] > most:
            best, most = move, scores[move]
    return best


@compiled
def _highest_bid(hosting: Hosting, rule: MoveRule) -> int:
    """The offered move, or the stop, for which the network bids most."""
    bids = np.zeros(CHOICES, dtype=np.float32)
    moves = np.empty(CHOICES, dtype=np.int64)
    bid_for_offers(hosting, rule, moves, bids)
    best = STOP_ROW
    for row in range(CHOICES):
        if moves[row] >= 0 and (bids[row] > bids[best] or (bids[row] == bids[best] and row < best)):
            best = row
    return int(moves[best])


@compiled
def bid_for_offers(hosting: Hosting, rule: MoveRule, moves: I64, bids: F32) -> None:
    """Fill `moves` int64[CHOICES] with the moves of the offered rows, -1 where there is none, and `bids`."""
    rows = np.empty((CHOICES, len(FEATURES)), dtype=np.float32)
    context, fits = np.empty(len(FIGURES), dtype=np.float32), np.zeros(CHOICES, dtype=np.uint8)
    fill_offers(hosting, rule.weights, rule.features, moves, rows)
    fill_figures(hosting, rule.figures)
    for place in range(context.size):
        context[place] = rule.figures[place]
    for row in range(CHOICES):
        fits[row] = moves[row] >= 0
    make_bids(rule.bidder, rows, context, fits, bids)
