"""Cleans a request log or a monitor export into windows per pod, in memory that does not grow with the file.

The way of a row: `csv_blocks` cuts the file into cells, `rows` reads them, `clock_repair` checks its
time, `open_windows` holds it until its window closes, `unit_repair` judges its magnitude, `aggregation` hands
it to a pod and sums the window. Every fault on the way is told to the `Report`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from proreus.data.cleaning.aggregation import Summary, WindowColumns
from proreus.data.cleaning.clock_repair import Clock
from proreus.data.cleaning.columns import LogColumns, find_columns
from proreus.data.cleaning.csv_blocks import LogFile, Progress
from proreus.data.cleaning.open_windows import OpenWindows, closed_rows, drop_repeats
from proreus.data.cleaning.options import MICROSECONDS, CleaningOptions, Kind
from proreus.data.cleaning.report import CleaningRule, Report
from proreus.data.cleaning.rows import RowReader, Rows, looks_like_monitor
from proreus.data.cleaning.unit_repair import UnitJudge
from proreus.model.errors import InputError, UsageError
from proreus.model.files import make_folder, open_together

WINDOWS_FILE = "windows.csv"
REQUESTS_FILE = "requests.csv"
_WRITTEN_AT_ONCE = 50_000
_WINDOWS_HEADER = b"window_start,pod,cpu,mem,requests\n"
_REQUESTS_HEADER = b"time,pod,cpu,mem,window_start\n"


class Cleaned(NamedTuple):
    """Some cleaned rows with their pods, and the windows that they fill."""

    rows: Rows
    pod: npt.NDArray[np.int64]
    windows: Iterator[WindowColumns]


class Cleaning:
    """One cleaning of one file; after `parts` has ended, `report` is complete."""

    def __init__(self, log: LogFile, options: CleaningOptions) -> None:
        self.options = options
        self._log = log
        self.columns = find_columns(log.path, log.header(), options.columns, options.pods)
        self.kind = _kind(log, self.columns, options)
        self.pods_per_name = 1 if self.columns.named == "pod" else max(options.pods, 1)
        self.report = Report(log.path, options.repairs.strict, self.kind)
        self.reader = RowReader(log, self.columns, options, self.report)

    def parts(self, progress: Progress | None = None) -> Iterator[Cleaned]:
        """The cleaned rows and windows in the order in which windows close."""
        options, report = self.options, self.report
        step = options.window_us if self.kind == "monitor" else 0
        judge = self._judge()
        summary = Summary(options, self.kind, self.pods_per_name, report)
        waiting = OpenWindows(options, judge, report)
        clock = Clock(options, step, report)
        for closed in closed_rows(self.reader, self.reader.rows(progress), clock, waiting):
            rows = drop_repeats(closed, self._same_time(), options, report)
            if judge.needed:
                cpu, in_milli = judge.mend_cpu(rows)
                mem, in_larger = judge.mend_mem(rows)
                report.repaired(CleaningRule.CPU_UNIT, rows.line[in_milli])
                report.repaired(CleaningRule.MEM_UNIT, rows.line[in_larger])
                rows = rows._replace(cpu=cpu, mem=mem)
            self._refuse_if_asked(waiting)
            pod = summary.pods_of(rows, len(self.reader.names))
            report.rows_out += len(rows.line)
            yield Cleaned(rows, pod, summary.windows(rows, pod))
        self._refuse_if_asked(waiting)
        report.pods = summary.pods
        if not report.rows_out:
            raise InputError(
                f"no row of this file is left after cleaning ({report.account()})", file=report.file
            )
        share = options.repairs.most_dropped
        if report.rows_dropped and report.rows_dropped >= share * report.rows_in:
            raise InputError(f"{report.account()}; --most-dropped is {share:g}", file=report.file)

    def pod_names(self) -> list[str]:
        """The names of the pods met so far, by number."""
        if self.columns.named == "pod":
            return self.reader.names
        return [f"{name or 'pod'}-{i}" for name in self.reader.names for i in range(self.pods_per_name)]

    def _refuse_if_asked(self, waiting: OpenWindows) -> None:
        """InputError for the first fault of those that refuse the file."""
        if self.report.refusal is not None:
            # Among the rows that still wait one may repeat another, and come before the fault that is known.
            rest = waiting.close_all(len(self.reader.names))
            drop_repeats(rest, self._same_time(), self.options, self.report)
            raise self.report.refusal

    def _judge(self) -> UnitJudge:
        columns, units = self.options.columns, self.options.repairs.units
        judging = units == "magnitude" or (units == "auto" and self.kind == "monitor")
        return UnitJudge(
            cpu=judging and columns.cpu_unit == "auto", mem=judging and columns.mem_unit == "auto"
        )

    def _same_time(self) -> str:
        chosen = self.options.repairs.same_time
        if chosen != "auto":
            return chosen
        return "last" if self.kind == "monitor" else "keep"


def clean(
    path: Path,
    folder: Path,
    options: CleaningOptions,
    *,
    with_requests: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Clean `path` into `folder`: windows.csv and, unless told not to, requests.csv."""
    cleaning = Cleaning(LogFile(path), options)
    make_folder(folder)
    targets = [folder / WINDOWS_FILE] + ([folder / REQUESTS_FILE] if with_requests else [])
    if path.resolve() in [target.resolve() for target in targets]:
        raise UsageError(f"{path}: the result would take the place of the input; choose another --out")
    with open_together(targets) as files:
        files[0].write(_WINDOWS_HEADER)
        if with_requests:
            files[1].write(_REQUESTS_HEADER)
        quoted: list[str] = []
        for part in cleaning.parts(progress):
            if len(quoted) != len(cleaning.reader.names) * cleaning.pods_per_name:
                quoted = [_quoted(name) for name in cleaning.pod_names()]
            for windows in part.windows:
                cleaning.report.windows_out += len(windows.pod)
                _write_windows(files[0], windows, quoted)
            if with_requests:
                _write_requests(files[1], part, quoted, options.window_us)
    return cleaning.report


def _kind(log: LogFile, columns: LogColumns, options: CleaningOptions) -> Kind:
    kind = options.kind
    if kind == "auto":
        kind = "monitor" if looks_like_monitor(log, columns) else "requests"
    if kind == "monitor" and columns.named != "pod":
        raise UsageError("a monitor export needs a column of pods, and is not handed to --pods")
    return kind


def _write_windows(file: BinaryIO, windows: WindowColumns, names: list[str]) -> None:
    rows = zip(
        _seconds(windows.start),
        [names[pod] for pod in windows.pod.tolist()],
        map(repr, windows.cpu.tolist()),
        map(repr, windows.mem.tolist()),
        map(str, windows.requests.tolist()),
        strict=True,
    )
    _write_rows(file, map(",".join, rows))


def _write_requests(file: BinaryIO, part: Cleaned, names: list[str], window_us: int) -> None:
    # In slices: as text a row takes some ten times its room in the arrays.
    for begin in range(0, len(part.pod), _WRITTEN_AT_ONCE):
        some = slice(begin, begin + _WRITTEN_AT_ONCE)
        time = part.rows.time[some]
        rows = zip(
            _seconds(time),
            [names[pod] for pod in part.pod[some].tolist()],
            map(repr, part.rows.cpu[some].tolist()),
            map(repr, part.rows.mem[some].tolist()),
            _seconds(time // window_us * window_us),
            strict=True,
        )
        _write_rows(file, map(",".join, rows))


def _write_rows(file: BinaryIO, rows: Iterator[str]) -> None:
    text = "\n".join(rows)
    if text:
        file.write(text.encode() + b"\n")


def _seconds(micros: npt.NDArray[np.int64]) -> list[str]:
    """Microseconds as seconds, exactly."""
    whole, rest = np.divmod(micros, MICROSECONDS)
    if not rest.any():
        return list(map(str, whole.tolist()))
    # Times before 1970 are rounded down to the second before, which "-3.25" could not say: those go by float.
    return [
        (f"{s}.{u:06d}".rstrip("0") if u else str(s)) if s >= 0 else repr(s + u / MICROSECONDS)
        for s, u in zip(whole.tolist(), rest.tolist(), strict=True)
    ]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"\r\n') else name
