"""Tables of the API: on a terminal as wide as it is, in a pipe as wide as they are, with nothing cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len
from rich.console import Console

_GAP, _NARROWEST = 2, 4
_NOTHING = ("", "<none>", "<unknown>")


@dataclass(frozen=True)
class TableView:
    """What of a table is shown."""

    wide: bool = False
    namespaces: bool = False
    prefix: str = ""
    """Before each name, where several kinds are shown: "pod/"."""


@dataclass
class Columns:
    """The columns of a table, each as wide as what has been shown in it."""

    names: list[str]
    places: list[int]
    widths: list[int] = field(default_factory=list)


def columns_of(table: dict[str, Any], shown: TableView) -> Columns:
    """Those columns that are shown."""
    kept = [
        (place, column["name"].upper())
        for place, column in enumerate(table["columnDefinitions"])
        if shown.wide or not column.get("priority")
    ]
    names = [name for _, name in kept]
    return Columns(["NAMESPACE", *names] if shown.namespaces else names, [place for place, _ in kept])


def rows_of(table: dict[str, Any], columns: Columns, shown: TableView) -> list[list[str]]:
    """The rows of a table as texts."""
    rows = []
    for row in table.get("rows") or ():
        cells = [_text(row["cells"][place]) for place in columns.places]
        if shown.prefix and cells:
            cells[0] = f"{shown.prefix}{cells[0]}"
        if shown.namespaces:
            cells.insert(0, ((row.get("object") or {}).get("metadata") or {}).get("namespace", ""))
        rows.append(cells)
    return rows


def _text(cell: Any) -> str:
    match cell:
        case None:
            return "<none>"
        case bool():
            return str(cell).lower()
        case _:
            return " ".join(str(cell).split())


def print_rows(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """A table with its head; the widths of its columns.

    Where it is too wide for a terminal, columns that say nothing are left out, and then texts are folded;
    elsewhere every row is one line.
    """
    widths = _widths(names, rows)
    if not console.is_terminal or _fits(console, widths):
        print_plain(console, [names, *rows], widths)
        return widths
    telling = [place for place in range(len(names)) if any(row[place] not in _NOTHING for row in rows)]
    names = [names[place] for place in telling]
    rows = [[row[place] for place in telling] for row in rows]
    narrow = _shares(_widths(names, rows), _naming(names), console.width)
    print_plain(console, [line for row in (names, *rows) for line in _folded(row, narrow)], narrow)
    return widths


def _naming(names: Sequence[str]) -> int:
    """How many of the first columns say what a row is about."""
    return names.index("NAME") + 1 if "NAME" in names else 1


def _shares(widths: Sequence[int], naming: int, room: int) -> list[int]:
    """How wide each column may be: the narrow ones as they are, the others share what is left.

    A name that is cut in pieces cannot be copied: those that take at most half of the room stay whole.
    """
    shares = list(widths)
    left, wide = room - _GAP * (len(widths) - 1), set(range(len(widths)))
    if sum(widths[:naming]) <= left // 2:
        left -= sum(widths[:naming])
        wide -= set(range(naming))
    while wide:
        fair = max(left // len(wide), _NARROWEST)
        whole = {place for place in wide if widths[place] <= fair}
        if not whole:
            for place in wide:
                shares[place] = fair
            break
        left -= sum(widths[place] for place in whole)
        wide -= whole
    return shares


def _folded(row: Sequence[str], widths: Sequence[int]) -> Iterator[list[str]]:
    """A row in as many lines as its longest text needs."""
    cells = [
        textwrap.wrap(text, width, break_on_hyphens=False) if cell_len(text) > width else [text]
        for text, width in zip(row, widths, strict=True)
    ]
    for line in zip_longest(*cells, fillvalue=""):
        yield list(line)


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    columns = zip(names, *rows, strict=True)
    return [max((cell_len(text) for text in column), default=0) for column in columns]


def _fits(console: Console, widths: Sequence[int]) -> bool:
    return sum(widths) + _GAP * (len(widths) - 1) <= console.width


def print_plain(console: Console, rows: Iterable[Sequence[str]], widths: Sequence[int]) -> None:
    """Rows below each other, one line each."""
    for row in rows:
        *cells, last = (
            text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)
        )
        console.print((" " * _GAP).join((*cells, last.rstrip())), soft_wrap=True, highlight=False)


# Images as people read of them: a name and a size.


def image_name(names: Sequence[str]) -> str:
    """By name where it has one, else by digest."""
    named = [name for name in names if "sha256:" not in name]
    return ", ".join(named or names[:1])


def image_size(count: int) -> str:
    """In the largest unit of which there is one.

    >>> image_size(512), image_size(1_992_294)
    ('512 B', '1.9 MiB')
    """
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
