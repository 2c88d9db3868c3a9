"""The policy protocol of the world of windows, and rules as policies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.rng import seeded
from proreus.kernels.structs import pack
from proreus.policies.networks.bidder import Bidder, no_bidder
from proreus.policies.protocol import Explanation, Policy
from proreus.worlds.rebalance.decision import Migrate, Migration, Stop
from proreus.worlds.rebalance.windows.encoding.figures import FIGURES, hosting_figures, nearest
from proreus.worlds.rebalance.windows.encoding.moves import EVENNESS, FEATURES
from proreus.worlds.rebalance.windows.encoding.offers import CHOICES, SIZES
from proreus.worlds.rebalance.windows.policies.adaptive import Weighed
from proreus.worlds.rebalance.windows.policies.columns import BIDDING, MoveRule
from proreus.worlds.rebalance.windows.policies.explanation import explained, explained_bids
from proreus.worlds.rebalance.windows.policies.rules import LEAST_GAIN, bid_for_offers, choose_move
from proreus.worlds.rebalance.windows.state import WindowObservation

WindowPolicy: TypeAlias = Policy[WindowObservation, Migration]
"""Moves pods between windows, one at a time, until it stops."""


def all_weights(weights: F64) -> F64:
    """float64[features] of a scorer that may be older than the last of them, which get no weight then."""
    return np.concatenate([weights, np.zeros(len(FEATURES) - weights.size)]).astype(np.float64)


def balance_weights() -> F64:
    """float64[features] that decide as the balance rule."""
    weights = np.zeros(len(FEATURES))
    weights[FEATURES.index("last_evenness")] = 1.0
    weights[FEATURES.index("constant")] = -EVENNESS * LEAST_GAIN
    return weights


@dataclass(frozen=True, eq=False)
class MovePolicy:
    """A rule or a learned scorer; worlds may also run its rule inside their own kernels."""

    name: str
    kind: int
    seed: int = 0
    level: float = 0.0
    """Of the hotspot rule: the share above which a node is hot; 0: the world's threshold."""
    weights: F64 = field(default_factory=lambda: np.zeros(len(FEATURES)))
    """[features] of a learned scorer, or of the one that offers moves to a network."""
    experts: Weighed | None = None
    """Of one that adapts."""
    bidder: Bidder = field(default_factory=lambda: no_bidder(SIZES))
    """The network of one that bids."""

    @cached_property
    def rule(self) -> MoveRule:
        """The rule of this policy's run, its random state included."""
        return self.new_rule()

    def fresh(self, seed: int) -> MovePolicy:
        """The same rule, for another run."""
        return replace(self, seed=seed)

    def new_rule(self) -> MoveRule:
        """The rule for a kernel, its random choices from the start."""
        experts = self.experts or Weighed((), np.zeros((0, len(FIGURES))), np.zeros((0, len(FEATURES))))
        return pack(
            MoveRule(
                kind=np.array([self.kind], dtype=np.int64),
                level=np.array([self.level]),
                weights=self.weights.astype(np.float64),
                stands=experts.stands,
                experts=experts.weights,
                figures=np.zeros(len(FIGURES)),
                features=np.zeros(len(FEATURES)),
                rng=seeded(self.seed),
                bidder=self.bidder,
            )
        )

    def decide(self, observation: WindowObservation) -> Migration:
        """The next move, or to stop."""
        nodes, pods = observation.hosting.pods.size, observation.hosting.where.size
        action = int(choose_move(observation.hosting, self.rule))
        return Stop() if action == pods * nodes else Migrate(*divmod(action, nodes))

    def explain(self, observation: WindowObservation) -> Explanation:
        """The decision and what every legal move was worth; asking changes nothing."""
        before = self.rule.rng.copy()
        decision = self.decide(observation)
        self.rule.rng[:] = before
        if self.kind == BIDDING:
            moves, bids = np.empty(CHOICES, dtype=np.int64), np.zeros(CHOICES, dtype=np.float32)
            bid_for_offers(observation.hosting, self.rule, moves, bids)
            return explained_bids(self.name, (moves, bids), observation, decision)
        weights, figures = self.weights, hosting_figures(observation.hosting)
        who = self.experts.note(figures) if self.experts is not None else ""
        if self.experts is not None:
            expert = int(nearest(figures, self.experts.stands))
            weights = self.experts.weights[expert] if expert >= 0 else np.zeros(len(FEATURES))
        explanation = explained(self.name, weights, observation, decision)
        return replace(explanation, note=f"{who} {explanation.note}".strip())
