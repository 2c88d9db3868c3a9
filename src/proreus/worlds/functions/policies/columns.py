"""A policy as kernels take it."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F32, F64, I64, U8, U64
from proreus.kernels.structs import packable
from proreus.policies.networks.bidder import Bidder


@packable
class FunctionsRule(NamedTuple):
    """Where an instance goes, and how long an idle one stays."""

    kind: I64  # [1]
    keeper: I64  # [1]
    seconds: F64  # [1] of a fixed keep-alive, or where the histogram knows too little
    waits: I64  # [1] 1 where a network may wait
    cursor: I64  # [1] round robin's next node
    rng: U64  # [1]
    rows: F32  # [R, F] scratch of a network
    context: F32  # [G]
    legal: U8  # [R]
    bids: F32  # [R]
    bidder: Bidder


(
    RANDOM,
    ROUND_ROBIN,
    FIRST_FIT,
    BEST_FIT,
    LEAST_CONNECTIONS,
    LEAST_UTILISED,
    CHEAPEST,
    ENSURE,
    KUBE,
    BIDDING,
) = range(10)
KEEPS_FIXED, KEEPS_BY_HISTOGRAM, KEEPS_BY_BIDS = range(3)
