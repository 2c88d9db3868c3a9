"""What was decided and what came of it: the experience that a policy learns from."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.kernels.arrays import F64, I64, Bool


@dataclass(frozen=True, eq=False)
class Experience:
    """Consecutive decisions, in the order in which they were made. B of them over vectors of length S."""

    states: F64
    """[B, S]"""
    actions: I64
    """[B]"""
    rewards: F64
    """[B]"""
    dones: Bool
    """[B]: the episode ended with this decision."""
    log_probs: F64
    """[B]: logarithm of the chance that the action had when it was decided; NaN where unknown."""
    greedy: Bool
    """[B]: the likeliest action was taken, not a drawn one; such decisions say nothing about the others."""
    model_version: int
    """That decided; 0 where unknown."""
    actions_dim: int
    """A: how many actions there were."""
    masks: Bool | None = None
    """[B, A]: which actions were allowed; None: all."""

    def __len__(self) -> int:
        return len(self.actions)
