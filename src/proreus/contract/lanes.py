"""Episodes side by side, as learners see them: rows to bid for, what is legal, rewards.

A world's lanes are what PPO, QMIX and DQN train on; `envs` shows a batch of one lane as a Gymnasium
environment. What the K actions mean is the affair of the world and of the network that it trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from proreus.kernels.arrays import F32, F64, I64, Bool

Arrays = dict[str, np.ndarray[Any, Any]]


class Choices(NamedTuple):
    """The decision at hand in each of E lanes."""

    rows: F32  # [E, R, F] one row of features for each thing that may be chosen
    context: F32  # [E, G] what holds for all rows
    legal: Bool  # [E, K]

    def at(self, places: I64) -> Choices:
        return Choices(self.rows[places], self.context[places], self.legal[places])


class Steps(NamedTuple):
    """What one decision in every lane came to."""

    choices: Choices
    """The next decisions; a lane whose episode ended has begun anew."""
    rewards: F64  # [E] to learn from
    ended: Bool  # [E]
    own: F64  # [E] in the world's own terms, for reports
    truncated: Bool | None = None
    """[E] whose episode ended although it could have gone on; None: nobody's does."""


class Lanes(Protocol):
    """E episodes side by side that begin anew by themselves."""

    @property
    def encoding(self) -> str:
        """The version of the features."""
        ...

    def __len__(self) -> int:
        """E."""
        ...

    def reset(self, seed: int) -> Choices:
        """Begin episodes that the seed determines."""
        ...

    def step(self, chosen: I64) -> Steps:
        """Take one action [E] in every lane."""
        ...

    def capture(self) -> Arrays:
        """The episodes as they stand."""
        ...

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Go on with captured episodes, bit for bit."""
        ...


class SeededLanes(Lanes, Protocol):
    """Lanes of which each can begin anew by itself: what a vector environment is made of."""

    def reset_some(self, seeds: Mapping[int, int]) -> Choices:
        """Begin episodes in some lanes, by their seeds; what follows is as in lanes of one, `reset` so."""
        ...
