"""Laws of cleaning: agreement with a plain reference, rows conserved, chunks that do not matter."""

from __future__ import annotations

import csv
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.data.cleaning.csv_blocks import LogFile
from proreus.data.cleaning.options import CleaningOptions, RepairOptions
from proreus.data.cleaning.pipeline import Cleaning, clean
from proreus.model.errors import InputError
from tests.oracles.cleaning import clean_requests

DROPPING = RepairOptions(clock="drop", longest_gap=1e6, most_dropped=1.0)
_AMOUNT = st.integers(0, 4000).map(lambda n: str(n / 8))
_BAD = st.sampled_from(["", "nan", "inf", "-inf", "many", "-1", "-0.5"])


@st.composite
def dirty_logs(draw: st.DrawFn) -> list[str]:
    """Lines with time, service, cpu and mem; most of them sound, in coarse time so that rows coincide."""
    time = 10_000
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 60))):
        time += draw(st.sampled_from([0, 0, 1, 5, 40, 120, 700]))
        back = draw(st.sampled_from([0, 0, 0, 0, 3, 60, 61, 400]))
        cells = [str(max(0, time - back)), draw(st.sampled_from(["a", "b"])), draw(_AMOUNT), draw(_AMOUNT)]
        match draw(st.integers(0, 11)):
            case 0:
                cells[draw(st.integers(2, 3))] = draw(_BAD)
            case 1:
                cells[draw(st.integers(0, 1))] = ""
            case 2:
                cells = cells[: draw(st.integers(2, 3))]
            case 3 if lines:
                cells = lines[-1].split(",")
            case _:
                pass
        lines.append(",".join(cells))
    return lines


def outcome(lines: list[str], options: CleaningOptions, block_bytes: int) -> dict[str, Any]:
    """All that a cleaning says, or the fact that it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_text("time,service,cpu,mem\n" + "\n".join(lines) + "\n")
        cleaning = Cleaning(LogFile(path, block_bytes), options)
        rows: list[tuple[Any, ...]] = []
        windows: list[tuple[Any, ...]] = []
        try:
            for part in cleaning.parts():
                for piece in part.windows:
                    windows += zip(*(column.tolist() for column in piece), strict=True)
                columns = (part.rows.line, part.rows.time, part.pod, part.rows.cpu, part.rows.mem)
                rows += zip(*(column.tolist() for column in columns), strict=True)
        except InputError:
            return {"refused": True}
        report = cleaning.report.as_json()
        del report["file"]
        return {"rows": rows, "windows": windows, "report": report, "names": cleaning.pod_names()}


@settings(max_examples=80)
@given(dirty_logs(), st.integers(1, 3), st.sampled_from([1, 40, 300]))
def test_a_request_log_is_cleaned_as_the_plain_reference_cleans_it(
    lines: list[str], pods: int, block_bytes: int
) -> None:
    expected = clean_requests(lines, pods)
    result = outcome(lines, CleaningOptions(kind="requests", pods=pods, repairs=DROPPING), block_bytes)
    if "refused" in result:
        assert not expected.windows
        return
    names = result["names"]
    windows = {
        (start // 1_000_000, names[pod]): (cpu, mem, count)
        for start, pod, cpu, mem, count in result["windows"]
    }
    assert windows == expected.windows
    assert len(result["windows"]) == len(windows)
    requests = defaultdict(list)
    for _, time, pod, cpu, mem in result["rows"]:
        requests[names[pod].rsplit("-", 1)[0]].append((time // 1_000_000, names[pod], cpu, mem))
    assert requests == expected.requests
    dropped = {rule["rule"]: rule["dropped"] for rule in result["report"]["rules"] if rule["dropped"]}
    assert dropped == dict(expected.dropped)


@settings(max_examples=60)
@given(
    dirty_logs(),
    st.integers(1, 400),
    st.sampled_from(["requests", "monitor"]),
    st.sampled_from(["refuse", "rebase", "drop"]),
    st.sampled_from(["fill", "skip", "refuse"]),
)
def test_the_size_of_chunks_does_not_matter(
    lines: list[str], block_bytes: int, kind: Any, clock: Any, gaps: Any
) -> None:
    repairs = RepairOptions(clock=clock, gaps=gaps, units="magnitude", longest_gap=1e6, most_dropped=1.0)
    options = CleaningOptions(kind=kind, repairs=repairs)
    if kind == "monitor":
        options = replace(options, columns=replace(options.columns, pod_column="service"))
    assert outcome(lines, options, block_bytes) == outcome(lines, options, 1 << 20)


@settings(max_examples=40)
@given(dirty_logs(), st.sampled_from(["drop", "zero"]), st.sampled_from(["rebase", "drop"]))
def test_rows_are_conserved_and_values_stay_in_bounds(lines: list[str], bad: Any, clock: Any) -> None:
    repairs = RepairOptions(bad_values=bad, clock=clock, longest_gap=1e6, most_dropped=1.0)
    result = outcome(lines, CleaningOptions(pods=2, repairs=repairs), 512)
    if "refused" in result:
        return
    report = result["report"]
    assert report["rows_in"] == len(lines)
    assert report["rows_in"] == report["rows_out"] + sum(rule["dropped"] for rule in report["rules"])
    assert report["rows_out"] == len(result["rows"]) == sum(window[4] for window in result["windows"])
    assert all(0 <= cpu <= 500 and 0 <= mem <= 500 for _, _, _, cpu, mem in result["rows"])


@settings(max_examples=40)
@given(dirty_logs())
def test_clean_data_is_left_as_it_is(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "log.csv").write_text("time,service,cpu,mem\n" + "\n".join(lines) + "\n")
        options = CleaningOptions(kind="requests", pods=2, repairs=DROPPING)
        try:
            clean(folder / "log.csv", folder / "once", options)
        except InputError:
            return  # nothing sound in it
        strict = CleaningOptions(kind="requests", repairs=RepairOptions(strict=True, longest_gap=1e6))
        report = clean(folder / "once" / "requests.csv", folder / "twice", strict)
        assert report.rows_dropped == 0
        once, twice = (sorted(_table(folder / n / "requests.csv")) for n in ("once", "twice"))
        assert once == twice
        busy = [
            sorted(row for row in _table(folder / n / "windows.csv") if row[-1] != "0")
            for n in ("once", "twice")
        ]
        assert busy[0] == busy[1]


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=60),
    st.data(),
    st.sampled_from([1, 40, 1 << 20]),
)
def test_one_spike_costs_one_row_wherever_it_is(steps: list[int], data: st.DataObject, block: int) -> None:
    times = [10_000 + sum(steps[: i + 1]) for i in range(len(steps))]
    at = data.draw(st.integers(1, len(times) - 2))
    lines = [f"{time},a,1,{i}" for i, time in enumerate(times)]
    without = [line for i, line in enumerate(lines) if i != at]
    ahead = max(times[at - 1], times[at + 1]) + data.draw(st.integers(121, 100_000))
    lines[at] = f"{ahead},a,1,{at}"
    options = CleaningOptions(kind="requests", repairs=DROPPING)
    result = outcome(lines, options, block)
    assert result["report"]["rows_dropped"] == 1
    clean_ones = outcome(without, options, block)
    # Line numbers apart, the rest is as if the row had never been.
    assert [row[1:] for row in result["rows"]] == [row[1:] for row in clean_ones["rows"]]
    assert result["windows"] == clean_ones["windows"]
    rebasing = CleaningOptions(kind="requests", repairs=RepairOptions(clock="rebase"))
    moved = {line: time // 1_000_000 for line, time, *_ in outcome(lines, rebasing, block)["rows"]}
    assert moved.pop(at + 2) == times[at - 1]
    assert moved == {i + 2: time for i, time in enumerate(times) if i != at}


def test_a_window_stays_open_for_late_rows_whatever_the_chunks() -> None:
    lines = ["1490,a,1,1", "1510,a,2,2", "1480,a,4,4", "1570,a,8,8"]
    for block_bytes in (1, 11, 1 << 20):
        windows = outcome(lines, CleaningOptions(kind="requests"), block_bytes)["windows"]
        assert [(start // 1_000_000, cpu) for start, _, cpu, _, _ in windows] == [(1200, 5.0), (1500, 10.0)]


def test_a_strict_cleaning_refuses_what_another_repairs() -> None:
    lines = ["1000,a,1,1", "990,a,1,1"]
    assert "refused" not in outcome(lines, CleaningOptions(), 64)
    assert "refused" in outcome(lines, CleaningOptions(repairs=RepairOptions(strict=True)), 64)


def _table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))
