"""A rule of the world `vms` as a kernel sees it: a kind, weights that it may have learned, a random state."""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I64, U64
from proreus.kernels.packed import packable
from proreus.policies.networks.bidder import Bidder

FIRST_FIT, BEST_FIT, WORST_FIT, BALANCE_FIT, RANDOM, MISTAKEN_BEST_FIT, LEARNED, BIDDING, GAPS = range(9)


CROWDED, ROOMY, CALM = range(3)
"""The cluster was full time and again lately; it hardly ever was, and there is room now; anything else."""


@packable
class VmRule(NamedTuple):
    """A rule, which may be another one while there is room, or was lately."""

    kind: I64  # [3] CROWDED, ROOMY and CALM
    weights: F64  # [3, features] of a learned scorer, likewise
    gaps: F64  # [3, features of gaps] of one that weighs gaps, likewise
    worth: F64  # [3, 2, knots] their curves
    below: (
        F64  # [3] share in use up to which ROOMY decides, and how often full up to which CALM does; 0: never
    )
    lately: F64  # [1] how often the cluster was full, a mean that forgets
    now: I64  # [1] which of the three decides about the machine at hand
    lost: I64  # [typical sizes] room to weigh a place
    rng: U64  # [1]
    bidder: Bidder
