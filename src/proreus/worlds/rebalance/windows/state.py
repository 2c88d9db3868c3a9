"""Pods on nodes that share what the nodes have, and the moves that change where pods stand.

Worlds keep a `Hosting` up to date, rules and learned scorers read it. Best-effort sharing is here as well:
`share` gives the pods of one node CPU in proportion to what they ask for and memory as they ask for it.

Letters in shape comments: N nodes, P pods, F forecasts; the last axis of amounts is (CPU, memory).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.structs import packable

# What a pod may ask for next: as in its last window; its mean and peak over the last hour; its course of the
# last half hour carried on; its mean over the last day.
LAST, MEAN, PEAK, TREND, DAY = range(5)
FORECASTS = ("last", "mean", "peak", "trend", "day")

# Of `tally`: migrations allowed in a window, those left in this one, most pods of a node; 1 where requests of
# a pod add up, so that it asks for most when the window ends.
BUDGET, LEFT, MOST, ADDS_UP = range(4)

# How pods share a node.
PROPORTIONAL, SMALLEST_FIRST = range(2)


@packable
class Hosting(NamedTuple):
    """Where pods stand and what they will probably ask for."""

    capacity: F64  # [N, 2]
    where: I64  # [P] node of each pod
    pods: I64  # [N] pods on each node
    forecast: F64  # [F, P, 2]
    load: F64  # [F, N, 2] the forecasts of the pods on a node together
    moved: Bool  # [P] in this window
    tally: I64  # [4]
    threshold: F64  # [1] share of a node above which it is too full


@compiled
def may_move(hosting: Hosting, pod: int, node: int) -> bool:
    """Whether the pod may go to the node: it is another one with a place left, and the pod has not moved."""
    return (
        hosting.tally[LEFT] > 0
        and hosting.where[pod] != node
        and hosting.pods[node] < hosting.tally[MOST]
        and not hosting.moved[pod]
    )


@compiled
def move_pod(hosting: Hosting, pod: int, node: int) -> None:
    """Carry out a move that is allowed."""
    source = hosting.where[pod]
    hosting.where[pod] = node
    hosting.pods[source] -= 1
    hosting.pods[node] += 1
    hosting.moved[pod] = True
    hosting.tally[LEFT] -= 1
    for kind in range(hosting.forecast.shape[0]):
        for resource in range(2):
            amount = hosting.forecast[kind, pod, resource]
            hosting.load[kind, source, resource] -= amount
            hosting.load[kind, node, resource] += amount


@compiled
def new_window(hosting: Hosting) -> None:
    """All may move again; the loads follow from the forecasts."""
    hosting.tally[LEFT] = hosting.tally[BUDGET]
    hosting.moved[:] = False
    hosting.load[:] = 0.0
    for kind in range(hosting.forecast.shape[0]):
        for pod in range(hosting.where.size):
            for resource in range(2):
                hosting.load[kind, hosting.where[pod], resource] += hosting.forecast[kind, pod, resource]


@compiled
def legal_moves(hosting: Hosting, mask: Bool) -> None:
    """Fill `mask` bool[P * N + 1]: pod * N + node is a move, the last entry is to stop."""
    nodes = hosting.pods.size
    for pod in range(hosting.where.size):
        for node in range(nodes):
            mask[pod * nodes + node] = may_move(hosting, pod, node)
    mask[hosting.where.size * nodes] = True


@compiled
def use_of(hosting: Hosting, kind: int, node: int) -> float:
    """Share of the node that its scarcer resource will be used to, by that forecast."""
    return max(
        hosting.load[kind, node, 0] / hosting.capacity[node, 0],
        hosting.load[kind, node, 1] / hosting.capacity[node, 1],
    )


@compiled
def use_with(hosting: Hosting, kind: int, node: int, pod: int) -> float:
    """The same with the pod in addition."""
    return max(
        (hosting.load[kind, node, 0] + hosting.forecast[kind, pod, 0]) / hosting.capacity[node, 0],
        (hosting.load[kind, node, 1] + hosting.forecast[kind, pod, 1]) / hosting.capacity[node, 1],
    )


@compiled
def share(request: F64, capacity: F64, rule: int, assigned: F64, order: I64) -> None:
    """Fill `assigned` [K, 2] with what each of K requests on one node gets; order: int64[K] of room.

    In proportion: the whole CPU is divided by request, memory is as asked. Smallest first: both as asked,
    from the smallest request on. Memory that does not suffice goes to the smallest requests first.
    """
    count = request.shape[0]
    smallest_first(request, capacity, order)
    asked = 0.0
    for k in range(count):
        asked += request[k, 0]
    cpu_left, mem_left = capacity[0], capacity[1]
    for place in range(count):
        k = order[place]
        mem = min(request[k, 1], mem_left)
        mem_left -= mem
        assigned[k, 1] = mem
        if rule == PROPORTIONAL:
            assigned[k, 0] = capacity[0] * (request[k, 0] / asked) if asked > 0.0 else 0.0
        else:
            cpu = min(request[k, 0], cpu_left)
            cpu_left -= cpu
            assigned[k, 0] = cpu


@compiled
def smallest_first(request: F64, capacity: F64, order: I64) -> None:
    """Fill `order` int64[K] with the requests by size, the first of equals first."""
    for k in range(request.shape[0]):
        size = request[k, 0] / capacity[0] + request[k, 1] / capacity[1]
        place = k
        while place > 0:
            other = order[place - 1]
            if request[other, 0] / capacity[0] + request[other, 1] / capacity[1] <= size:
                break
            order[place] = other
            place -= 1
        order[place] = k


def moves_mask(hosting: Hosting) -> Bool:
    """bool[P * N + 1]: the legal actions."""
    mask = np.zeros(hosting.where.size * hosting.pods.size + 1, dtype=np.bool_)
    legal_moves(hosting, mask)
    return mask


@dataclass(frozen=True, eq=False)
class WindowObservation:
    """The moment of one decision between two windows. The arrays are live: read them, never write them."""

    hosting: Hosting
    window: int
    """The one that is served next."""
    node_names: tuple[str, ...]
    pod_names: tuple[str, ...]

    def action_mask(self) -> Bool:
        """bool[P * N + 1]: pod * N + node is a move, the last entry is to stop."""
        return moves_mask(self.hosting)
