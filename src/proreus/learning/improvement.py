"""How much better what a run hands out is than what it started from.

Checkpoints are chosen on some held-out episodes, so their score there flatters: the best of many judgements
is partly luck. What a run says of its best checkpoint is found on other episodes, side by side with the
start. What is no better there is not handed out: the start is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.model.estimate import Estimate, estimate

Gains = Mapping[str, F64]
"""By scenario, the gain over the strongest rule in each held-out episode."""


@dataclass(frozen=True)
class Improvement:
    """What became of the best checkpoint on episodes that it was not chosen on."""

    better: Estimate | None = None
    """Than its start, paired by episode; None: the best is the start."""
    gains: Mapping[str, Estimate] = field(default_factory=dict)
    """Over the strongest rule, by scenario."""

    @property
    def words(self) -> str:
        """In one line."""
        if self.better is None:
            return "nothing better than the start was found: best is the start"
        each = "" if len(self.gains) == 1 else f" of each of {len(self.gains)} scenarios"
        episodes = f"{self.better.n} held-out episode{'' if self.better.n == 1 else 's'}{each}"
        line = f"best is {self.better.mean:.2f} better than its start{_interval(self.better)}"
        line += f" on {episodes} that it was not chosen on"
        if self.better.low is None or self.better.low <= 0.0:
            line += ", which may be chance"
        over = ", ".join(f"{name} {gain.mean:+.2f}{_interval(gain)}" for name, gain in self.gains.items())
        return f"{line}; over the strongest rule: {over}"

    def to_json(self) -> dict[str, Any]:
        """As a run keeps it."""
        return {
            "best_is_start": self.better is None,
            "better_than_start": None if self.better is None else asdict(self.better),
            "gains": {name: asdict(gain) for name, gain in self.gains.items()},
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Improvement:
        better = kept["better_than_start"]
        gains = {name: Estimate(**gain) for name, gain in kept["gains"].items()}
        return cls(None if better is None else Estimate(**better), gains)


def improvement(start: Gains, best: Gains) -> Improvement:
    """Of a checkpoint over its start; none where it is no better on average."""
    # Scenarios are drawn apart: their k-th episodes together are one draw of all.
    differences = np.mean([best[name] - start[name] for name in start], axis=0)
    if not differences.mean() > 0.0:
        return Improvement()
    return Improvement(
        estimate(differences.tolist()), {name: estimate(gains.tolist()) for name, gains in best.items()}
    )


def same_weights(weights: Arrays, other: Arrays) -> bool:
    """Whether two checkpoints are one."""
    return weights.keys() == other.keys() and all(
        np.array_equal(weights[name], other[name]) for name in weights
    )


def _interval(estimate: Estimate) -> str:
    return "" if estimate.low is None else f" (95 % interval {estimate.low:+.2f} to {estimate.high:+.2f})"
