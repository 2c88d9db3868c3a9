"""A network that scores every numbered change of the pools, as PPO trains it: the highest legal bid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.policies.networks.bidder import Bidder, make_bids
from proreus.worlds.inference.encoding.actions import encode_actions
from proreus.worlds.inference.state.observation import InferenceObservation


@dataclass(frozen=True, eq=False)
class Chooser:
    """It remembers and draws nothing."""

    name: str
    bidder: Bidder

    def decide(self, observation: InferenceObservation, /) -> int:
        """The number of the change, the first of equals."""
        rows, context = encode_actions(observation)
        legal = observation.action_mask()
        bids = np.zeros(len(rows), dtype=np.float32)
        make_bids(self.bidder, rows, context, legal.astype(np.uint8), bids)
        return int(np.argmax(np.where(legal, bids, -np.inf)))

    def fresh(self, seed: int) -> Chooser:
        """Itself."""
        return self
