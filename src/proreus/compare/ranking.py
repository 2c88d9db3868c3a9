"""Which measure decides in a scenario, who comes first by it, and whom the intervals cannot tell apart.

Tables, plots, summary and report all ask here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proreus.compare.comparison import Comparison
from proreus.compare.statistics import Row, paired_difference
from proreus.contract.scenario import Scenario
from proreus.contract.world import World


@dataclass(frozen=True)
class Ranking:
    """The order of the policies in a scenario."""

    world: World
    scenario: Scenario
    measure: str
    """The one that decides."""
    unit: str
    better: str
    ranked: tuple[Row, ...]
    """The rows of that measure, best first."""
    policies: tuple[str, ...]
    """All policies, best first; those without the measure come last."""

    @property
    def title(self) -> str:
        """The measure in words."""
        return self.world.measures[self.measure].in_words


def standing(comparison: Comparison, scenario: Scenario) -> Ranking | None:
    """The standing of a scenario; None where its runs have no measure that could decide."""
    for measure in scenario.headings.deciding:
        ranked = best_first(comparison.rows_for(scenario, measure))
        if ranked:
            named = tuple(row.policy for row in ranked)
            rest = tuple(policy for policy in comparison.request.policies if policy not in named)
            first, order = ranked[0], named + rest
            return Ranking(comparison.world, scenario, measure, first.unit, first.better, ranked, order)
    return None


def best_first(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows of one measure by their mean; equal ones keep the order of the request."""
    return tuple(
        sorted(rows, key=lambda row: -row.estimate.mean if row.better == "higher" else row.estimate.mean)
    )


def among_best(comparison: Comparison, scenario: Scenario, measure: str) -> frozenset[str]:
    """The policies with the best mean of a measure, and those that cannot be told from the best.

    Paired by seed, since most of what a mean varies by is the workload, which is the same for all: the
    interval of the difference to the best must include zero. Nobody is best where all are alike.
    """
    ranked = best_first(comparison.rows_for(scenario, measure))
    if not ranked or ranked[0].estimate.mean == ranked[-1].estimate.mean:
        return frozenset()
    results = comparison.results_for(scenario)
    best = ranked[0]
    best_policies = {best.policy}
    for row in ranked[1:]:
        difference = paired_difference(results, measure, row.policy, best.policy)
        one_seed = difference is None or difference.estimate.low is None
        alike = row.estimate.mean == best.estimate.mean
        if alike or not (one_seed or (difference is not None and difference.significant)):
            best_policies.add(row.policy)
    return frozenset(best_policies)


def telling_measures(comparison: Comparison, scenario: Scenario) -> tuple[str, ...]:
    """The measures worth a column of a narrow table: suited to the scenario and not zero for all."""
    return tuple(
        measure
        for measure in scenario.headings.telling
        if any(row.estimate.mean != 0 for row in comparison.rows_for(scenario, measure))
    )
