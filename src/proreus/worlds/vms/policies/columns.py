"""A rule of the world `vms` as a kernel sees it: a kind, weights that it may have learned, a random state."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.packed import packable
from proreus.policies.networks.bidder import Bidder

FIRST_FIT, BEST_FIT, WORST_FIT, BALANCE_FIT, RANDOM, MISTAKEN_BEST_FIT, LEARNED, BIDDING = range(8)


CROWDED, ROOMY = range(2)


@packable
class VmRule(NamedTuple):
    """A rule, which may be another one while there is room."""

    kind: I64  # [2] CROWDED and ROOMY
    weights: F64  # [2, features] of a learned scorer, likewise
    crowded: F64  # [1] share in use from which on a cluster is crowded; 0: it always is
    now: I64  # [1] which of the two decides about the machine at hand
    features: F64  # [features] room for those of one place
    rng: U64  # [1]
    bidder: Bidder
