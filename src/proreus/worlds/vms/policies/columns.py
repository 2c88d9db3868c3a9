"""A rule of the world `vms` as a kernel sees it: a kind, weights that it may have learned, a random state."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F32, F64, I64, U64
from proreus.kernels.packed import packable

FIRST_FIT, BEST_FIT, WORST_FIT, BALANCE_FIT, RANDOM, MISTAKEN_BEST_FIT, LEARNED, BIDDING = range(8)


@packable
class Bidder(NamedTuple):
    """A network in which every place bids for the request; what it computes stands in `bidder`.

    H hidden units; F features of a place, G of the whole (`encoding.servers`). Inputs come first: [from, to].
    """

    row: F32  # [F, H]
    context: F32  # [G, H]
    bias: F32  # [H]
    deeper: F32  # [H, H]
    deeper_bias: F32  # [H]
    whole: F32  # [2 H + G, H]
    whole_bias: F32  # [H]
    top: F32  # [H, H], or [0, H]: what stands below goes up as it is
    top_whole: F32  # [H, H]
    top_bias: F32  # [H]
    take: F32  # [H] what taking the request is worth
    skip: F32  # [H] what passing is worth to a server; zero where nobody passes
    legal_only: I64  # [1] 1: the whole is made of the legal places alone


@packable
class VmRule(NamedTuple):
    """A rule."""

    kind: I64  # [1]
    weights: F64  # [features] of a learned scorer
    features: F64  # [features] room for those of one place
    rng: U64  # [1]
    bidder: Bidder
