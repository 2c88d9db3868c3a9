"""`proreus bench clean`: how fast, and in how much memory, a log of ten million rows is cleaned.

Each cleaning runs as its own `proreus data clean`, so that its memory is its own. The peer reads a part of
the same file with the csv module and sums the same windows, without any check; its sums must be ours.
Rates are per second of processor time, which other work on the machine blurs less than the clock.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import operator
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from proreus.contract.benchmark import BenchRow, claim
from proreus.model.errors import WorkError

ROWS = 10_000_000
RATE_GOAL = 300_000.0
"""Rows per second of processor time: both run on one core."""
MEMORY_GOAL = 300.0
"""MiB at the most, whatever the length of the file."""
_PEER_ROWS = 500_000
_PODS = 50
_PER_SECOND = 200
_WINDOW = 300
_BLOCK = 100_000
_WIDEST_DIFFERENCE = 1e-9


def write_log(path: Path, rows: int) -> None:
    """A clean log of `rows` requests of fifty pods, two hundred a second, times in milliseconds' steps."""
    rng = np.random.default_rng(0)
    cpu = rng.integers(1, 400, _BLOCK) / 100
    mem = rng.integers(1, 4096, _BLOCK) * 2**20
    pods = rng.integers(0, _PODS, _BLOCK)
    tails = [f",pod-{p},{c},{m}\n" for p, c, m in zip(pods, cpu, mem, strict=True)]
    with path.open("w") as file:
        file.write("time,pod,cpu,mem\n")
        for begin in range(0, rows, _BLOCK):
            count = min(_BLOCK, rows - begin)
            times = ((np.arange(begin, begin + count) / _PER_SECOND) + 1_600_000_000).tolist()
            file.write("".join(map(operator.add, map(repr, times), tails)))


def bench_clean(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """The rows of the benchmark; the log is generated, so no data folder is needed."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        tell(f"writing a log of {ROWS:,} rows")
        write_log(log, ROWS)
        tell(f"a csv-module reader over the first {_PEER_ROWS:,} rows")
        peer_rate, expected = plain_windows(log, _PEER_ROWS)
        tell(f"cleaning {ROWS:,} rows into windows")
        account = _clean(log, Path(folder) / "windows", "--no-requests")
        _check(Path(folder) / "windows" / "windows.csv", expected)
        rate = account["rows_in"] / account["cpu_seconds"]
        peer = (peer_rate, f"csv module, no checks, {_PEER_ROWS:,} rows")
        yield claim("rows cleaned into windows", "rows/CPU-s", rate, goal=RATE_GOAL, peer=peer)
        yield claim("peak memory, windows", "MiB", account["peak_mib"], goal=MEMORY_GOAL, better="lower")
        tell(f"cleaning {ROWS:,} rows into windows and requests")
        account = _clean(log, Path(folder) / "all", "--requests")
        rate = account["rows_in"] / account["cpu_seconds"]
        yield claim("rows cleaned into windows and requests", "rows/CPU-s", rate, goal=RATE_GOAL)
        yield claim(
            "peak memory, windows and requests", "MiB", account["peak_mib"], goal=MEMORY_GOAL, better="lower"
        )


def plain_windows(path: Path, rows: int) -> tuple[float, dict[tuple[int, str], tuple[float, int]]]:
    """(rows per CPU-second, {(window, pod): (cpu, requests)}) of the first rows, less the last window."""
    begin = time.process_time()
    sums: dict[tuple[int, str], list[float]] = {}
    window = 0
    with path.open(newline="") as file:
        for row in itertools.islice(csv.DictReader(file), rows):
            window = int(float(row["time"]) // _WINDOW) * _WINDOW
            total = sums.setdefault((window, row["pod"]), [0.0, 0.0, 0])
            total[0] += float(row["cpu"])
            total[1] += float(row["mem"])
            total[2] += 1
    rate = rows / (time.process_time() - begin)
    return rate, {key: (cpu, int(count)) for key, (cpu, _, count) in sums.items() if key[0] != window}


def _clean(log: Path, out: Path, requests: str) -> dict[str, Any]:
    account = out.with_suffix(".json")
    words = ["data", "clean", str(log), "--out", str(out), "--json", str(account), requests]
    done = subprocess.run(
        [sys.executable, "-m", "proreus", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WorkError(f"the cleaning failed: {done.stderr.strip()}")
    loaded: dict[str, Any] = json.loads(account.read_text())
    return loaded


def _check(windows: Path, expected: dict[tuple[int, str], tuple[float, int]]) -> None:
    """Our windows are those of the peer."""
    unseen = dict(expected)
    with windows.open(newline="") as file:
        for row in csv.DictReader(file):
            peer_window = unseen.pop((int(row["window_start"]), row["pod"]), None)
            if peer_window is None:
                continue
            cpu, requests = peer_window
            if int(row["requests"]) != requests or not math.isclose(
                float(row["cpu"]), cpu, rel_tol=_WIDEST_DIFFERENCE
            ):
                raise WorkError(f"window {row['window_start']} of {row['pod']} differs from the peer's")
    if unseen:
        raise WorkError(f"{len(unseen)} windows of the peer are missing")
