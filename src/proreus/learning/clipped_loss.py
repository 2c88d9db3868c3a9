"""The loss of proximal policy optimisation, choice by choice: whoever learns by it in torch has it from here.

B choices of K actions each.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Taken(NamedTuple):
    """What was chosen when it was played, and what it came to; each [B]."""

    action: Tensor
    log_chance: Tensor
    """Logarithm of the chance that the action had."""
    advantage: Tensor
    target: Tensor
    """What the value should have been."""


class LossTerms(NamedTuple):
    """Each [B]."""

    policy: Tensor
    """The clipped loss of the policy."""
    error: Tensor
    """Squared, of the value."""
    entropy: Tensor
    kl: Tensor
    """How far the policy has moved since: an estimate."""
    clipped: Tensor
    """1 where the chance moved further than the loss cares."""


def clipped_terms(
    logits: Tensor, legal: Tensor, value: Tensor, taken: Taken, clip: float | Tensor
) -> LossTerms:
    """logits: [B, K], minus infinity where not legal, bool[B, K]; value: [B]."""
    logs = torch.log_softmax(logits, 1)
    entropy = -(logs.exp() * logs.masked_fill(~legal, 0.0)).sum(1)
    moved = logs.gather(1, taken.action[:, None])[:, 0] - taken.log_chance
    ratio = moved.exp()
    bounded = ratio.clamp(1.0 - clip, 1.0 + clip) * taken.advantage  # type: ignore[arg-type]  # either kind will do
    return LossTerms(
        policy=-torch.minimum(ratio * taken.advantage, bounded),
        error=(value - taken.target).square(),
        entropy=entropy,
        kl=ratio - 1.0 - moved,
        clipped=((ratio - 1.0).abs() > clip).float(),
    )
