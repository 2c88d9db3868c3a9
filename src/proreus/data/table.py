"""Strict tables: a header that is checked, cells that are parsed by type, errors that name the cell.

Called by the CSV readers (`openb`, `alibaba2025`) and, for rows without a header, by `gavel`;
`cursor` shares its idea of a number.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proreus.data.text_file import read_lines
from proreus.model.errors import InputError

LARGEST = 2**62
"""Amounts stay below this, so that sums over a cluster fit into 64 bits."""

# Python's own float() also takes "1_000", "nan" and digits of other scripts; a trace means none of them.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_SHOWN = 40


def shown(cell: str) -> str:
    """A cell as an error message quotes it: on one line and never longer than a few words."""
    return repr(cell if len(cell) <= _SHOWN else cell[:_SHOWN] + "…")


def parse_number(text: str, *, minimum: float = 0.0, wording: str = "") -> float:
    """A finite number of at least `minimum`; a ValueError calls the text `wording`."""
    wording = wording or shown(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{wording} is not a finite number")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{wording} is not a number")
    value = float(text)
    if not math.isfinite(value) or value > LARGEST:
        raise ValueError(f"{wording} is too large")
    if value < minimum:
        raise ValueError(f"{wording} " + ("is negative" if minimum == 0 else f"is below {minimum:g}"))
    return value


@dataclass(frozen=True)
class TableRow:
    """One line of a table: its cells by column name, and where they stand."""

    file: Path
    line: int
    cells: Mapping[str, str]

    def fail(self, column: str, message: str) -> InputError:
        """The error for something wrong with one cell of this row."""
        return InputError(message, file=self.file, line=self.line, field=column)

    def optional_text(self, column: str) -> str:
        """The cell, or "" where it is empty or the table has no such column."""
        return self.cells.get(column, "").strip()

    def text(self, column: str) -> str:
        """The cell, which must not be empty."""
        cell = self.optional_text(column)
        if not cell:
            raise self.fail(column, "the cell is empty")
        return cell

    def number(self, column: str, *, minimum: float = 0.0) -> float:
        """A finite number of at least `minimum`."""
        try:
            return parse_number(self.text(column), minimum=minimum)
        except ValueError as error:
            raise self.fail(column, str(error)) from None

    def optional_number(self, column: str, *, minimum: float = 0.0) -> float | None:
        """A finite number of at least `minimum`, or None where the cell is empty or the column absent."""
        return self.number(column, minimum=minimum) if self.optional_text(column) else None

    def integer(self, column: str, *, minimum: int = 0, maximum: int = LARGEST) -> int:
        """A whole number between the bounds ("8" and "8.0" alike)."""
        value = self.number(column, minimum=minimum)
        if not value.is_integer():
            raise self.fail(column, f"{shown(self.text(column))} is not a whole number")
        if value > maximum:
            raise self.fail(column, f"{shown(self.text(column))} is above {maximum}")
        return int(value)


def read_table(path: Path, *, required: Sequence[str], optional: Sequence[str] = ()) -> tuple[TableRow, ...]:
    """The rows of a comma-separated file whose header has all `required` columns and no unknown one."""
    records = _records(path, delimiter=",")
    header_line, names = next(records)
    header = [name.strip() for name in names]
    problem = _header_problem(header, required, optional)
    if problem is not None:
        column, message = problem
        raise InputError(message, file=path, line=header_line, field=column)
    return tuple(_row(path, line, header, cells) for line, cells in records)


def read_filled_table(
    path: Path, *, required: Sequence[str], optional: Sequence[str] = ()
) -> tuple[TableRow, ...]:
    """The rows of a table that means nothing without one."""
    rows = read_table(path, required=required, optional=optional)
    if not rows:
        raise InputError("there is a header and no row", file=path)
    return rows


def read_headless(
    path: Path, columns_by_width: Mapping[int, Sequence[str]], *, delimiter: str
) -> tuple[TableRow, ...]:
    """The rows of a file without a header; the number of its cells tells which columns a row has."""
    rows = []
    for line, cells in _records(path, delimiter=delimiter):
        columns = columns_by_width.get(len(cells))
        if columns is None:
            widths = " or ".join(str(width) for width in sorted(columns_by_width))
            raise InputError(f"{len(cells)} cells where {widths} are due", file=path, line=line)
        rows.append(_row(path, line, columns, cells))
    return tuple(rows)


def _header_problem(
    header: Sequence[str], required: Sequence[str], optional: Sequence[str]
) -> tuple[str, str] | None:
    """(column, what is wrong with it) of the first problem, or None."""
    for name in required:
        if name not in header:
            return name, f"the column is missing (the header is {shown(','.join(header))})"
    for position, name in enumerate(header):
        if name not in required and name not in optional:
            return shown(name), "unknown column"
        if name in header[:position]:
            return name, "the column appears twice"
    return None


def _records(path: Path, *, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not blank."""
    reader = csv.reader(read_lines(path), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(f"not a table: {error}", file=path, line=line) from None
        if cells is None:
            return
        if reader.line_num > line:
            raise InputError("a quoted cell runs over the end of the line", file=path, line=line)
        if cells:
            yield line, cells


def _row(path: Path, line: int, columns: Sequence[str], cells: Sequence[str]) -> TableRow:
    if len(cells) != len(columns):
        raise InputError(f"{len(cells)} cells where {len(columns)} are due", file=path, line=line)
    return TableRow(path, line, dict(zip(columns, cells, strict=True)))
