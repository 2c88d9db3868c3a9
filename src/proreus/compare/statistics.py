"""Means over seeds with their intervals, and differences between policies paired by seed.

`comparison` makes the rows, `summary` and `report` ask for differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proreus.compare.trials import TrialResult
from proreus.model.estimate import Estimate, estimate
from proreus.model.measure import Measure


@dataclass(frozen=True)
class Row:
    """One measure of one policy in one scenario: a row of every table and file."""

    scenario: str
    policy: str
    measure: str
    unit: str
    better: str
    """"higher" or "lower"."""
    estimate: Estimate


@dataclass(frozen=True)
class Difference:
    """How much more of a measure a policy has than the baseline, over the seeds that both ran."""

    policy: str
    baseline: str
    measure: str
    values: tuple[float, ...]
    """The difference in each seed."""
    estimate: Estimate

    @property
    def always_same(self) -> bool:
        """Every seed gave the same: the interval has no width, whatever other workloads would give."""
        return min(self.values) == max(self.values)

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        low, high = self.estimate.low, self.estimate.high
        return low is not None and high is not None and (low > 0 or high < 0)


def summarise(results: Sequence[TrialResult], measures: Mapping[str, Measure]) -> tuple[Row, ...]:
    """One row per scenario, policy and measure, in the order of the results and of the world's measures.

    Seeds in which a measure made no sense (absent, or not finite) do not count for it.
    """
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for result in results:
        by_measure = values.setdefault((result.scenario, result.policy), {})
        for name, value in result.measures.items():
            if math.isfinite(value):
                by_measure.setdefault(name, []).append(value)
    return tuple(
        Row(scenario, policy, name, measure.unit, measure.better, estimate(by_measure[name]))
        for (scenario, policy), by_measure in values.items()
        for name, measure in measures.items()
        if name in by_measure
    )


def paired_difference(
    results: Sequence[TrialResult], measure: str, policy: str, baseline: str
) -> Difference | None:
    """`policy` minus `baseline` in the results of one scenario; None where no seed has both."""
    values: dict[str, dict[int, float]] = {policy: {}, baseline: {}}
    for result in results:
        if result.policy in values and math.isfinite(result.measures.get(measure, math.nan)):
            values[result.policy][result.seed] = result.measures[measure]
    common = [seed for seed in values[policy] if seed in values[baseline]]
    if not common:
        return None
    differences = tuple(values[policy][seed] - values[baseline][seed] for seed in common)
    return Difference(policy, baseline, measure, differences, estimate(differences))
