"""Reads a log into columns of numbers, and deals with the faults that a row shows by itself.

What a row shows only beside others (its order, its repetition, its magnitude) is the matter of
`clock_repair` and `open_windows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from proreus.data.cleaning.cells import (
    CPU_SUFFIXES,
    CPU_UNITS,
    FAULTS,
    GOOD,
    MEM_SUFFIXES,
    MEM_UNITS,
    NO_TIME,
    Amounts,
    guess_time_unit,
    read_amounts,
    read_times,
)
from proreus.data.cleaning.columns import LogColumns
from proreus.data.cleaning.csv_blocks import Block, LogFile, Progress
from proreus.data.cleaning.options import MICROSECONDS, CleaningOptions, TimeUnit
from proreus.data.cleaning.report import CleaningRule, Report
from proreus.model.errors import InputError

MOST_NAMES = 200_000
_HEAD_STEPS = 2_000
"""Rows that follow another one of their pod: so many tell requests from samples."""
_HEAD_ROWS = 300_000
_FEWEST_STEPS = 3
_SHORTEST_STEP = 10 * MICROSECONDS
_EVEN = 0.1


class Rows(NamedTuple):
    """Rows of a log as columns; shape (rows,) each."""

    name: npt.NDArray[np.int64]
    """The number of the pod or service."""
    time: npt.NDArray[np.int64]
    """Microseconds."""
    cpu: npt.NDArray[np.float64]
    mem: npt.NDArray[np.float64]
    line: npt.NDArray[np.int64]
    digest: npt.NDArray[np.int64]
    """Of the whole line: equal lines have equal digests within one run."""

    def pick(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Rows:
        """Some of the rows."""
        return Rows(
            self.name[which],
            self.time[which],
            self.cpu[which],
            self.mem[which],
            self.line[which],
            self.digest[which],
        )


def join(pieces: list[Rows]) -> Rows:
    """The rows of all pieces."""
    return Rows(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))


NO_ROWS = Rows(*(np.zeros(0, kind) for kind in ("i8", "i8", "f8", "f8", "i8", "i8")))


class RowReader:
    """Reads the rows of one log; knows the names it has met and the unit of its times."""

    def __init__(self, log: LogFile, columns: LogColumns, options: CleaningOptions, report: Report) -> None:
        self.names: list[str] = []
        """Pods or services by number, in the order of their first rows."""
        self._numbers: dict[bytes, int] = {}
        self._log, self._columns, self._report = log, columns, report
        self._bad_values = options.repairs.bad_values
        self._time_unit: TimeUnit | None = columns.time_unit

    def rows(self, progress: Progress | None = None) -> Iterator[Rows]:
        """The sound rows, block by block."""
        for block in self._log.blocks(progress):
            self._report.rows_in += len(block.lines) + len(block.misfits)
            self._report.dropped(CleaningRule.CELLS, block.misfits)
            if len(block.lines):
                yield self._read(block)

    def _read(self, block: Block) -> Rows:
        columns, lines = self._columns, block.lines
        time = self._times(block)
        name = self._named(block)
        cpu = read_amounts(block.columns[columns.cpu], CPU_UNITS[columns.cpu_unit], CPU_SUFFIXES)
        mem = read_amounts(block.columns[columns.mem], MEM_UNITS[columns.mem_unit], MEM_SUFFIXES)
        keep = time != NO_TIME
        self._report.dropped(CleaningRule.TIME, lines[~keep])
        nameless = keep & (name < 0)
        self._report.dropped(CleaningRule.NAME, lines[nameless])
        keep &= ~nameless
        keep &= self._sound(cpu, mem, lines, keep)
        self._report.read(CleaningRule.SUFFIX, lines[keep & (cpu.suffixed | mem.suffixed)])
        digest = np.array(list(map(hash, block.texts)), np.int64)
        rows = Rows(name, time, cpu.values, mem.values, lines, digest)
        return rows if keep.all() else rows.pick(keep)

    def _sound(
        self, cpu: Amounts, mem: Amounts, lines: npt.NDArray[np.int64], candidates: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Which rows stay; each faulty row counts under its first fault."""
        fault = np.where(cpu.faults != GOOD, cpu.faults, mem.faults)
        if not fault.any():
            return candidates
        for code, rule in enumerate(FAULTS, start=GOOD + 1):
            hit = lines[candidates & (fault == code)]
            match self._bad_values:
                case "refuse":
                    self._report.refuse(rule, hit)
                case "zero":
                    self._report.repaired(rule, hit)
                case "drop":
                    self._report.dropped(rule, hit)
        return candidates if self._bad_values == "zero" else candidates & (fault == GOOD)

    def _times(self, block: Block) -> npt.NDArray[np.int64]:
        cells = block.columns[self._columns.time]
        if self._time_unit is None:
            self._time_unit = next((unit for cell in cells if (unit := guess_time_unit(cell))), None)
        if self._time_unit is None:
            return np.full(len(cells), NO_TIME)
        return read_times(cells, self._time_unit)

    def _named(self, block: Block) -> npt.NDArray[np.int64]:
        """The numbers of the names; -1 where a row has none."""
        if self._columns.name is None:
            if not self.names:
                self.names.append("")
            return np.zeros(len(block.lines), np.int64)
        cells = block.columns[self._columns.name]
        numbers = list(map(self._numbers.get, cells))
        if None in numbers:
            for i, cell in enumerate(cells):
                if numbers[i] is None:
                    numbers[i] = self._new_name(cell, int(block.lines[i]))
        return np.array(numbers, np.int64)

    def _new_name(self, cell: bytes, line: int) -> int:
        known = self._numbers.get(cell)
        if known is not None:
            return known
        try:
            name = cell.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise InputError("not a text file (invalid UTF-8)", file=self._report.file, line=line) from None
        if not name:
            return -1
        plain = name.encode()
        number = self._numbers.get(plain)
        if number is None:
            number = len(self.names)
            if number >= MOST_NAMES:
                raise InputError(
                    f"over {MOST_NAMES} pods or services: is this the right column?",
                    file=self._report.file, line=line,
                )  # fmt: skip
            self.names.append(name)
            self._numbers[plain] = number
        self._numbers[cell] = number
        return number


def looks_like_monitor(log: LogFile, columns: LogColumns) -> bool:
    """Whether the first rows of most pods come at even steps, as samples do and requests do not."""
    if columns.named != "pod":
        return False
    reader = RowReader(log, columns, CleaningOptions(), Report(log.path))
    pieces, count = [NO_ROWS], 0
    for rows in reader.rows():
        pieces.append(rows)
        count += len(rows.line)
        if count - len(reader.names) >= _HEAD_STEPS or count >= _HEAD_ROWS:
            break
    head = join(pieces)
    # Cut at a row, not at the end of a block: how the file is read must not decide what it is.
    again = np.ones(len(head.line), np.bool_)
    again[np.unique(head.name, return_index=True)[1]] = False
    head = head.pick((np.cumsum(again) <= _HEAD_STEPS) & (np.arange(len(again)) < _HEAD_ROWS))
    order = np.lexsort((head.time, head.name))
    step = np.diff(head.time[order])[np.diff(head.name[order]) == 0]
    step = step[step > 0]
    if len(step) < _FEWEST_STEPS:
        return False
    usual = float(np.median(step))
    even = np.mean(np.abs(step - usual) <= _EVEN * usual)
    return usual >= _SHORTEST_STEP and bool(even > 0.5)
