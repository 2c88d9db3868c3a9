"""A rule whose targets somebody else shifts: by one instance of each pool at a time, until shifted again.

Lanes to learn in, the document's agent and the learned policy all decide through `SteeredRule`.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from proreus.policies.networks.bidder import Bidder, make_bids
from proreus.worlds.inference.encoding.residual import (
    OffsetChoices,
    encode_offsets,
    offset_steps,
    without_offsets,
)
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.policies.rules.chiron import Chiron
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.state.observation import InferenceObservation


def first_rule() -> Controller:
    """The rule that learning starts from: it fails nowhere, and leaves most to gain where loads rise fast."""
    return Chiron("chiron")


class SteeredRule:
    """A rule, and how many instances more or fewer than it wants each pool is to have."""

    def __init__(self, rule: Controller) -> None:
        self.rule = rule
        self.offsets: dict[Role, int] = {}
        self._seen: InferenceObservation | None = None
        self._wanted: dict[Role, Target] = {}

    def look(self, seen: InferenceObservation) -> OffsetChoices:
        """Ask the rule, once a decision; the choices."""
        self._seen = seen
        self._wanted = self.rule.targets(without_offsets(seen, self.offsets))
        counts = {role: target.count for role, target in self._wanted.items()}
        return encode_offsets(seen, counts, self.offsets)

    def targets(self, number: int) -> dict[Role, Target]:
        """Make a choice: what each pool is to have."""
        assert self._seen is not None
        step = offset_steps(len(self._seen.pools))[number].tolist()
        for pool, change in zip(self._seen.pools, step, strict=True):
            self.offsets[pool.role] = self.offsets.get(pool.role, 0) + change
        return {
            role: Target(
                target.count + self.offsets[role], {**target.because, "offset": float(self.offsets[role])}
            )
            for role, target in self._wanted.items()
        }

    def take(self, number: int) -> Scale:
        """Make a choice: the change of the pools that comes of it."""
        assert self._seen is not None
        return self.rule.change(self._seen, self.targets(number))


class Residual(Controller):
    """A rule whose offsets a network chooses: the highest legal bid."""

    def __init__(self, name: str, rule: Controller, bidder: Bidder) -> None:
        super().__init__(name)
        self._bidder, self._steered = bidder, SteeredRule(rule)

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """What the rule wants and the offsets."""
        choices = self._steered.look(seen)
        bids = np.zeros(len(choices.rows), dtype=np.float32)
        make_bids(self._bidder, choices.rows, choices.context, choices.legal.astype(np.uint8), bids)
        return self._steered.targets(int(np.argmax(np.where(choices.legal, bids, -np.inf))))

    def change(self, seen: InferenceObservation, wanted: dict[Role, Target]) -> Scale:
        """As the rule does it."""
        return self._steered.rule.change(seen, wanted)

    def fresh(self, seed: int) -> Self:
        """Without memory, at the rule's own targets."""
        return type(self)(self.name, self._steered.rule.fresh(seed), self._bidder)
