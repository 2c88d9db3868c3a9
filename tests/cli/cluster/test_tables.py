"""Tables on terminals and in pipes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proreus.cli.cluster.tables import TableView, columns_of, print_rows, rows_of

TABLE = {
    "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": "Note", "priority": 1}],
    "rows": [
        {"cells": ["web-1", True, None], "object": {"metadata": {"namespace": "default"}}},
        {"cells": ["web-2", False, "two\nlines"], "object": {"metadata": {"namespace": "other"}}},
    ],
}
NAMES = ["AGE", "OBJECT", "NODE", "MESSAGE"]
ROWS = [
    ["5s", "pod/web-6d4c9b7f-x2x1z", "<none>", "Successfully assigned default/web-6d4c9b7f-x2x1z to node-12"],
    ["12m", "node/node-1", "<none>", "Node is ready"],
]


def printed(width: int, *, terminal: bool) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    print_rows(console, NAMES, ROWS)
    return out.getvalue().splitlines()


def test_cells_are_texts_and_wide_columns_are_asked_for() -> None:
    plain = columns_of(TABLE, TableView())
    assert plain.names == ["NAME", "READY"]
    assert rows_of(TABLE, plain, TableView()) == [["web-1", "true"], ["web-2", "false"]]
    wide = TableView(wide=True, namespaces=True, prefix="pod/")
    columns = columns_of(TABLE, wide)
    assert columns.names == ["NAMESPACE", "NAME", "READY", "NOTE"]
    assert rows_of(TABLE, columns, wide)[1] == ["other", "pod/web-2", "false", "two lines"]


def test_in_a_pipe_a_row_is_a_line_with_all_its_columns() -> None:
    head, *rows = printed(20, terminal=False)
    assert head.split() == NAMES
    assert len(rows) == 2 and rows[0].endswith("to node-12") and "<none>" in rows[0]


def test_a_terminal_that_is_wide_enough_shows_the_same() -> None:
    assert printed(200, terminal=True) == printed(200, terminal=False)


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_narrow_terminal_folds_and_loses_nothing(width: int) -> None:
    lines = printed(width, terminal=True)
    assert max(map(len, lines)) <= width
    assert "<none>" not in "".join(lines), "a column that says nothing goes first"
    assert lines[0].split() == ["AGE", "OBJECT", "MESSAGE"]
    start = lines[0].index("MESSAGE")
    message = "".join(line[start:].replace(" ", "") for line in lines[1:])
    assert message == "".join(row[3].replace(" ", "") for row in ROWS)


def test_names_stay_whole_where_they_take_half_of_the_room() -> None:
    out = io.StringIO()
    console = Console(file=out, width=52, force_terminal=True, color_system=None)
    names = ["NAMESPACE", "NAME", *(f"A-COLUMN-{place}" for place in range(5))]
    print_rows(console, names, [["web", "web-1234567", *("several words" for _ in range(5))]])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 52
    assert any(line.startswith("web        web-1234567  ") for line in lines), lines
