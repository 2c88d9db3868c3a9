"""One update of a learner, whatever it learns: what a run records, judges and saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from proreus.contract.lanes import Arrays


@dataclass(frozen=True)
class Update:
    """One update of a learner that has just come about."""

    number: int
    """From 1 on."""
    total: int
    """Updates in all."""
    figures: Mapping[str, float]
    """How it went, `steps` among them; those that are not finite stand for nothing to report."""
    tensors: Callable[[], Arrays]
    """The policy as it is now, for a checkpoint."""
    state: Callable[[], Arrays]
    """All it takes to go on later."""


class StepRate:
    """Steps per second since the last time it was asked for."""

    def __init__(self, steps: int) -> None:
        self._begin, self._steps = time.perf_counter(), steps

    def rate(self, steps: int) -> float:
        """So many have been made by now."""
        now, made = time.perf_counter(), steps - self._steps
        rate = made / max(now - self._begin, 1e-9)
        self._begin, self._steps = now, steps
        return rate
