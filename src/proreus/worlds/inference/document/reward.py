"""The reward calculator: the document's formula, term by term under the names of the objectives.

cost         -(prompt + 0.6 token + mixed instances) / 100
slo          -(0.4 v_ttft^2 + 0.6 v_tbt^2), v: share of requests whose slowdown is above the limit
stability    -(changes of the three pools) / 10
utilisation  0.3 x the sum over pools of 1 - |busy - 0.7|
"""

from __future__ import annotations

from dataclasses import dataclass

from proreus.worlds.inference.document.state import IntervalSeen
from proreus.worlds.inference.model.objectives import Objectives

_TOKEN_COST = 0.6
_TTFT_WEIGHT, _TBT_WEIGHT = 0.4, 0.6
_USE_WEIGHT = 0.3


@dataclass(frozen=True)
class IntervalReward:
    """Of one interval."""

    cost: float
    slo: float
    stability: float
    utilisation: float
    total: float
    """The terms times their weights, added up."""


class RLRewardCalculator:
    """Remembers the pools of the last interval."""

    def __init__(self, objectives: Objectives | None = None) -> None:
        self.objectives = objectives or Objectives()
        self._before: tuple[int, int, int] | None = None

    def calculate_reward(self, seen: IntervalSeen) -> IntervalReward:
        """Of an interval, given the one before it."""
        prompt, token, mixed = seen.instances
        before = self._before or seen.instances
        self._before = seen.instances
        weights = self.objectives
        cost = -(prompt + _TOKEN_COST * token + mixed) / 100.0
        slo = -(_TTFT_WEIGHT * seen.ttft_violations**2 + _TBT_WEIGHT * seen.tbt_violations**2)
        stability = -sum(abs(now - then) for now, then in zip(seen.instances, before, strict=True)) / 10.0
        use = _USE_WEIGHT * sum(1.0 - abs(busy - weights.wanted_use) for busy in seen.busy)
        total = (
            weights.cost * cost
            + weights.slo * slo
            + weights.stability * stability
            + weights.utilisation * use
        )
        return IntervalReward(cost, slo, stability, use, total)
