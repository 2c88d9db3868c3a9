"""A rule of the world `vms` as a kernel sees it: a kind, weights that it may have learned, a random state."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.packed import packable
from proreus.policies.networks.bidder import Bidder

FIRST_FIT, BEST_FIT, WORST_FIT, BALANCE_FIT, RANDOM, MISTAKEN_BEST_FIT, LEARNED, BIDDING = range(8)


@packable
class VmRule(NamedTuple):
    """A rule."""

    kind: I64  # [1]
    weights: F64  # [features] of a learned scorer
    features: F64  # [features] room for those of one place
    rng: U64  # [1]
    bidder: Bidder
