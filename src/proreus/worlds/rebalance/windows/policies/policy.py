"""The policy protocol of the world of windows, and rules as policies."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.packed import pack
from proreus.kernels.rng import seeded
from proreus.worlds.rebalance.windows.encoding import FEATURES
from proreus.worlds.rebalance.windows.policies.columns import MoveRule
from proreus.worlds.rebalance.windows.policies.rules import choose_move
from proreus.worlds.rebalance.windows.state import Hosting


@dataclass(frozen=True, eq=False)
class MovePolicy:
    """A rule or a learned scorer; worlds may also run its rule inside their own kernels."""

    name: str
    kind: int
    seed: int = 0
    level: float = 0.0
    """Of the hotspot rule: the share above which a node is hot; 0: the world's threshold."""
    weights: F64 = field(default_factory=lambda: np.zeros(len(FEATURES)))
    """[features] of a learned scorer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rule", self.new_rule())

    def new_rule(self) -> MoveRule:
        """The rule for a kernel, its random choices from the start."""
        return pack(
            MoveRule(
                kind=np.array([self.kind], dtype=np.int64),
                level=np.array([self.level]),
                weights=self.weights.astype(np.float64),
                features=np.zeros(len(FEATURES)),
                rng=seeded(self.seed),
            )
        )

    def decide(self, hosting: Hosting) -> int:
        """The next move as pod * nodes + node, or pods * nodes to stop."""
        rule: MoveRule = self._rule  # type: ignore[attr-defined]
        return int(choose_move(hosting, rule))
