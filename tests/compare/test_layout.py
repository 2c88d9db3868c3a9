"""Tables of any width: in one piece, in several, or as lines, and never with a name or figure cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proreus.compare.layout import Sheet, laid_out

LONG = "runs/" + "a-very-long-name-of-a-run" * 3
SHEET = Sheet(
    title="title",
    head=("policy", "wait s", "makespan s", "CPU %", "words"),
    rows=(
        ("kube", "1,234.5 ±6.7", "17,904 ±14,804", "39.89 ±92.90", "yes"),
        ("best_fit", "12.5 ±0.7", "17,616 ±18,464", "38.92 ±78.94", "no"),
    ),
    caption="caption",
    left=frozenset({"words"}),
)
CELLS = [str(cell) for row in (SHEET.head, *SHEET.rows) for cell in row]


def printed(sheet: Sheet, width: int) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, markup=False)
    for part in laid_out(sheet, width):
        console.print(part)
    return text.getvalue().splitlines()


@pytest.mark.parametrize(("width", "tables"), [(200, 1), (80, 1), (60, 2), (40, 3), (30, 4)])
def test_columns_stand_below_each_other_where_they_do_not_fit_beside(width: int, tables: int) -> None:
    lines = printed(SHEET, width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert all(cell in text for cell in CELLS) and "…" not in text
    assert text.count("policy") == text.count("best_fit") == tables
    assert text.count("title") == text.count("caption") == 1


def test_what_fits_in_no_table_is_told_in_lines() -> None:
    sheet = Sheet(SHEET.title, SHEET.head, ((LONG, *SHEET.rows[0][1:]), SHEET.rows[1]), SHEET.caption)
    lines = printed(sheet, 60)
    assert max(map(len, lines)) <= 60
    joined = "".join(line.strip() for line in lines)
    assert LONG in joined, "the name goes on in the next line"
    assert ["makespan", "s", "17,904", "±14,804"] in [line.split() for line in lines]


def test_an_empty_cell_has_no_line() -> None:
    sheet = Sheet("t", ("what", "peer", "ok"), (("x" * 50, "", "yes"),))
    assert [line.split() for line in printed(sheet, 40)][-1] == ["ok", "yes"]
    assert not any(line.split()[:1] == ["peer"] for line in printed(sheet, 40))
