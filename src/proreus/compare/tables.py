"""The comparison as tables for the terminal. The command line prints what `scenario_tables` returns."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from proreus.compare.comparison import Comparison
from proreus.compare.layout import Sheet, laid_out
from proreus.compare.number_format import NOTHING, decimals_for, half_width, number, with_unit
from proreus.compare.ranking import among_best, standing, telling_measures
from proreus.compare.statistics import Row
from proreus.contract.scenario import Scenario


def scenario_tables(comparison: Comparison, width: int) -> list[RenderableType]:
    """For each scenario a row per policy, the best first; for a terminal of so many columns."""
    scenarios = comparison.request.scenarios
    return [part for scenario in scenarios for part in laid_out(_sheet(comparison, scenario), width)]


def _sheet(comparison: Comparison, scenario: Scenario) -> Sheet:
    order = standing(comparison, scenario)
    policies = comparison.request.policies if order is None else order.policies
    seeds = len(comparison.request.seeds)
    measures = comparison.world.measures
    head, columns = ["policy"], []
    for measure in telling_measures(comparison, scenario):
        rows = comparison.rows_for(scenario, measure)
        unit = "%" if rows[0].unit.startswith("%") else rows[0].unit
        head.append(with_unit(measures[measure].in_short, unit))
        columns.append(_cells(rows, among_best(comparison, scenario, measure)))
    return Sheet(
        title=f"{scenario.name}, {seeds} seed{'s' if seeds > 1 else ''}",
        head=tuple(head),
        rows=tuple(
            (policy, *(column.get(policy, Text(NOTHING, style="dim")) for column in columns))
            for policy in policies
        ),
        caption=_caption(measures[order.measure].in_short if order else "", seeds),
    )


def _cells(rows: tuple[Row, ...], best: frozenset[str]) -> dict[str, Text]:
    decimals = decimals_for([row.estimate.mean for row in rows], rows[0].unit)
    return {
        row.policy: Text.assemble(
            (number(row.estimate.mean, decimals), "bold green" if row.policy in best else ""),
            (f" ±{half_width(row.estimate, decimals)}", "dim"),
        )
        for row in rows
    }


def _caption(measure: str, seeds: int) -> str:
    interval = "± 95 % interval" if seeds > 1 else "one seed, so no interval"
    by = f"sorted by {measure}; " if measure else ""
    return f"{by}{interval}; green: best, or not significantly different from it (paired by seed)"
