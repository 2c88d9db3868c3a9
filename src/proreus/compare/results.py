"""What a run and a comparison came to, as values for notebooks: rows, a table as text, a frame, a plot.

Matplotlib takes half a second to load, so that is done by whoever draws.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.table import Table

from proreus.compare.comparison import Comparison
from proreus.compare.exports import row_cells
from proreus.compare.outputs import Outputs, write_outputs
from proreus.compare.report.summary import findings
from proreus.compare.tables import scenario_tables
from proreus.contract.world import Played, World
from proreus.learning.run_folder import read_journal
from proreus.model.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cells = dict[str, Any]
NOTEBOOK_WIDTH = 300


def measures_table(title: str, world: World, measures: Mapping[str, float]) -> Table:
    """The measures of a run for the terminal."""
    table = Table(title=title, title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("unit")
    for name, measure in world.measures.items():
        if name in measures:
            table.add_row(name, f"{measures[name]:,.2f}", measure.unit)
    return table


@dataclass(frozen=True, repr=False)
class Simulated:
    """One run of one policy."""

    world: World
    scenario: str
    policy: str
    seed: int
    played: Played

    @property
    def measures(self) -> dict[str, float]:
        return self.played.measures

    @property
    def rows(self) -> list[Cells]:
        """One for each measure, with its unit and which way is better."""
        known = self.world.measures
        return [
            {"measure": name, "value": self.measures[name], "unit": measure.unit, "better": measure.better}
            for name, measure in known.items()
            if name in self.measures
        ]

    @property
    def log(self) -> list[Cells]:
        """One for each thing that was decided about, as --log writes them."""
        outcome = self.played.outcome
        return [dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows]

    def to_pandas(self) -> Any:
        """`rows` as a DataFrame; pandas is imported for it alone."""
        return frame_of(self.rows)

    def plot(self) -> Figure:
        """How the run went, in the world's first quantities."""
        if self.played.picture is None:
            raise UsageError("this run was not recorded: simulate(..., record=True)")
        from proreus.compare.plots import series_figure

        return series_figure(f"{self.policy} on {self.scenario}", self.world, self.played.picture.recording)

    def to_json(self) -> Cells:
        """As `proreus simulate --json` writes it."""
        return {
            "world": self.world.name,
            "scenario": self.scenario,
            "policy": self.policy,
            "seed": self.seed,
            "measures": self.measures,
        }

    def __repr__(self) -> str:
        return as_text([measures_table(f"{self.policy} on {self.scenario}", self.world, self.measures)])


@dataclass(frozen=True, repr=False)
class Compared:
    """Policies over scenarios and seeds."""

    comparison: Comparison

    @property
    def rows(self) -> list[Cells]:
        """One for each scenario, policy and measure, as `proreus compare --json` writes them."""
        return [row_cells(row) for row in self.comparison.rows]

    @property
    def runs(self) -> list[Cells]:
        """One for each run, with its measures."""
        return [
            {
                "scenario": trial_result.scenario,
                "policy": trial_result.policy,
                "seed": trial_result.seed,
                **trial_result.measures,
            }
            for trial_result in self.comparison.results
        ]

    @property
    def differences(self) -> list[Cells]:
        """One for each scenario and policy: how far it is from the leader, paired by seed, as the report."""
        per_scenario = [findings(self.comparison, scenario) for scenario in self.comparison.request.scenarios]
        return [
            {
                "scenario": scenario_findings.scenario.name,
                "measure": scenario_findings.standing.measure,
                "policy": policy,
                "leader": scenario_findings.standing.policies[0],
                "mean": difference.estimate.mean,
                "low": difference.estimate.low,
                "high": difference.estimate.high,
                "n": difference.estimate.n,
                "significant": difference.significant,
            }
            for scenario_findings in per_scenario
            if scenario_findings.standing is not None
            for policy, difference in scenario_findings.differences.items()
        ]

    def to_pandas(self) -> Any:
        """`rows` as a DataFrame; pandas is imported for it alone."""
        return frame_of(self.rows)

    def plot(self, scenario: str | None = None) -> Figure:
        """The policies of a scenario in order, with their intervals."""
        known = {played.name: played for played in self.comparison.request.scenarios}
        name = scenario or next(iter(known))
        if name not in known:
            raise UsageError(f"scenario {name!r} is not in this comparison: {', '.join(known)}")
        from proreus.compare.plots import ranking_figure

        return ranking_figure(self.comparison, known[name])

    def report(self, folder: Path | str, command: str = "") -> Outputs:
        """Write the HTML report, tables and plots."""
        return write_outputs(self.comparison, Path(folder), command or "proreus.compare(...) in Python")

    def __repr__(self) -> str:
        return as_text(scenario_tables(self.comparison, NOTEBOOK_WIDTH))


@dataclass(frozen=True, repr=False)
class Trained:
    folder: Path
    summary: Mapping[str, Any]
    """As `proreus train --json` writes it."""

    @property
    def best(self) -> Path:
        """The checkpoint with the best held-out score, as `policies` take it."""
        return self.folder / "best"

    @property
    def rows(self) -> list[Cells]:
        """The journal: one for each generation or update."""
        return read_journal(self.folder)

    def to_pandas(self) -> Any:
        """`rows` as a DataFrame; pandas is imported for it alone."""
        return frame_of(self.rows)

    def plot(self) -> Figure:
        """The learning curve: held out, and in training."""
        from proreus.compare.learning_curves import curves_figure

        return curves_figure({self.folder.name: self.rows})

    def __repr__(self) -> str:
        table = Table(title=f"run {self.folder}", title_justify="left")
        table.add_column("what")
        table.add_column("value", justify="right")
        for name, value in self.summary.items():
            table.add_row(name, f"{value:,.4g}" if isinstance(value, float) else str(value))
        return as_text([table])


def frame_of(rows: Sequence[Cells]) -> Any:
    """Rows as a DataFrame."""
    try:
        import pandas
    except ImportError:
        raise UsageError("to_pandas() needs pandas: pip install pandas") from None
    return pandas.DataFrame(rows)


def as_text(tables: Sequence[RenderableType]) -> str:
    """Tables as plain text, each as wide as it needs: a notebook scrolls, and a figure cut short is none."""
    console = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, color_system=None, markup=False, emoji=False)
    for table in tables:
        console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())
