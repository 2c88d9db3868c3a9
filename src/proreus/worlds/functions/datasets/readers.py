"""Recorded requests: Azure Functions 2019 and 2021, and any table of requests or of rows.

What a recording does not tell (the CPU and I/O of a function, its cold starts) is drawn as the generator
draws it, by the seed of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from proreus.data.table import TableRow, read_filled_table, shown
from proreus.data.text_file import read_lines
from proreus.kernels.arrays import F64, I32, I64
from proreus.model.errors import InputError, UsageError
from proreus.worlds.functions.datasets.profiles import draw_cold, draw_profile, draw_seconds
from proreus.worlds.functions.datasets.rows import OPTIONAL, REQUIRED
from proreus.worlds.functions.model import MOST_REQUESTS, Demand

INVOCATIONS, DURATIONS, MEMORY = "invocations.csv", "durations.csv", "memory.csv"
"""The files of a folder in the form of Azure 2019."""
_MINUTES = 1_440
_PERCENTILES = ("0", "1", "25", "50", "75", "99", "100")
_MEMORIES = ("pct1", "pct5", "pct25", "pct50", "pct75", "pct95", "pct99", "pct100")
_KEYS = ("HashOwner", "HashApp", "HashFunction")


@dataclass(frozen=True, eq=False)
class RequestRecording:
    """What was recorded: when which function was asked, and what is known of it."""

    names: tuple[str, ...]
    standard: F64
    """[F] seconds on average."""
    memory: I64
    """[F] MB; 0: not recorded."""
    arrival: F64
    """[R] in order."""
    function: I32
    """[R]"""
    seconds: F64
    """[R]; empty: drawn around the standard."""
    minutes: I64
    """[F, M] requests of each minute, where only those are known; then `arrival` is empty."""

    @property
    def length(self) -> float:
        """Seconds."""
        if self.minutes.size:
            return 60.0 * self.minutes.shape[1]
        return float(self.arrival[-1]) + 1.0

    def window(self, begin: float, end: float, draw: np.random.Generator) -> Demand:
        """The requests from `begin` to `end`."""
        arrival, function, seconds = self._requests(begin, end, draw)
        if not arrival.size:
            raise UsageError(f"nothing was recorded from {begin:g} to {end:g} s")
        drawn = [draw_profile(draw, number, 1e-4) for number in range(len(self.names))]
        functions = tuple(
            replace(
                profile.function,
                name=name,
                standard=float(standard),
                memory=int(memory) or profile.function.memory,
            )
            for profile, name, standard, memory in zip(
                drawn, self.names, self.standard, self.memory, strict=True
            )
        )
        cold = np.empty(arrival.size)
        for number, one in enumerate(drawn):
            mine = function == number
            cold[mine] = draw_cold(draw, one.cold, int(mine.sum()))
        return Demand(functions, arrival - begin, function, seconds, cold, end - begin)

    def _requests(self, begin: float, end: float, draw: np.random.Generator) -> tuple[F64, I32, F64]:
        if not self.minutes.size:
            inside = (self.arrival >= begin) & (self.arrival < end)
            return self.arrival[inside], self.function[inside], self.seconds[inside]
        first, last = int(begin // 60), int(np.ceil(end / 60))
        counts = self.minutes[:, first:last]
        if counts.sum() > MOST_REQUESTS:
            raise UsageError(f"more than {MOST_REQUESTS:,} requests from {begin:g} to {end:g} s")
        number, minute = (
            np.repeat(found, counts.ravel()) for found in np.indices(counts.shape).reshape(2, -1)
        )
        arrival = 60.0 * (first + minute) + 60.0 * draw.random(number.size)
        order = np.argsort(arrival, kind="stable")
        arrival, function = arrival[order], number[order].astype(np.int32)
        inside = (arrival >= begin) & (arrival < end)
        arrival, function = arrival[inside], function[inside]
        seconds = np.array([float(draw_seconds(draw, self.standard[one], 1)[0]) for one in function])
        return arrival, function, seconds


def read_azure_2021(path: Path) -> RequestRecording:
    """app,func,end_timestamp,duration: one row for each invocation, in seconds."""
    rows = read_filled_table(path, required=("app", "func", "end_timestamp", "duration"))
    seconds = np.array([row.number("duration") for row in rows])
    arrival = np.array([row.number("end_timestamp") for row in rows]) - seconds
    return _of_requests([row.text("func") for row in rows], arrival, seconds)


def read_azure_2019(folder: Path) -> RequestRecording:
    """Invocations a minute, from the first to the last, with times (ms) and memory (MB) of every function."""
    keys = (*_KEYS, "Trigger")
    minutes = [str(minute) for minute in range(1, _MINUTES + 1)]
    rows = read_filled_table(folder / INVOCATIONS, required=(*keys, *minutes))
    counts = np.array([[row.integer(minute, maximum=10**9) for minute in minutes] for row in rows])
    lasting = _by_function(
        folder / DURATIONS,
        "Average",
        ("Count", "Minimum", "Maximum", *(f"percentile_Average_{one}" for one in _PERCENTILES)),
    )
    memory = _by_function(
        folder / MEMORY,
        "AverageAllocatedMb",
        ("SampleCount", *(f"AverageAllocatedMb_{one}" for one in _MEMORIES)),
    )
    names = [row.text("HashFunction") for row in rows]
    for row, name in zip(rows, names, strict=True):
        if name not in lasting:
            raise row.fail("HashFunction", f"{shown(name)} is not in {DURATIONS}")
    asked = np.flatnonzero(counts.sum(axis=0))
    if not asked.size:
        raise InputError("nothing was invoked", file=folder / INVOCATIONS)
    return RequestRecording(
        tuple(name[:12] for name in names),
        np.array([max(lasting[name] / 1_000, 1e-3) for name in names]),
        np.array([round(memory.get(name, 0.0)) for name in names], dtype=np.int64),
        np.zeros(0),
        np.zeros(0, dtype=np.int32),
        np.zeros(0),
        counts[:, asked[0] : asked[-1] + 1],
    )


def _by_function(path: Path, column: str, others: Sequence[str]) -> dict[str, float]:
    rows = read_filled_table(path, required=(*_KEYS, column), optional=others)
    return {row.text("HashFunction"): row.number(column) for row in rows}


def read_requests(path: Path) -> RequestRecording:
    """arrival,function,duration: one row for each request, in seconds."""
    rows = read_filled_table(path, required=("arrival", "function", "duration"))
    seconds = np.array([row.number("duration") for row in rows])
    return _of_requests(
        [row.text("function") for row in rows], np.array([row.number("arrival") for row in rows]), seconds
    )


def _of_requests(labels: Sequence[str], arrival: F64, seconds: F64) -> RequestRecording:
    names, number = np.unique(labels, return_inverse=True)
    order = np.argsort(arrival, kind="stable")
    mean = np.array([max(float(seconds[number == one].mean()), 1e-3) for one in range(names.size)])
    return RequestRecording(
        tuple(str(name)[:12] for name in names),
        mean,
        np.zeros(names.size, dtype=np.int64),
        arrival[order] - min(float(arrival.min()), 0.0),
        number[order].astype(np.int32),
        seconds[order],
        np.zeros((0, 0), dtype=np.int64),
    )


def read_recording(path: Path) -> RequestRecording:
    """A folder as of Azure 2019, or a table whose header says what it is."""
    if path.is_dir():
        return read_azure_2019(path)
    header = _header(path)
    return read_azure_2021(path) if "end_timestamp" in header else read_requests(path)


def is_rows(path: Path) -> bool:
    """Whether a file holds rows to place, and not requests."""
    return not path.is_dir() and set(REQUIRED) <= set(_header(path))


def read_rows(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a table with the document's columns."""
    filled_table = read_filled_table(path, required=REQUIRED, optional=OPTIONAL)
    return [_row(table_row) for table_row in filled_table]


def _row(row: TableRow) -> Mapping[str, Any]:
    numbers = {
        name: row.number(name)
        for name in (*REQUIRED, *OPTIONAL)
        if name != "function" and row.optional_text(name)
    }
    label = row.optional_text("function")
    return {**numbers, "function": label} if label else numbers


def _header(path: Path) -> list[str]:
    lines = read_lines(path)
    first = next(iter(lines), None)
    if first is None:
        raise InputError("the file is empty", file=path)
    return [name.strip() for name in first.split(",")]
