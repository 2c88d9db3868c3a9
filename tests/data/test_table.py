"""Tables: every wrong cell is named by file, line and column."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.data.table import TableRow, parse_number, read_headless, read_table, shown
from proreus.model.errors import InputError

Write = Callable[[str, str | bytes], Path]


def row(cell: str) -> TableRow:
    return TableRow(Path("t.csv"), 7, {"size": cell})


def test_reads_rows_with_their_lines(write: Write) -> None:
    rows = read_table(write("t.csv", "a,b\n1,2\n\n3,4\n"), required=("a",), optional=("b", "c"))
    assert [(r.line, dict(r.cells)) for r in rows] == [(2, {"a": "1", "b": "2"}), (4, {"a": "3", "b": "4"})]
    assert rows[0].optional_text("c") == ""


@pytest.mark.parametrize(
    ("content", "line", "field", "message"),
    [
        ("b\n1\n", 1, "a", "the column is missing"),
        ("a,z\n1,2\n", 1, "'z'", "unknown column"),
        ("a,a\n1,2\n", 1, "a", "appears twice"),
        ("a,b\n1,2\n1,2,3\n", 3, None, "3 cells where 2 are due"),
        ("a,b\n1\n", 2, None, "1 cells where 2 are due"),
        ('a,b\n"1,2\n3",4\n', 2, None, "runs over the end of the line"),
        ('a,b\n"1"x,2\n', 2, None, "not a table"),
    ],
)
def test_structural_errors(write: Write, content: str, line: int, field: str | None, message: str) -> None:
    path = write("t.csv", content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path, required=("a",), optional=("b",))
    assert (caught.value.file, caught.value.line, caught.value.field) == (path, line, field)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("-1", "is negative"),
        ("nan", "is not a finite number"),
        ("-inf", "is not a finite number"),
        ("Infinity", "is not a finite number"),
        ("abc", "is not a number"),
        ("1_000", "is not a number"),
        ("١", "is not a number"),
        ("1e999", "is too large"),
        ("9" * 5000, "is too large"),
        ("", "the cell is empty"),
    ],
)
def test_bad_numbers_name_the_cell(cell: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        row(cell).number("size")
    assert str(caught.value).startswith("t.csv:7: size: ")
    assert len(str(caught.value)) < 120


def test_integers() -> None:
    assert row("8").integer("size") == row("8.0").integer("size") == row(" 8 ").integer("size") == 8
    with pytest.raises(InputError, match="is not a whole number"):
        row("8.5").integer("size")
    with pytest.raises(InputError, match="is above 4"):
        row("8").integer("size", maximum=4)
    with pytest.raises(InputError, match="is below 9"):
        row("8").integer("size", minimum=9)


def test_optional_number() -> None:
    assert row("").optional_number("size") is None
    assert row("2.5").optional_number("size") == 2.5
    with pytest.raises(InputError, match="is negative"):
        row("-2").optional_number("size")


def test_headless_rows_are_known_by_their_width(write: Write) -> None:
    rows = read_headless(write("t", "1\t2\n1\t2\t3\n"), {2: "ab", 3: "xyz"}, delimiter="\t")
    assert [dict(r.cells) for r in rows] == [{"a": "1", "b": "2"}, {"x": "1", "y": "2", "z": "3"}]
    with pytest.raises(InputError, match=r":1: 1 cells where 2 or 3 are due"):
        read_headless(write("t", "1\n"), {2: "ab", 3: "xyz"}, delimiter="\t")


@given(st.text(max_size=60))
def test_any_text_is_a_finite_non_negative_number_or_an_error(text: str) -> None:
    try:
        value = parse_number(text)
    except ValueError:
        return
    assert math.isfinite(value) and value >= 0
    assert value == float(text)


@given(st.floats(min_value=0, max_value=2.0**62, allow_nan=False))
def test_every_number_in_range_is_read_back(value: float) -> None:
    assert parse_number(repr(value)) == value


@given(st.text(max_size=300))
def test_shown_text_is_one_short_line(text: str) -> None:
    assert "\n" not in shown(text)
