"""Weights of moves that know the demand, and what a migration costs.

Each expert stands at the figures of the demand that it was trained on (`encoding.figures`), and has weights
for a few prices of a migration, each trained from its neighbour on, so that those between mix:

    price    what one migration costs; 1: as much as all requests of one node in one window
    weights  of the nearest expert, between those of the two prices around, by the logarithm

A demand that is farther than `REACH` from every expert is unlike anything that was trained on: there the
balance rule decides, and the policy says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.policies.checkpoint import Checkpoint
from proreus.policies.experts import check_wishes, finite_tensor, names_in
from proreus.worlds.rebalance.windows.encoding.figures import FIGURES, nearest
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES

OBJECTIVES = ("violations", "migrations")
USUAL_PRICE = 1 / 30
"""Of a migration, where nobody weighs objectives; chosen on validation windows, where what ships is behind no
rule with it."""


@dataclass(frozen=True, eq=False)
class MoveExperts:
    """K scorers for P prices, and where each stands."""

    names: tuple[str, ...]
    """What each was trained on."""
    stands: F64
    """[K, figures]"""
    prices: F64
    """[P] above 0, ascending."""
    weights: F64
    """[P, K, features]"""

    def at(self, price: float) -> Weighed:
        """The experts for that price; for one beyond those of the training, the nearest of them."""
        place = np.interp(np.log(max(price, 1e-12)), np.log(self.prices), np.arange(self.prices.size))
        below = int(place)
        above, share = min(below + 1, self.prices.size - 1), float(place) - below
        return Weighed(
            self.names, self.stands, (1.0 - share) * self.weights[below] + share * self.weights[above]
        )


@dataclass(frozen=True, eq=False)
class Weighed:
    """K scorers for one price."""

    names: tuple[str, ...]
    stands: F64
    """[K, figures]"""
    weights: F64
    """[K, features]"""

    def note(self, figures: F64) -> str:
        """Who decides, in words."""
        expert = int(nearest(figures, self.stands))
        if expert < 0:
            return "The demand is unlike anything that was trained on: balance decides."
        return f"Weights for a demand like {self.names[expert]}."


def price_of(wishes: Mapping[str, float]) -> float:
    """What a migration costs by what a user weighs: how much migrations count, relative to violations."""
    check_wishes(wishes, OBJECTIVES)
    if not wishes:
        return USUAL_PRICE
    violations, migrations = (wishes.get(name, 0.0) for name in OBJECTIVES)
    return migrations / violations if violations else np.inf


def read_experts(checkpoint: Checkpoint, folder: Path) -> MoveExperts:
    """The experts of a checkpoint."""
    names = names_in(checkpoint.card.config, "experts", folder)
    count = checkpoint.tensors["prices"].size if "prices" in checkpoint.tensors else 0
    prices = finite_tensor(checkpoint, "prices", (count,), folder)
    if not count or (prices <= 0.0).any() or (np.diff(prices) <= 0.0).any():
        raise InputError("needs numbers above 0 in ascending order", file=folder, field="prices")
    stands = finite_tensor(checkpoint, "stands", (len(names), len(FIGURES)), folder)
    weights = finite_tensor(checkpoint, "weights", (count, len(names), len(FEATURES)), folder)
    return MoveExperts(names, stands, prices, weights)
