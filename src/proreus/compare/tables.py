"""The comparison as tables for the terminal. The command line prints what `scenario_tables` returns."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from proreus.compare.comparison import Comparison
from proreus.compare.ranking import among_best, standing, telling_measures
from proreus.compare.statistics import Row
from proreus.compare.wording import NOTHING, decimals_for, half_width, number, with_unit
from proreus.contract.scenario import Scenario


def scenario_tables(comparison: Comparison) -> list[Table]:
    """One table per scenario: a row per policy, the best first."""
    return [_table(comparison, scenario) for scenario in comparison.request.scenarios]


def _table(comparison: Comparison, scenario: Scenario) -> Table:
    order = standing(comparison, scenario)
    policies = comparison.request.policies if order is None else order.policies
    seeds = len(comparison.request.seeds)
    measures = comparison.world.measures
    table = Table(
        title=Text(f"{scenario.name}, {seeds} seed{'s' if seeds > 1 else ''}", style="bold"),
        caption=_caption(measures[order.measure].in_short if order else "", seeds),
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    columns = []
    for measure in telling_measures(comparison, scenario):
        rows = comparison.rows_for(scenario, measure)
        unit = "%" if rows[0].unit.startswith("%") else rows[0].unit
        table.add_column(with_unit(measures[measure].in_short, unit), justify="right", no_wrap=True)
        columns.append(_cells(rows, among_best(comparison, scenario, measure)))
    for policy in policies:
        cells = [column.get(policy, Text(NOTHING, style="dim")) for column in columns]
        table.add_row(Text(policy), *cells)
    return table


def _cells(rows: tuple[Row, ...], best: frozenset[str]) -> dict[str, Text]:
    decimals = decimals_for([row.estimate.mean for row in rows], rows[0].unit)
    return {
        row.policy: Text.assemble(
            (number(row.estimate.mean, decimals), "bold green" if row.policy in best else ""),
            (f" ±{half_width(row.estimate, decimals)}", "dim"),
        )
        for row in rows
    }


def _caption(measure: str, seeds: int) -> Text:
    interval = "± 95 % interval" if seeds > 1 else "one seed, so no interval"
    by = f"sorted by {measure}; " if measure else ""
    return Text(
        f"{by}{interval}; green: best, or not significantly different from it (paired by seed)", style="dim"
    )
