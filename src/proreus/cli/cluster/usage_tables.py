"""Measured use in lines no wider than a terminal: numbers, shares, and a curve of the past."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

Row = Mapping[str, Any]
TREND_POINTS = 15
"""Characters of a curve: one for each minute of the last quarter of an hour."""
_STEPS = "▁▂▃▄▅▆▇█"
_GAP = 2
_LEAST_NAME = 12
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


@dataclass(frozen=True)
class Column:
    """A head, what stands below it, and from which width of the terminal on it is shown."""

    head: str
    text: Callable[[Row], str]
    right: bool = True
    from_width: int = 0
    known: Callable[[Row], bool] = lambda row: True
    """It is shown where this is so of any row."""


def curve(values: Sequence[int], top: int = 0) -> str:
    """A line of bars, one a value; a full one is `top`, or the largest of them where that is more."""
    most = max([top, *values], default=0)
    if most <= 0:
        return _STEPS[0] * len(values)
    return "".join(_STEPS[min(len(_STEPS) - 1, value * len(_STEPS) // most)] for value in values)


def cores(milli: int) -> str:
    """As `kubectl top` has it."""
    return f"{milli}m" if milli < 100_000 else f"{milli / 1000:.0f}"


def size(amount: int | None) -> str:
    """Bytes in three or four digits; "-": not known."""
    if amount is None:
        return "-"
    value, unit = float(amount), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f}{_UNITS[unit]}" if value >= 10 or not unit else f"{value:.1f}{_UNITS[unit]}"


def share(part: int, whole: int) -> str:
    """In per cent; "-" of nothing."""
    return f"{100 * part / whole:.0f}%" if whole > 0 else "-"


def _gpus(row: Row) -> str:
    known = [gpu["busy_percent"] for gpu in row["gpus"] if gpu["busy_percent"] is not None]
    if not row["gpus"]:
        return "-"
    return f"{len(row['gpus'])}x{round(sum(known) / len(known))}%" if known else f"{len(row['gpus'])}x?"


def _gpu_memory(row: Row) -> str:
    known = [gpu["memory_bytes"] for gpu in row["gpus"] if gpu["memory_bytes"] is not None]
    return size(sum(known)) if known else "-"


NODES = (
    Column("NODE", lambda row: row["name"], right=False),
    Column("CPU", lambda row: cores(row["cpu_milli"])),
    Column("CPU%", lambda row: share(row["cpu_milli"], row["allocatable"]["cpu_milli"])),
    Column("REQ%", lambda row: share(row["requested"]["cpu_milli"], row["allocatable"]["cpu_milli"])),
    Column("MEMORY", lambda row: size(row["memory_bytes"])),
    Column("MEM%", lambda row: share(row["memory_bytes"], row["allocatable"]["memory_bytes"])),
    Column("REQ%", lambda row: share(row["requested"]["memory_bytes"], row["allocatable"]["memory_bytes"])),
    Column("PODS", lambda row: str(row["pods"])),
    Column("GPU", _gpus, from_width=90),
    Column("DISK", lambda row: size(row["disk_bytes"]), from_width=100),
    Column("READ/S", lambda row: size(row["disk_read_per_second"]), from_width=130),
    Column("WRITE/S", lambda row: size(row["disk_written_per_second"]), from_width=130),
    Column("RX/S", lambda row: size(row["received_per_second"]), from_width=110),
    Column("TX/S", lambda row: size(row["sent_per_second"]), from_width=110),
    Column(
        "CPU, 15 MIN",
        lambda row: curve(row["cpu_milli_trend"], row["allocatable"]["cpu_milli"]),
        right=False,
    ),
)
PODS = (
    Column("POD", lambda row: row["name"], right=False),
    Column("NODE", lambda row: row["node"], right=False),
    Column("CPU", lambda row: cores(row["cpu_milli"])),
    Column("REQ%", lambda row: share(row["cpu_milli"], row["requested"]["cpu_milli"])),
    Column("MEMORY", lambda row: size(row["memory_bytes"])),
    Column("REQ%", lambda row: share(row["memory_bytes"], row["requested"]["memory_bytes"])),
    Column("DISK", lambda row: size(row["disk_bytes"]), from_width=90),
    Column("GPU", _gpus, from_width=90, known=lambda row: bool(row["gpus"])),
    Column("GPU MEM", _gpu_memory, from_width=90, known=lambda row: bool(row["gpus"])),
    Column("RX/S", lambda row: size(row["received_per_second"]), from_width=110),
    Column("TX/S", lambda row: size(row["sent_per_second"]), from_width=110),
    Column(
        "CPU, 15 MIN",
        lambda row: curve(row["cpu_milli_trend"], row["requested"]["cpu_milli"]),
        right=False,
    ),
)
NAMESPACE = Column("NAMESPACE", lambda row: row["namespace"], right=False)


def lines(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[str]:
    """A table of which every line is at most so wide: names are cut before numbers are."""
    shown = [
        column
        for column in columns
        if column.from_width <= width and (not rows or any(column.known(row) for row in rows))
    ]
    cells = [[column.head for column in shown], *([column.text(row) for column in shown] for row in rows)]
    widths = [max(cell_len(line[place]) for line in cells) for place in range(len(shown))]
    _narrow(widths, [place for place, column in enumerate(shown) if not column.right][:-1], width)
    return [
        (" " * _GAP)
        .join(
            _fitted(text, room, right=column.right)
            for text, room, column in zip(line, widths, shown, strict=True)
        )
        .rstrip()
        for line in cells
    ]


def _narrow(widths: list[int], names: Iterable[int], width: int) -> None:
    """Take from the widest of the columns of names what is too much."""
    places = list(names)
    while sum(widths) + _GAP * (len(widths) - 1) > width:
        widest = max(places, key=lambda place: widths[place])
        if widths[widest] <= _LEAST_NAME:
            return
        widths[widest] -= 1


def _fitted(text: str, room: int, *, right: bool) -> str:
    if cell_len(text) > room:
        text = text[: room - 1] + "…"
    space = " " * (room - cell_len(text))
    return space + text if right else text + space
