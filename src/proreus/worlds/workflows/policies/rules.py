"""The rules as one kernel: which ready task, and on which machine. Of equals the lowest number wins."""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.policies.networks.bidder import make_bids
from proreus.worlds.workflows.encoding.rows import encode
from proreus.worlds.workflows.policies import columns as p
from proreus.worlds.workflows.policies.columns import WorkflowsRule
from proreus.worlds.workflows.state import columns as s
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork
from proreus.worlds.workflows.state.offer import offered
from proreus.worlds.workflows.state.placement import (
    added_rent,
    earliest_finish,
    first_to_end,
    inputs_possible,
    penalty_of,
)

_NOT_IN_TIME = -1e15


@compiled
def choose(work: WorkflowsWork, state: WorkflowsState, rule: WorkflowsRule) -> tuple[int, int]:
    """(task, machine), or (PASSES, 0)."""
    kind = rule.kind[0]
    if kind == p.BIDDING:
        return _highest_bid(work, state, rule)
    if kind == p.RANDOM:
        task = state.ready[next_below(rule.rng, state.tally[s.READIES])]
        return task, next_below(rule.rng, work.speed.size)
    if kind in (p.MIN_MIN, p.MAX_MIN):
        return _by_finish(work, state, kind)
    task = _chosen_task(work, state, rule)
    if kind == p.ROUND_ROBIN:
        node = rule.cursor[0]
        rule.cursor[0] = (node + 1) % work.speed.size
        return task, node
    if rule.pinned[task] >= 0:
        return task, rule.pinned[task]
    return task, _chosen_node(work, state, rule, task)


@compiled
def _chosen_task(work: WorkflowsWork, state: WorkflowsState, rule: WorkflowsRule) -> int:
    kind = rule.kind[0]
    if kind in (p.FIFO, p.ROUND_ROBIN):
        task = state.ready[0]
        for at in range(1, state.tally[s.READIES]):
            if state.turn[state.ready[at]] < state.turn[task]:
                task = state.ready[at]
        return task
    # Where the makespan is the aim, ready tasks stand in the order of their upward ranks already.
    ranked = kind in (p.PEFT, p.CPOP) or (kind == p.HEFT and work.option[s.BY_MAKESPAN] == 0)
    if not ranked:
        return state.ready[0]
    task = state.ready[0]
    for at in range(1, state.tally[s.READIES]):
        other = state.ready[at]
        higher = rule.priority[other] > rule.priority[task]
        if higher or (rule.priority[other] == rule.priority[task] and other < task):
            task = other
    return task


@compiled
def _chosen_node(work: WorkflowsWork, state: WorkflowsState, rule: WorkflowsRule, task: int) -> int:
    if rule.kind[0] in (p.HEFT, p.CPOP, p.FIFO):
        return first_to_end(work, state, task)[0]
    inputs_possible(work, state, task)
    best, first, second = 0, -np.inf, -np.inf
    for node in range(work.speed.size):
        one, two = desire(work, state, rule, task, node)
        if one > first or (one == first and two > second):
            best, first, second = node, one, two
    return best


@compiled
def desire(
    work: WorkflowsWork, state: WorkflowsState, rule: WorkflowsRule, task: int, node: int
) -> tuple[float, float]:
    """How much the rule wants the task there, and what decides between equals; more is better.

    `inputs_possible` was asked before.
    """
    kind, now = rule.kind[0], state.figure[s.NOW]
    finish = earliest_finish(work, state, task, node)
    if kind == p.PEFT:
        return -(finish + rule.outlook[task, node]), -finish
    if kind == p.CHEAPEST:
        return -added_rent(work, state, node, finish), -finish
    if kind == p.BEST_FIT:
        if now < state.until[node] >= finish:
            return 1.0, finish - state.until[node]
        return -added_rent(work, state, node, finish), -finish
    if kind == p.LEAST_LOADED:
        return -max(state.busy_until[node] - now, 0.0), -finish
    if kind == p.DEADLINE:
        in_time = finish <= work.sub_deadline[task]
        return (-added_rent(work, state, node, finish) if in_time else _NOT_IN_TIME), -finish
    if kind == p.GREEDY:
        after = finish + work.tail[task] / work.speed[node]
        late = penalty_of(work, work.workflow[task], after)
        return -(added_rent(work, state, node, finish) + late), -finish
    return -finish, 0.0


@compiled
def _by_finish(work: WorkflowsWork, state: WorkflowsState, kind: int) -> tuple[int, int]:
    """Each ready task where it ends first; of these the one that ends first (min-min) or last (max-min)."""
    best_task, best_node, best = -1, 0, np.inf
    for at in range(state.tally[s.READIES]):
        task = state.ready[at]
        node, finish = first_to_end(work, state, task)
        value = finish if kind == p.MIN_MIN else -finish
        if value < best or (value == best and task < best_task):
            best_task, best_node, best = task, node, value
    return best_task, best_node


@compiled
def _highest_bid(work: WorkflowsWork, state: WorkflowsState, rule: WorkflowsRule) -> tuple[int, int]:
    """Of the task on offer."""
    encode(work, state, rule.rows, rule.context, rule.fits)
    make_bids(rule.bidder, rule.rows, rule.context, rule.fits, rule.bids)
    nodes, best = work.speed.size, 0
    for row in range(1, nodes + 1):
        if rule.fits[row] and rule.bids[row] > rule.bids[best]:
            best = row
    return (s.PASSES, 0) if best == nodes else (offered(work, state), best)
