"""The rules as one kernel. Of equals the lowest number wins; rules wait only where no node has room."""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.policies.networks.bidder import make_bids
from proreus.worlds.functions.encoding.rows import encode
from proreus.worlds.functions.model import KEEPS
from proreus.worlds.functions.policies import columns as p
from proreus.worlds.functions.policies.columns import FunctionsRule
from proreus.worlds.functions.state import columns as s
from proreus.worlds.functions.state.columns import FunctionsWork, Runs
from proreus.worlds.functions.state.idle_histogram import kept_by_histogram
from proreus.worlds.functions.state.instances import fits, row_of

_SAFE = 0.8
"""ENSURE's: the share of CPU in use up to which requests run undisturbed."""


@compiled
def choose(work: FunctionsWork, runs: Runs, lane: int, rule: FunctionsRule) -> tuple[int, float]:
    """(node, 0), (N: wait, 0) or, of an instance that idles, (-1, seconds to keep it)."""
    if runs.tally[lane, s.KIND] == s.PLACING:
        return _node(work, runs, lane, rule), 0.0
    if rule.keeper[0] == p.KEEPS_FIXED:
        return s.NOBODY, rule.seconds[0]
    if rule.keeper[0] == p.KEEPS_BY_BIDS:
        return s.NOBODY, KEEPS[_highest_bid(work, runs, lane, rule) - work.price.size - 1]
    function = runs.instance[lane, runs.tally[lane, s.SUBJECT], s.FUNCTION]
    return s.NOBODY, kept_by_histogram(runs, lane, function, rule.seconds[0])


@compiled
def _node(work: FunctionsWork, runs: Runs, lane: int, rule: FunctionsRule) -> int:
    nodes, function, kind = work.price.size, runs.tally[lane, s.SUBJECT], rule.kind[0]
    if kind == p.BIDDING:
        return _highest_bid(work, runs, lane, rule)
    if kind == p.RANDOM:
        return _drawn(work, runs, lane, rule)
    begin = rule.cursor[0] if kind == p.ROUND_ROBIN else 0
    best, first, second = nodes, -np.inf, -np.inf
    for step in range(nodes):
        node = (begin + step) % nodes
        if not fits(work, runs, lane, function, node):
            continue
        if kind == p.ROUND_ROBIN:
            rule.cursor[0] = (node + 1) % nodes
            return node
        if kind == p.FIRST_FIT:
            return node
        one, two = desire(work, runs, lane, kind, node)
        if one > first or (one == first and two > second):
            best, first, second = node, one, two
    return best


@compiled
def _drawn(work: FunctionsWork, runs: Runs, lane: int, rule: FunctionsRule) -> int:
    function, count = runs.tally[lane, s.SUBJECT], 0
    for node in range(work.price.size):
        count += fits(work, runs, lane, function, node)
    left = next_below(rule.rng, count)
    for node in range(work.price.size):
        if fits(work, runs, lane, function, node):
            if left == 0:
                return node
            left -= 1
    return work.price.size


@compiled
def desire(work: FunctionsWork, runs: Runs, lane: int, kind: int, node: int) -> tuple[float, float]:
    """How much a rule wants the function at hand there, and what decides between equals; more is better."""
    columns, capacity = runs.node[lane, node], work.capacity[node]
    need = work.need[row_of(work, runs, lane, runs.tally[lane, s.SUBJECT])]
    cpu = (columns[s.CPU] + need[s.CPU]) / capacity[s.CPU]
    memory = (columns[s.MEMORY] + need[s.MEMORY]) / capacity[s.MEMORY]
    if kind == p.BEST_FIT:
        return max(cpu, memory), 0.0
    if kind == p.LEAST_CONNECTIONS:
        return -float(columns[s.HOLDS]), 0.0
    if kind == p.LEAST_UTILISED:
        return -columns[s.BUSY_CPU] / capacity[s.CPU], -cpu
    if kind == p.CHEAPEST:
        return -(float(work.price[node]) if columns[s.HOLDS] == 0 else 0.0), -float(work.price[node])
    if kind == p.ENSURE:
        safe = columns[s.BUSY_CPU] + need[s.CPU_USE] <= _SAFE * capacity[s.CPU]
        if columns[s.HOLDS] > 0 and safe:
            return 2.0, columns[s.BUSY_CPU] / capacity[s.CPU]
        if columns[s.HOLDS] == 0:
            return 1.0, -float(work.price[node])
        return 0.0, -columns[s.BUSY_CPU] / capacity[s.CPU]
    if kind == p.KUBE:
        return 0.5 * ((1.0 - cpu) + (1.0 - memory)) + (1.0 - 0.5 * abs(cpu - memory)), 0.0
    return -float(node), 0.0


@compiled
def bid(work: FunctionsWork, runs: Runs, lane: int, rule: FunctionsRule) -> None:
    """Fill the rule's `bids` and `legal`."""
    encode(work, runs, lane, rule.rows, rule.context, rule.legal)
    if runs.tally[lane, s.KIND] == s.PLACING and not rule.waits[0]:
        rule.legal[work.price.size] = 0
    make_bids(rule.bidder, rule.rows, rule.context, rule.legal, rule.bids)


@compiled
def _highest_bid(work: FunctionsWork, runs: Runs, lane: int, rule: FunctionsRule) -> int:
    bid(work, runs, lane, rule)
    best = -1
    for row in range(rule.bids.size):
        if rule.legal[row] and (best < 0 or rule.bids[row] > rule.bids[best]):
            best = row
    return best
