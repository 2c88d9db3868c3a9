"""A comparison as JSON and CSV, for other programs. `proreus compare --json` promises the format."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from proreus.compare.comparison import Comparison
from proreus.compare.statistics import Row

_COLUMNS = ("scenario", "policy", "measure", "unit", "better", "mean", "low", "high", "n")


def rows_json(comparison: Comparison) -> bytes:
    """`{"world", "rows": [...]}`; low and high are null where one seed allows no interval."""
    content = {
        "world": comparison.world.name,
        "rows": [row_cells(row) for row in comparison.rows],
    }
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def rows_csv(comparison: Comparison) -> bytes:
    """The same rows; an absent interval is an empty cell."""
    return _csv(_COLUMNS, (_cells(row) for row in comparison.rows))


def per_seed_csv(comparison: Comparison) -> bytes:
    """Every run with its measures; a measure that makes no sense for the run is an empty cell."""
    known = comparison.world.measures
    measures = [name for name in known if any(name in result.measures for result in comparison.results)]
    return _csv(
        ("scenario", "policy", "seed", *measures),
        (
            (result.scenario, result.policy, result.seed, *(result.measures.get(name) for name in measures))
            for result in comparison.results
        ),
    )


def row_cells(row: Row) -> dict[str, Any]:
    """A row by the names of its columns."""
    return dict(zip(_COLUMNS, _cells(row), strict=True))


def _cells(row: Row) -> tuple[str | float | int | None, ...]:
    estimate = row.estimate
    return (
        row.scenario,
        row.policy,
        row.measure,
        row.unit,
        row.better,
        estimate.mean,
        estimate.low,
        estimate.high,
        estimate.n,
    )


def _csv(header: Iterable[str], rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
