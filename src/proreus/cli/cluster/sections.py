"""A description as sections: fields with labels, and tables; on a terminal folded to its width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console

from proreus.cli.cluster.tables import print_rows

_NARROWEST = 40


@dataclass
class Section:
    """Fields below a title, then a table; the first section has no title."""

    title: str = ""
    fields: list[tuple[str, list[str]]] = field(default_factory=list)
    head: Sequence[str] = ()
    rows: list[list[str]] = field(default_factory=list)

    def add(self, label: str, *values: object) -> None:
        """A field with one or more lines; nothing where there is no value."""
        lines = [str(value) for value in values if value is not None and str(value)]
        if lines:
            self.fields.append((label, lines))

    def __bool__(self) -> bool:
        return bool(self.fields or self.rows)


def print_sections(console: Console, sections: Sequence[Section]) -> None:
    """All sections that hold something."""
    shown = [section for section in sections if section]
    width = max((cell_len(label) for section in shown for label, _ in section.fields), default=0) + 3
    for place, section in enumerate(shown):
        if place:
            console.print()
        if section.title:
            console.print(section.title, highlight=False, style="bold")
        _print_fields(console, section, width)
        if section.rows:
            print_rows(console, section.head, section.rows)


def _print_fields(console: Console, section: Section, width: int) -> None:
    room = max(console.width - width, _NARROWEST) if console.is_terminal else None
    for label, lines in section.fields:
        start = f"{label}:".ljust(width)
        for line in lines:
            pieces = [line] if room is None else textwrap.wrap(line, room, break_on_hyphens=False) or [""]
            for piece in pieces:
                console.print(start + piece, highlight=False, soft_wrap=True)
                start = " " * width
