"""What was decided and what came of it: the experience that a policy learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Experience:
    """Consecutive decisions, in the order in which they were made. B of them over vectors of length S."""

    states: NDArray[np.float64]
    """[B, S]"""
    actions: NDArray[np.int64]
    """[B]"""
    rewards: NDArray[np.float64]
    """[B]"""
    dones: NDArray[np.bool_]
    """[B]: the episode ended with this decision."""
    log_probs: NDArray[np.float64]
    """[B]: logarithm of the chance that the action had when it was decided; NaN where unknown."""
    greedy: NDArray[np.bool_]
    """[B]: the likeliest action was taken, not a drawn one; such decisions say nothing about the others."""
    model_version: int
    """That decided; 0 where unknown."""
    actions_dim: int
    """A: how many actions there were."""
    masks: NDArray[np.bool_] | None = None
    """[B, A]: which actions were allowed; None: all."""
    reporter: int = 0
    """A digest of who reported it; 0 where unknown."""
    report: int = 0
    """Which report it came with: the number of that report's first record in its log."""

    def __len__(self) -> int:
        return len(self.actions)
