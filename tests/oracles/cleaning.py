"""What the cleaning of a request log should give, row by row in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

WINDOW = 300
LATE = 60


@dataclass
class Expected:
    """The windows and requests of a log, and the rows dropped by rule."""

    windows: dict[tuple[int, str], tuple[float, float, int]] = field(default_factory=dict)
    requests: dict[str, list[tuple[int, str, float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By service, in order: (time, pod, cpu, mem)."""
    dropped: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def clean_requests(lines: Sequence[str], pods: int) -> Expected:
    """Lines `time,service,cpu,mem`; bad values dropped, late rows sorted, jumps dropped, gaps filled."""
    expected = Expected()
    kept: dict[str, list[tuple[int, int, float, float, str]]] = defaultdict(list)
    latest: dict[str, int] = {}
    sound: list[tuple[int, list[str], str]] = []
    for position, line in enumerate(lines):
        cells = line.split(",")
        fault = _fault(cells)
        if fault:
            expected.dropped[fault] += 1
        else:
            sound.append((position, cells, line))
    for place, (position, cells, line) in enumerate(sound):
        time, service = int(cells[0]), cells[1]
        following = next((int(other[0]) for _, other, _ in sound[place + 1 :] if other[1] == service), None)
        if _is_spike(latest.get(service), time, following):
            expected.dropped["clock spike"] += 1
            continue
        if time < latest.get(service, time) - LATE:
            expected.dropped["clock jump"] += 1
            continue
        latest[service] = max(time, latest.get(service, time))
        kept[service].append((time, position, float(cells[2]), float(cells[3]), line))
    for service, rows in kept.items():
        seen: set[str] = set()
        turn = 0
        for time, _, cpu, mem, line in sorted(rows):
            if line in seen:
                expected.dropped["duplicate"] += 1
                continue
            seen.add(line)
            pod = f"{service}-{turn % pods}"
            turn += 1
            expected.requests[service].append((time, pod, cpu, mem))
        _sum(expected, service, pods)
    return expected


def _is_spike(before: int | None, time: int, after: int | None) -> bool:
    """A leap ahead after which time is back where it was, or nearer to that than to the leap."""
    if before is None or after is None:
        return False
    ahead, back = time > before + LATE, time - LATE > after >= before - LATE
    return ahead and back and after - before <= time - after


def _fault(cells: Sequence[str]) -> str:
    if len(cells) != 4:
        return "cells"
    if not cells[0].isdigit():
        return "time"
    if not cells[1]:
        return "name"
    for cell in cells[2:]:
        if not cell:
            return "missing"
        if cell in ("nan", "inf", "-inf"):
            return "not finite"
        if cell == "many":
            return "not a number"
        if float(cell) < 0:
            return "negative"
    return ""


def _sum(expected: Expected, service: str, pods: int) -> None:
    rows = expected.requests[service]
    first, last = rows[0][0] // WINDOW, rows[-1][0] // WINDOW
    for window in range(first, last + 1):
        for place in range(pods):
            pod = f"{service}-{place}"
            own = [row for row in rows if row[0] // WINDOW == window and row[1] == pod]
            cpu, mem = 0.0, 0.0
            for _, _, more_cpu, more_mem in own:
                cpu, mem = cpu + more_cpu, mem + more_mem
            expected.windows[window * WINDOW, pod] = (cpu, mem, len(own))
