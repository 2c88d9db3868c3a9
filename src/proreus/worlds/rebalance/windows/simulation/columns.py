"""The arrays of the world of windows. Letters: W windows, R requests, and those of `state`."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64
from proreus.kernels.structs import packable
from proreus.worlds.rebalance.windows.state import Hosting


@packable
class RequestStream(NamedTuple):
    """The requests; they never change."""

    first: I64  # [W * P + 1] where the requests of a window and pod begin
    amount: F64  # [R, 2]
    standing: F64  # [P, 2] what pods ask for without a request
    start: I64  # [P] node of each pod before anything moves
    demand: F64  # [W, P, 2] what a pod asks for in a window: see `kernel.fill_demand`
    total: F64  # [W + 1, P, 2] sum of `demand` over the windows before


@packable
class WindowsColumns(NamedTuple):
    """One run over some of the windows."""

    hosting: Hosting
    clock: I64  # [2] NOW: the window that is next; END: the first that is not played
    option: I64  # [OPTIONS]
    level: F64  # [LEVELS]
    outcome: F64  # [OUTCOMES] of the window that was played last
    held: F64  # [P, 2] room: what they ask for at one step
    assigned: F64  # [P, 2] room
    order: I64  # [P] room
    members: I64  # [P] room: the pods of one node


NOW, END = range(2)

# Of `option`: how many requests of a pod make a step; whether a step adds to those before it; how pods share.
GROUP, CUMULATIVE, SHARING = range(3)
OPTIONS = 3

# Of `level`: share of a node under which it is idle; weights of the reward.
LOW, W_OVER, W_UNDER, W_UNMET, W_MIGRATED = range(5)
LEVELS = 5

# Of `outcome`: steps of nodes, those over the threshold and those under the low level; requests, those served
# in a step over the threshold, those hit by contention; pod-resources with less than asked; migrations of the
# window, and what the moved pods asked for.
STEPS, OVER, UNDER, REQUESTS, OVER_REQUESTS, HIT, UNMET, MOVES, MIGRATED = range(9)
OUTCOMES = 9
