"""Instances to place as rows, the way the document injects them: what each asks for, and its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.functions.datasets.profiles import draw_cold, draw_cold_median, draw_seconds
from proreus.worlds.functions.model import Demand, Function

REQUIRED = ("cpu_request", "mem_request")
"""Cores and GB of an instance."""
OPTIONAL = ("io_network", "io_disk", "requests", "arrival", "duration", "concurrency", "function", "cold")
"""MB/s and IOPS of the instance, its requests, seconds from the episode's start to the first of them, seconds
that one takes, how many an instance serves at a time, the kind of function, seconds of the cold start."""
_BURST = 1.5
"""Requests of a full instance use so much more CPU than it reserves: requests are minimum amounts."""
_USUAL_SECONDS, _USUAL_CONCURRENCY = 0.5, 10
_MOST_REQUESTS = 100_000


@dataclass(frozen=True)
class RowTerms:
    """How rows without times become requests."""

    kinds: int
    """Rows without a `function` take turns among so many kinds."""
    gap: float
    """Seconds between rows without an `arrival`, on average."""


def demand_of_rows(rows: Sequence[Mapping[str, Any]], terms: RowTerms, draw: np.random.Generator) -> Demand:
    """One function for each row; its requests come one standard response time after the other."""
    functions, arrivals, numbers, seconds, cold = [], [], [], [], []
    clock = 0.0
    for place, row in enumerate(rows):
        for name in row:
            if name not in (*REQUIRED, *OPTIONAL):
                raise unknown_name("field of a row", str(name), (*REQUIRED, *OPTIONAL))
        count = int(_number(row, "requests", 1.0, least=1.0, most=_MOST_REQUESTS))
        function = _function(row, place, count, terms)
        clock += float(draw.exponential(terms.gap))
        begin = _number(row, "arrival", clock, least=0.0)
        median = _number(row, "cold", draw_cold_median(draw), least=0.0)
        functions.append(function)
        arrivals.append(begin + function.standard * np.arange(count))
        numbers.append(np.full(count, place, dtype=np.int32))
        seconds.append(draw_seconds(draw, function.standard, count))
        cold.append(np.full(count, median) if "cold" in row else draw_cold(draw, median, count))
    if not rows:
        raise UsageError("a dataset has at least one row")
    arrival = np.concatenate(arrivals)
    order = np.argsort(arrival, kind="stable")
    return Demand(
        tuple(functions),
        arrival[order],
        np.concatenate(numbers)[order],
        np.concatenate(seconds)[order],
        np.concatenate(cold)[order],
        float(arrival.max()) + terms.gap,
    )


def _function(row: Mapping[str, Any], place: int, count: int, terms: RowTerms) -> Function:
    usual = float(min(count, _USUAL_CONCURRENCY))
    concurrency = int(_number(row, "concurrency", usual, least=1.0, most=1e6))
    cores = _number(row, "cpu_request", None, least=0.001)
    kind = row.get("function", place % terms.kinds)
    number = int(kind) if isinstance(kind, int | np.integer) else sum(map(ord, str(kind)))
    return Function(
        name=f"{kind}/{place}",
        cpu=max(round(1_000 * cores), 1),
        memory=max(round(1_024 * _number(row, "mem_request", None, least=0.001)), 1),
        cpu_use=round(1_000 * cores * _BURST / concurrency),
        net=round(1_000 * _number(row, "io_network", 0.0, least=0.0) / concurrency),
        disk=round(_number(row, "io_disk", 0.0, least=0.0) / concurrency),
        concurrency=concurrency,
        standard=_number(row, "duration", _USUAL_SECONDS, least=1e-4),
        kind=number % terms.kinds,
    )


def _number(
    row: Mapping[str, Any], name: str, usual: float | None, *, least: float, most: float = 1e9
) -> float:
    """A finite number of a row; the usual one where the row has none."""
    if name not in row:
        if usual is None:
            raise UsageError(f"a row of the dataset has no {name!r}")
        return usual
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        raise UsageError(f"{name}: {row[name]!r} is not a number") from None
    if not least <= value <= most:
        raise UsageError(f"{name}: {value!r} is not between {least:g} and {most:g}")
    return value
