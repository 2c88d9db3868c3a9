"""`proreus data clean IN --out DIR`: a raw log becomes windows per pod, with an account of every repair."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, write_json
from proreus.data.cleaning.options import CleaningOptions
from proreus.data.cleaning.pipeline import REQUESTS_FILE, WINDOWS_FILE, clean
from proreus.data.cleaning.report import Report

EXAMPLE = (
    "Clean a request log or a five-minute monitor export (CSV with a header, or .gz of one) into windows per"
    " pod. Example: proreus data clean requests.csv --out cleaned --pods 50"
)


@dataclass(frozen=True)
class CleanArguments:
    """Flags of `proreus data clean`."""

    log: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="IN")]
    """The log to clean."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """The folder for windows.csv and requests.csv."""
    requests: bool = True
    """Also write every request with its pod and window, to replay windows in order."""
    options: CleaningOptions = field(default_factory=CleaningOptions)
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Clean one file."""
    arguments = parse(CleanArguments, "proreus data clean", words, EXAMPLE)
    prepare(arguments.common)
    begin, cpu_begin = time.perf_counter(), time.process_time()
    bar = Progress(
        TextColumn("cleaning"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=arguments.common.quiet or not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("cleaning", total=None)
        report = clean(
            arguments.log,
            arguments.out,
            arguments.options,
            with_requests=arguments.requests,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu_begin
    console = new_console(arguments.common)
    console.print(_table(report))
    written = WINDOWS_FILE + (f" and {REQUESTS_FILE}" if arguments.requests else "")
    console.print(
        f"{report.kind}: {report.rows_in} rows in = {report.rows_out} out + {report.rows_dropped} dropped;"
        f" {report.windows_out} windows of {report.pods} pods ({report.windows_filled} filled);"
        f" wrote {written} to {arguments.out}",
        soft_wrap=True,
    )
    account = {**report.as_json(), "seconds": seconds, "cpu_seconds": cpu, "peak_mib": _peak_mib()}
    write_json(arguments.common, account)
    return 0


def _table(report: Report) -> Table:
    table = Table(title=f"cleaning of {report.file}", title_justify="left")
    table.add_column("rule")
    table.add_column("what")
    table.add_column("repaired", justify="right")
    table.add_column("dropped", justify="right")
    table.add_column("first lines")
    for rule, tally in report.tallies.items():
        lines = ", ".join(map(str, tally.examples))
        table.add_row(rule.title, rule.words, str(tally.repaired), str(tally.dropped), lines)
    return table


def _peak_mib() -> float:
    """The most memory this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike ru_maxrss, it does not count what the process was forked from
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
