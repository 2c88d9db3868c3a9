"""What an evolution strategy asks of a world: where to start, how good members are, what to keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64


class Goal(Protocol):
    """A search over vectors of weights."""

    @property
    def start(self) -> F64:
        """The vector that the search starts from: the rule to beat."""
        ...

    def draw(self, random: np.random.Generator) -> Any:
        """What this generation is tried on, the same for all its members (common random numbers)."""
        ...

    def fitness(self, members: Sequence[F64], drawn: Any) -> tuple[list[float], dict[str, int]]:
        """(how good each member is, more is better; what was counted on the way, for the journal)."""
        ...

    def validate(self, mean: F64) -> dict[str, float]:
        """Gain of one vector over the strongest rule by scenario, on work that training never sees."""
        ...

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """Gain of a checkpoint over the strongest rule by scenario, in each of as many held-out episodes as
        the settings say; others than those of `validate`, for what is chosen there flatters."""
        ...

    def tensors(self, mean: F64) -> Arrays:
        """A vector as a checkpoint keeps it."""
        ...
