"""Tables for terminals of any width: one table, else several below each other, else lines.

Names and figures are never cut: a figure cut short is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Cell = str | Text


@dataclass(frozen=True)
class Sheet:
    """A table before it is known how wide it may be; the first column names the rows."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    left: frozenset[str] = frozenset()
    """Columns of words: those of figures stand to the right."""


def laid_out(sheet: Sheet, width: int) -> list[RenderableType]:
    """What to print, one after the other, where lines have so many columns."""
    widths = [_widest(sheet, column) for column in range(len(sheet.head))]
    if all(table_width([widths[0], column_width]) <= width for column_width in widths[1:]):
        groups = side_by_side(widths, width)
        tables = [_table(sheet, group, first=place == 0) for place, group in enumerate(groups)]
        tables[-1].caption = Text(sheet.caption, style="dim") if sheet.caption else None
        return [*tables]
    caption = [Text(sheet.caption, style="dim")] if sheet.caption else []
    return [Text(sheet.title, style="bold"), *_lines(sheet), *caption]


def _widest(sheet: Sheet, column: int) -> int:
    return max(cell_len(str(cell)) for cell in (sheet.head[column], *(row[column] for row in sheet.rows)))


def table_width(widths: Sequence[int]) -> int:
    """Of a table of such columns: a blank on both sides of a cell, and a line between cells."""
    return sum(width + 3 for width in widths) + 1


def side_by_side(widths: Sequence[int], width: int) -> list[list[int]]:
    """The columns that stand side by side, beside the first one, which every group begins with."""
    groups: list[list[int]] = [[0]]
    for column in range(1, len(widths)):
        together = [widths[index] for index in (*groups[-1], column)]
        if len(groups[-1]) > 1 and table_width(together) > width:
            groups.append([0])
        groups[-1].append(column)
    return groups


def _table(sheet: Sheet, columns: Sequence[int], *, first: bool) -> Table:
    title = Text(sheet.title, style="bold") if first else None
    table = Table(title=title, title_justify="left", caption_justify="left")
    for column in columns:
        name = sheet.head[column]
        right = column > 0 and name not in sheet.left
        table.add_column(Text(name), justify="right" if right else "left", no_wrap=True)
    for row in sheet.rows:
        table.add_row(
            *(row[column] if isinstance(row[column], Text) else Text(str(row[column])) for column in columns)
        )
    return table


def _lines(sheet: Sheet) -> Iterator[RenderableType]:
    """Row by row: its name, then what each column says of it; long words go on in the next line."""
    for row in sheet.rows:
        yield Text.assemble((str(row[0]), "bold"), overflow="fold")
        yield named_lines([pair for pair in zip(sheet.head[1:], row[1:], strict=True) if str(pair[1])])


def named_lines(pairs: Sequence[tuple[str, Cell]]) -> RenderableType:
    """What is said under each name, a line each; what is long goes on below itself."""
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True, style="dim")
    lines.add_column(overflow="fold")
    for name, cell in pairs:
        lines.add_row(Text(name), cell if isinstance(cell, Text) else Text(cell))
    return Padding(lines, (0, 0, 0, 2))
