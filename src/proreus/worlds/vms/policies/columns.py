"""A rule of the world `vms` as a kernel sees it: a kind, weights that it may have learned, a random state."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.packed import packable
from proreus.policies.networks.bidder import Bidder

FIRST_FIT, BEST_FIT, WORST_FIT, BALANCE_FIT, RANDOM, MISTAKEN_BEST_FIT, LEARNED, BIDDING, GAPS = range(9)


CROWDED, ROOMY, CALM = range(3)
"""The cluster is full time and again; there is room now; there was room most of the time lately."""


@packable
class VmRule(NamedTuple):
    """A rule, which may be another one while there is room, or was lately."""

    kind: I64  # [3] CROWDED, ROOMY and CALM
    weights: F64  # [3, features] of a learned scorer, likewise
    worth: F64  # [3, levels, 2, knots] of gaps, by the load, likewise
    by_load: F64  # [3, levels, features] the weights that make them so, likewise
    below: F64  # [3] share in use up to which ROOMY decides, and on average CALM; 0: never
    lately: F64  # [1] the share in use, a mean that forgets
    now: I64  # [1] which of the three decides about the machine at hand
    lost: I64  # [typical sizes] room to weigh a place
    rng: U64  # [1]
    bidder: Bidder
