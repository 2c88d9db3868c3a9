"""What runs of virtual machines are about: what a search lowers, what is reported, how far ahead of a rule.

A run is a row of three figures: machines placed, machines turned away, seconds waited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.vms.model import Full
from proreus.worlds.vms.play import RUN_PLACED, RUN_TURNED_AWAY, RUN_WAIT
from proreus.worlds.vms.simulation.outcome import trimmed_mean

Scale = Literal["log", "trimmed"]


def ahead(full: Full, ours: float, rule: float) -> float:
    """How much better than a rule, in % (points where machines are turned away)."""
    match full:
        case "wait":
            return 100.0 * (1.0 - ours / max(rule, 1.0))
        case "end":
            return 100.0 * (ours / max(rule, 1.0) - 1.0)
        case "reject":
            return rule - ours
        case other:
            assert_never(other)


def best_of(full: Full, measures: list[float]) -> int:
    """Which of several policies is ahead."""
    return int(np.argmax(measures) if full == "end" else np.argmin(measures))


@dataclass(frozen=True)
class Aim:
    """For machines that are treated in one way."""

    full: Full
    scale: Scale

    def cost(self, runs: F64) -> float:
        """What a search lowers; runs [S, 3]. On the scale "log" no few long runs rule it, nor, where machines
        are turned away, one size of cluster."""
        if self.scale == "trimmed":
            return -self.measure(runs) if self.full == "end" else self.measure(runs)
        match self.full:
            case "wait":
                return float(np.log1p(runs[:, RUN_WAIT]).mean())
            case "end":
                return -float(np.log1p(runs[:, RUN_PLACED]).mean())
            case "reject":
                # Chance moves this as much where few are turned away as where many are; the logarithm of
                # nobody at all would outweigh everything.
                return float(np.arcsin(np.sqrt(self.measure(runs) / 100.0)))
            case other:
                assert_never(other)

    def measure(self, runs: F64) -> float:
        """The measure that decides in comparisons."""
        match self.full:
            case "wait":
                return trimmed_mean(runs[:, RUN_WAIT])
            case "end":
                return float(runs[:, RUN_PLACED].mean())
            case "reject":
                away, placed = runs[:, RUN_TURNED_AWAY].sum(), runs[:, RUN_PLACED].sum()
                return float(100.0 * away / max(away + placed, 1.0))
            case other:
                assert_never(other)
