"""`proreus simulate WORLD`: one policy over one workload, with its measures and its log."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from proreus.cli.worlds import run_in_world
from proreus.model.files import write_atomically
from proreus.model.measure import Measure


def run(words: Sequence[str]) -> int:
    """Run the simulation of the world that is named."""
    return run_in_world("simulate", words, shlex.join(("proreus", "simulate", *words)))


def measures_table(title: str, found: Mapping[str, float], measures: Mapping[str, Measure]) -> Table:
    """The measures of a run for the terminal."""
    table = Table(title=title, title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("unit")
    for name, measure in measures.items():
        if name in found:
            table.add_row(name, f"{found[name]:,.2f}", measure.unit)
    return table


def write_result(path: Path, result: Mapping[str, object]) -> None:
    """The result of a run as JSON: world, scenario, policy, seed, measures."""
    write_atomically(path, (json.dumps(result, indent=2) + "\n").encode())


def write_log(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One CSV row for each thing that was placed; a moment that never came is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row])
    write_atomically(path, text.getvalue().encode())
