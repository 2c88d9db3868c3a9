"""A comparison as a folder of files: report, tables for programs, plots. The command line calls this."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from proreus.compare.comparison import Comparison
from proreus.compare.exports import per_seed_csv, rows_csv, rows_json
from proreus.compare.machine_info import describe_machine
from proreus.compare.output_folder import keep_earlier
from proreus.compare.report.page import Circumstances, render_report
from proreus.model.errors import WorkError
from proreus.model.files import make_folder, write_atomically

COMMAND = "command.txt"
"""What was run: the same command again replaces its report, another one keeps it."""
_OURS = ("report.html", "rows.csv", "rows.json", "per_seed.csv", "plots", COMMAND)


@dataclass(frozen=True)
class Outputs:
    report: Path
    rows_csv: Path
    rows_json: Path
    per_seed_csv: Path
    plots: tuple[Path, ...]
    earlier: Path | None = None
    """Where the report of another run is kept that stood here before."""


def write_outputs(comparison: Comparison, folder: Path, command: str) -> Outputs:
    """Write every file; each is there in full or not at all. `command` is what the report says was run."""
    from proreus.compare.plots import render_plots  # Matplotlib, which takes half a second to load

    about = Circumstances(command, datetime.now().astimezone(), describe_machine())
    plots = {folder / "plots" / name: content for name, content in render_plots(comparison).items()}
    outputs = Outputs(
        report=folder / "report.html",
        rows_csv=folder / "rows.csv",
        rows_json=folder / "rows.json",
        per_seed_csv=folder / "per_seed.csv",
        plots=tuple(plots),
        earlier=_keep_earlier(folder, command),
    )
    make_folder(folder / "plots")
    write_atomically(folder / COMMAND, f"{command}\n".encode())
    write_atomically(outputs.rows_json, rows_json(comparison))
    write_atomically(outputs.rows_csv, rows_csv(comparison))
    write_atomically(outputs.per_seed_csv, per_seed_csv(comparison))
    for path, content in plots.items():
        write_atomically(path, content)
    write_atomically(outputs.report, render_report(comparison, about).encode())
    return outputs


def _keep_earlier(folder: Path, command: str) -> Path | None:
    """Move the report of another run aside; None: there was none."""
    if not (folder / "report.html").exists():
        return None
    try:
        same = (folder / COMMAND).exists() and (folder / COMMAND).read_text().strip() == command
    except OSError as error:
        raise WorkError(f"{folder}: the earlier report cannot be kept: {error.strerror}") from error
    return None if same else keep_earlier(folder, _OURS)
