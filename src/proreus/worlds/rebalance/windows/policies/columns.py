"""A rule that moves pods as a kernel sees it."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.structs import packable
from proreus.policies.networks.bidder import Bidder

NOTHING, RANDOM, HOTSPOT, BALANCE, LEARNED, ADAPTIVE, BIDDING = range(7)


@packable
class MoveRule(NamedTuple):
    kind: I64  # [1]
    level: F64  # [1] of the hotspot rule: the share above which a node is hot; 0: the world's threshold
    weights: F64  # [features] of a learned scorer, or of the one that offers moves to a network
    stands: F64  # [K, figures] of experts: where they stand
    experts: F64  # [K, features] their weights
    figures: F64  # [figures] room for those of the demand
    features: F64  # [features] room for those of one move
    rng: U64  # [1]
    bidder: Bidder  # the network of a policy that bids
