"""Results that are kept as JSON in `docs/results`, as `proreus compare --json` prints them.

Tables in the documentation are made of them (`make tables`), and `claims.py` holds prose to them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results"


@dataclass(frozen=True)
class Figure:
    """One mean with its interval; the ends are None where one run was made."""

    mean: float
    low: float | None
    high: float | None
    n: int


@lru_cache(maxsize=64)
def rows(name: str) -> tuple[dict[str, Any], ...]:
    """Of one kept result."""
    return tuple(json.loads((FOLDER / f"{name}.json").read_text())["rows"])


def figure(name: str, scenario: str, policy: str, measure: str) -> Figure:
    """Of a comparison."""
    for row in rows(name):
        if (row["scenario"], row["policy"], row["measure"]) == (scenario, policy, measure):
            return Figure(row["mean"], row["low"], row["high"], row["n"])
    raise LookupError(f"docs/results/{name}.json has no {measure} of {policy} in {scenario}")


def mean(name: str, scenario: str, policy: str, measure: str) -> float:
    """See `figure`."""
    return figure(name, scenario, policy, measure).mean
