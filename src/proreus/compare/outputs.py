"""A comparison as a folder of files: report, tables for programs, plots. The command line calls this."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from proreus.compare.comparison import Comparison
from proreus.compare.exports import per_seed_csv, rows_csv, rows_json
from proreus.compare.machine import describe_machine
from proreus.compare.plots import render_plots
from proreus.compare.report.page import Circumstances, render_report
from proreus.model.files import make_folder, write_atomically


@dataclass(frozen=True)
class Outputs:
    """Where the files are."""

    report: Path
    rows_csv: Path
    rows_json: Path
    per_seed_csv: Path
    plots: tuple[Path, ...]


def write_outputs(comparison: Comparison, folder: Path, command: str) -> Outputs:
    """Write every file; each is there in full or not at all. `command` is what the report says was run."""
    about = Circumstances(command, datetime.now().astimezone(), describe_machine())
    plots = {folder / "plots" / name: content for name, content in render_plots(comparison).items()}
    outputs = Outputs(
        report=folder / "report.html",
        rows_csv=folder / "rows.csv",
        rows_json=folder / "rows.json",
        per_seed_csv=folder / "per_seed.csv",
        plots=tuple(plots),
    )
    make_folder(folder / "plots")
    write_atomically(outputs.rows_json, rows_json(comparison))
    write_atomically(outputs.rows_csv, rows_csv(comparison))
    write_atomically(outputs.per_seed_csv, per_seed_csv(comparison))
    for path, content in plots.items():
        write_atomically(path, content)
    write_atomically(outputs.report, render_report(comparison, about).encode())
    return outputs
