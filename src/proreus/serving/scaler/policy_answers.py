"""What a policy answers: a change of pools by whole numbers, or why it is none."""

from __future__ import annotations

from typing import Literal

import numpy as np

from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.state.observation import InferenceObservation

Reason = Literal["", "raised", "slow", "resting", "unsure", "illegal", "unreadable", "dead"]


class NotThePolicy(Exception):
    """Somebody else has to decide."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason: Reason = reason


def change_of(decision: object, seen: InferenceObservation) -> Scale:
    """The change that a decision means; raises NotThePolicy for what cannot be, or may not."""
    change = _meant(decision, seen)
    refusal = seen.refusal(change)
    if refusal:
        raise NotThePolicy("illegal", f"{change}: {refusal}")
    return change


def _meant(decision: object, seen: InferenceObservation) -> Scale:
    if isinstance(decision, int | np.integer) and not isinstance(decision, bool):
        if not 0 <= decision < len(seen.steps):
            raise NotThePolicy("illegal", f"{decision} is not one of the {len(seen.steps)} actions")
        return seen.steps.action(int(decision))
    if not isinstance(decision, Scale):
        raise NotThePolicy("illegal", f"{decision!r} is no change of pools")
    changes = (decision.prompt, decision.token, decision.mixed, decision.migrate)
    if any(
        isinstance(change, bool) or not isinstance(change, int) or abs(change) > 1_000_000
        for change in changes
    ):
        raise NotThePolicy("illegal", f"{decision} is no change by whole numbers")
    return decision
