"""Comparisons for the dashboard: the rows with their intervals, every run of every seed, and the replays and
curves that the report has of the first seed."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import asdict
from typing import Any

from proreus.compare.statistics import paired_difference
from proreus.compare.trials import TrialResult
from proreus.model.errors import InputError
from proreus.model.files import read_object
from proreus.web.run_folders import REPORT, ROWS, Found

PER_SEED, COMMAND = "per_seed.csv", "command.txt"
_MOST_BYTES = 64 * 1024 * 1024
_DATA = re.compile(rb'<script type="application/json" id="report-data">(.*?)</script>', re.DOTALL)


def comparison_summary(found: Found) -> dict[str, Any]:
    """A comparison in a list."""
    try:
        content = _rows(found)
    except InputError as error:
        return {"id": found.id, "name": found.name, "trouble": str(error)}
    rows = content["rows"]
    return {
        "id": found.id,
        "name": found.name,
        "world": content["world"],
        "scenarios": list(dict.fromkeys(row["scenario"] for row in rows)),
        "policies": list(dict.fromkeys(row["policy"] for row in rows)),
        "seeds": max((row["n"] for row in rows), default=0),
        "when": (found.path / ROWS).stat().st_mtime,
        "trouble": "",
    }


def comparison_detail(found: Found) -> dict[str, Any]:
    """All rows, and all runs."""
    content, runs = _rows(found), _runs(found)
    command = found.path / COMMAND
    return {
        **comparison_summary(found),
        "rows": content["rows"],
        "runs": runs,
        "differences": _differences(content["rows"], runs),
        "command": _text(command)[:4_000] if command.is_file() else "",
        "report": (found.path / REPORT).is_file(),
    }


def report_data(found: Found) -> bytes:
    """The numbers of the report as JSON: curves, heat maps and replays of the first seed."""
    match = _DATA.search(_bytes(found, REPORT))
    if match is None:
        raise InputError("has no data of a comparison in it", file=found.path / REPORT)
    try:
        json.loads(match[1])
    except ValueError as error:
        raise InputError(f"its data cannot be read: {error}", file=found.path / REPORT) from error
    return match[1]


def _rows(found: Found) -> dict[str, Any]:
    content = read_object(found.path / ROWS, "a comparison's rows")
    rows = content.get("rows")
    wanted = {"scenario": str, "policy": str, "measure": str, "unit": str, "better": str, "n": int}
    sound = isinstance(content.get("world"), str) and isinstance(rows, list)
    for row in rows if sound and isinstance(rows, list) else ():
        sound &= isinstance(row, dict) and all(isinstance(row.get(k), t) for k, t in wanted.items())
        sound &= isinstance(row, dict) and isinstance(row.get("mean"), int | float)
    if not sound:
        raise InputError("is not what a comparison writes", file=found.path / ROWS)
    return content


def _runs(found: Found) -> dict[str, Any]:
    """Every run with its measures, as a table."""
    if not (found.path / PER_SEED).is_file():
        return {"columns": [], "rows": []}
    try:
        lines = list(csv.reader(io.StringIO(_bytes(found, PER_SEED).decode())))
    except (ValueError, csv.Error) as error:
        raise InputError(f"is no table: {error}", file=found.path / PER_SEED) from error
    return {"columns": lines[0], "rows": lines[1:]} if lines else {"columns": [], "rows": []}


def _differences(rows: list[dict[str, Any]], runs: dict[str, Any]) -> list[dict[str, Any]]:
    """Each policy against the best mean of the others, paired by seed."""
    results = _results(runs)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["scenario"], row["measure"]), []).append(row)
    told = []
    for (scenario, measure), group in groups.items():
        sign = -1.0 if group[0]["better"] == "higher" else 1.0
        ranked = sorted(group, key=lambda row: sign * row["mean"])  # of equals the first
        for row in group if len(ranked) > 1 else ():
            leads = row is ranked[0]
            policy, baseline = row["policy"], ranked[1 if leads else 0]["policy"]
            both = [*results.get((scenario, policy), ()), *results.get((scenario, baseline), ())]
            difference = paired_difference(both, measure, policy, baseline)
            if difference is not None:
                told.append(
                    {
                        "scenario": scenario,
                        "measure": measure,
                        "policy": policy,
                        "baseline": baseline,
                        "leads": leads,
                        **asdict(difference.estimate),
                    }
                )
    return told


def _results(runs: dict[str, Any]) -> dict[tuple[str, str], list[TrialResult]]:
    """The runs by scenario and policy; what is no number does not count."""
    results: dict[tuple[str, str], list[TrialResult]] = {}
    for scenario, policy, seed, *values in (row for row in runs["rows"] if len(row) > 3):
        named = zip(runs["columns"][3:], values, strict=False)
        measures = {name: number for name, value in named if (number := _number(value)) is not None}
        if seed.isdecimal():
            result = TrialResult(scenario, policy, int(seed), measures, None)
            results.setdefault((scenario, policy), []).append(result)
    return results


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _bytes(found: Found, name: str) -> bytes:
    path = found.path / name
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"has more than {_MOST_BYTES:,} bytes", file=path)
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from error


def _text(path: Any) -> str:
    return str(path.read_text(encoding="utf-8", errors="replace"))
