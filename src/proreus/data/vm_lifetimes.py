"""The lifetime table of virtual machines that SPANE derived from Huawei-East-1: one row per machine.

Several worlds read it: as machines that come and go, and as a stream of requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from proreus.data.table import TableRow, read_filled_table
from proreus.kernels.arrays import F64

LIFETIME_COLUMNS = ("vmid", "cpu", "mem", "at", "lt")
MOST = 1_000_000.0
"""Cores or GB that one machine may have."""
_LEAST = 0.001


class Lifetimes(NamedTuple):
    """Machines in order of arrival."""

    cpu: F64
    """[V] cores."""
    mem: F64
    """[V] GB."""
    arrival: F64
    """[V] seconds, never falling."""
    lifetime: F64
    """[V] seconds."""


def read_lifetimes(path: Path) -> Lifetimes:
    """The machines of a lifetime table, in its order, which must be that of arrival."""
    rows = read_filled_table(path, required=LIFETIME_COLUMNS)
    seen: set[str] = set()
    cpu, mem, arrival, lifetime = np.zeros((4, len(rows)))
    for place, row in enumerate(rows):
        vmid = row.text("vmid")
        if vmid in seen:
            raise row.fail("vmid", f"the machine {vmid!r} appears twice")
        seen.add(vmid)
        cpu[place], mem[place] = machine_amount(row, "cpu"), machine_amount(row, "mem")
        arrival[place], lifetime[place] = row.number("at"), row.number("lt")
        if place and arrival[place] < arrival[place - 1]:
            raise row.fail("at", "earlier than the row before: the table must be in order of arrival")
    return Lifetimes(cpu, mem, arrival, lifetime)


def machine_amount(row: TableRow, column: str) -> float:
    """Cores or GB of a machine."""
    value = row.number(column, minimum=_LEAST)
    if value > MOST:
        raise row.fail(column, f"{value:g} is above {MOST:,.0f}")
    return value
