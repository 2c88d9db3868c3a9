"""A policy as kernels take it."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F32, F64, I32, I64, U8, U64
from proreus.kernels.structs import packable
from proreus.policies.networks.bidder import Bidder


@packable
class WorkflowsRule(NamedTuple):
    """Which ready task, and where it goes; bound to one work."""

    kind: I64  # [1]
    priority: F64  # [T] the highest goes first, where the rule ranks tasks
    pinned: I32  # [T] the machine that the task must have; -1: any
    outlook: F64  # [T, N] PEFT's table; [0, N] for other rules
    cursor: I64  # [1] round robin's next machine
    rng: U64  # [1]
    rows: F32  # [R, F] scratch of a network
    context: F32  # [G]
    fits: U8  # [R]
    bids: F32  # [R]
    bidder: Bidder


(
    HEFT,
    PEFT,
    CPOP,
    MIN_MIN,
    MAX_MIN,
    FIFO,
    ROUND_ROBIN,
    RANDOM,
    CHEAPEST,
    BEST_FIT,
    LEAST_LOADED,
    DEADLINE,
    GREEDY,
    BIDDING,
) = range(14)
