"""Turns cells into numbers: times into microseconds, amounts with or without a unit into cores and bytes.

A column without faults is read in one go; a column with one is read again cell by cell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from proreus.data.cleaning.options import CpuUnit, MemUnit, TimeUnit
from proreus.data.cleaning.report import CleaningRule

NO_TIME = np.iinfo(np.int64).min
"""Stands for a time that cannot be read."""
_LARGEST_TIME = 2.0**53
"""Microseconds, some 285 years: beyond it a time is no time, and a float no longer counts microseconds."""
_LARGEST_AMOUNT = 2.0**62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_UNIT: dict[TimeUnit, float] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}

GOOD = 0
FAULTS = (CleaningRule.MISSING, CleaningRule.NOT_A_NUMBER, CleaningRule.NOT_FINITE, CleaningRule.NEGATIVE)
"""The fault of an amount by its code, less one."""
_MISSING, _NOT_A_NUMBER, _NOT_FINITE, _NEGATIVE = range(1, 5)

_NOTHING = frozenset(("", "null", "none", "na", "n/a", "-"))
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_AMOUNT = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Z]*)")

# A unit is (factor, divisor): 500m is 500 / 1000 to the last bit, which 500 * 0.001 is not.
Unit = tuple[float, float]
CPU_UNITS: dict[CpuUnit, Unit] = {"cores": (1, 1), "millicores": (1, 1000)}
MEM_UNITS: dict[MemUnit, Unit] = {"bytes": (1, 1), "kib": (2**10, 1), "mib": (2**20, 1), "gib": (2**30, 1)}
CPU_SUFFIXES: dict[str, Unit] = {
    "m": (1, 1e3), "millicores": (1, 1e3), "millicore": (1, 1e3), "u": (1, 1e6), "n": (1, 1e9),
    "c": (1, 1), "core": (1, 1), "cores": (1, 1),
}  # fmt: skip
MEM_SUFFIXES: dict[str, Unit] = {
    "B": (1, 1), "b": (1, 1), "bytes": (1, 1),
    **{p + tail: (10.0**e, 1) for p, e in (("k", 3), ("K", 3), ("M", 6), ("G", 9), ("T", 12))
       for tail in ("", "B")},
    **{p + tail: (2.0**e, 1) for p, e in (("K", 10), ("k", 10), ("M", 20), ("G", 30), ("T", 40))
       for tail in ("i", "iB")},
}  # fmt: skip


class Amounts(NamedTuple):
    """One column of amounts."""

    values: npt.NDArray[np.float64]
    """0 where there is a fault."""
    faults: npt.NDArray[np.int8]
    """`GOOD`, or one more than the place in `FAULTS`."""
    suffixed: npt.NDArray[np.bool_]
    """Which cells had a unit of their own."""


def read_amounts(cells: Sequence[bytes], bare: Unit, suffixes: dict[str, Unit]) -> Amounts:
    """Finite amounts of at least 0, in the base unit; `bare` is the unit of a number without a suffix."""
    count = len(cells)
    faults = np.zeros(count, np.int8)
    suffixed = np.zeros(count, np.bool_)
    values = _plain_numbers(cells)
    if values is None:
        values = np.zeros(count)
        for i, cell in enumerate(cells):
            values[i], faults[i], suffixed[i] = _amount(cell, bare, suffixes)
    elif bare != (1, 1):
        values = values * bare[0] / bare[1]
    good = faults == GOOD
    faults[good & ~(np.abs(values) <= _LARGEST_AMOUNT)] = _NOT_FINITE
    faults[good & (values < 0)] = _NEGATIVE
    values[faults != GOOD] = 0.0
    return Amounts(values + 0.0, faults, suffixed)  # + 0.0 makes a negative zero a plain one


def read_times(cells: Sequence[bytes], unit: TimeUnit) -> npt.NDArray[np.int64]:
    """Microseconds since 1970; `NO_TIME` where a cell is no time in this unit."""
    if unit == "iso":
        return np.array([_iso(cell) for cell in cells], np.int64)
    values = _plain_numbers(cells)
    if values is None:
        values = np.array([_number(cell) for cell in cells], np.float64)
    with np.errstate(over="ignore"):
        micros = np.rint(values * _PER_UNIT[unit])
    readable = np.abs(micros) < _LARGEST_TIME
    return np.where(readable, np.where(readable, micros, 0).astype(np.int64), NO_TIME)


def guess_time_unit(cell: bytes) -> TimeUnit | None:
    """The unit of a first time: ISO 8601, or by its magnitude; None: it is no time at all."""
    value = _number(cell)
    if math.isnan(value):
        return "iso" if _iso(cell) != NO_TIME else None
    for unit, above in (("ns", 1e17), ("us", 1e14), ("ms", 1e11)):
        if value > above:
            return unit  # type: ignore[return-value]
    return "s"


def _plain_numbers(cells: Sequence[bytes]) -> npt.NDArray[np.float64] | None:
    """The cells as floats where Python reads all of them and none in its own way ("1_000", "nan")."""
    try:
        values = np.array(list(map(float, cells)), np.float64)
    except ValueError:
        return None
    if not np.isfinite(values).all() or b"_" in b"".join(cells):
        return None
    return values


def _number(cell: bytes) -> float:
    try:
        return math.nan if b"_" in cell else float(cell)
    except ValueError:
        return math.nan


def _iso(cell: bytes) -> int:
    try:
        moment = datetime.fromisoformat(cell.decode("ascii").strip())
    except ValueError:
        return NO_TIME
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    micros = (moment - _EPOCH) // _MICROSECOND
    return micros if abs(micros) < _LARGEST_TIME else NO_TIME


def _amount(cell: bytes, bare: Unit, suffixes: dict[str, Unit]) -> tuple[float, int, bool]:
    """(value, fault, whether it had a suffix) of one cell."""
    text = cell.decode("utf-8", "replace").strip()
    if text.lower() in _NOTHING:
        return 0.0, _MISSING, False
    if _NO_NUMBER.fullmatch(text):
        return 0.0, _NOT_FINITE, False
    match = _AMOUNT.fullmatch(text)
    if match is None or (match[2] and match[2] not in suffixes):
        return 0.0, _NOT_A_NUMBER, False
    factor, divisor = suffixes[match[2]] if match[2] else bare
    return float(match[1]) * factor / divisor, GOOD, bool(match[2])
