"""What a task's place in its graph says before anything runs: ranks, shares of the deadline, bounds."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.kernels.jit import compiled


@compiled
def upward_ranks(seconds: F64, child_from: I32, child: I32, delay: F64) -> F64:
    """[T] the longest path from a task's start to the end, its own seconds and the delays included."""
    rank = np.zeros(seconds.size)
    for task in range(seconds.size - 1, -1, -1):
        longest = 0.0
        for edge in range(child_from[task], child_from[task + 1]):
            longest = max(longest, delay[edge] + rank[child[edge]])
        rank[task] = seconds[task] + longest
    return rank


@compiled
def downward_ranks(seconds: F64, parent_from: I32, parent: I32, delay: F64) -> F64:
    """[T] the longest path from the start to a task, its own seconds not included."""
    rank = np.zeros(seconds.size)
    for task in range(seconds.size):
        for edge in range(parent_from[task], parent_from[task + 1]):
            before = parent[edge]
            rank[task] = max(rank[task], rank[before] + seconds[before] + delay[edge])
    return rank


@compiled
def optimistic_costs(duration: F64, child_from: I32, child: I32, delay: F64) -> F64:
    """[T, N] PEFT's table: the shortest path behind a task, if it runs on that machine and all else is free.

    OCT(t, n) = max over children c of min over machines m of OCT(c, m) + seconds(c, m) + (m != n) delay.
    """
    tasks, nodes = duration.shape
    cost = np.zeros((tasks, nodes))
    for task in range(tasks - 1, -1, -1):
        for edge in range(child_from[task], child_from[task + 1]):
            after = child[edge]
            anywhere = np.inf
            for node in range(nodes):
                anywhere = min(anywhere, cost[after, node] + duration[after, node])
            for node in range(nodes):
                here = cost[after, node] + duration[after, node]
                cost[task, node] = max(cost[task, node], min(here, anywhere + delay[edge]))
    return cost


def lower_bound(fastest: F64, edges: tuple[I32, I32, F64], speeds: F64, runtime: F64 | None) -> float:
    """No schedule of the workflow is shorter, seconds; edges = (child_from, child, delay).

    The longest path with every task on its fastest machine and no transfer at all; and, where machines differ
    in speed alone, the work of all tasks spread evenly over all of them.
    """
    child_from, child, delay = edges
    path = float(upward_ranks(fastest, child_from, child, np.zeros_like(delay)).max())
    return path if runtime is None else max(path, float(runtime.sum() / speeds.sum()))
