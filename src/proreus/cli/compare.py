"""`proreus compare WORLD`: policies against each other over seeds, with intervals and a report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from proreus.cli.worlds import run_in_world
from proreus.compare.comparison import CompareRequest, compare
from proreus.compare.exports import rows_json
from proreus.compare.outputs import Outputs, write_outputs
from proreus.compare.tables import scenario_tables
from proreus.model.errors import UsageError
from proreus.model.files import write_atomically


def run(words: Sequence[str]) -> int:
    """Run the comparison in the world that is named."""
    return run_in_world("compare", words, shlex.join(("proreus", "compare", *words)))


@dataclass(frozen=True)
class Destination:
    """Where a comparison goes."""

    out: Path
    """The folder of the report, the tables and the plots."""
    json: Path | None
    """A further copy of the rows."""
    command: str
    """What the report says was run."""


def compare_and_write(request: CompareRequest, to: Destination, console: Console) -> Outputs:
    """The comparison with a progress bar, its tables printed and its files written."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total, description=text)

        comparison = compare(request, show)
    with console.status("writing the report"):
        outputs = write_outputs(comparison, to.out, to.command)
    if to.json is not None:
        write_atomically(to.json, rows_json(comparison))
    for table in scenario_tables(comparison):
        console.print(table)
    console.print(f"report: {outputs.report}", soft_wrap=True)
    return outputs


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    """The seeds that `--seed` and `--seeds` name."""
    if count < 1:
        raise UsageError(f"--seeds {count}: at least one seed is needed")
    return tuple(range(first, first + count))


def process_count(processes: int) -> int | None:
    """What `--processes` names; None is one per core."""
    if processes < 0:
        raise UsageError(f"--processes {processes} is negative")
    return processes or None


def split_names(names: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def scenario_names(scenarios: str, scenario: str) -> list[str]:
    """Those of --scenarios, or where it is not given that of --scenario."""
    names = split_names(scenarios)
    if scenarios and not names:
        raise UsageError(f"--scenarios {scenarios!r} names no scenario")
    return names or [scenario]
