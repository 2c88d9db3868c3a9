"""A rule of the world `vms` as a kernel sees it: a kind, weights that it may have learned, a random state."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.structs import packable
from proreus.policies.networks.bidder import Bidder

FIRST_FIT, BEST_FIT, WORST_FIT, BALANCE_FIT, RANDOM, MISTAKEN_BEST_FIT, LEARNED, BIDDING, GAPS = range(9)


CROWDED, ROOMY, CALM, EASY = range(4)
"""The cluster was full time and again lately; it hardly ever was, and there is room now; anything else; it
has filled so slowly since it was empty that there will be room for all."""

OFTEN_FULL, SO_FAR_PLACED, SO_FAR_FULL, SO_FAR_EASY = range(4)
"""What a rule remembers of its cluster: how often it was full, a mean that forgets and begins at `AT_FIRST`;
since it was empty the machines placed, how often it was full (from never on), 1 if it always was EASY."""


@packable
class VmRule(NamedTuple):
    """A rule, which may be another one while there is room, or was lately."""

    kind: I64  # [4] CROWDED, ROOMY, CALM and EASY
    weights: F64  # [4, features] of a learned scorer, likewise
    gaps: F64  # [4, features of gaps] of one that weighs gaps, likewise
    worth: F64  # [4, 2, knots] their curves
    # [4] up to which share in use ROOMY decides, how often full CALM does, and which share in use after a
    # thousand machines EASY does; 0: never
    below: F64
    lately: F64  # [4] OFTEN_FULL and so on
    now: I64  # [1] which of the four decides about the machine at hand
    lost: I64  # [typical sizes] room to weigh a place
    rng: U64  # [1]
    bidder: Bidder
