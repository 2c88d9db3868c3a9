"""Readers of virtual machine traces: Huawei's event table, the lifetime table derived from it, start indices.

The event table (VMAgent, Huawei-East-1.csv) has one row per creation (type 0) and deletion (type 1); the
lifetime table (SPANE) one row per machine. Both become a `VmTrace`. Training, validation and test starts
come from parts of the trace that never overlap, and `run_end` says where a run from such a start ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from proreus.data.table import read_filled_table
from proreus.data.text_file import read_lines
from proreus.data.vm_lifetimes import machine_amount, read_lifetimes
from proreus.kernels.arrays import I64
from proreus.model.errors import InputError, UsageError
from proreus.worlds.vms.model import VmTrace, events_of

Split = Literal["train", "valid", "test"]

EVENT_COLUMNS = ("vmid", "cpu", "memory", "time", "type")
SPLITS: dict[Split, tuple[int, int]] = {
    "train": (0, 50_000),
    "valid": (50_000, 70_000),
    "test": (70_000, 110_000),
}
"""Machines of the lifetime table at which runs may start, as published with SPANE."""


def read_events(path: Path) -> VmTrace:
    """The machines of an event table; the events keep the order of its rows."""
    rows = read_filled_table(path, required=EVENT_COLUMNS)
    number: dict[str, int] = {}
    machines: list[tuple[float, float, float]] = []
    events: list[int] = []
    ended: dict[int, float] = {}
    before = -np.inf
    for row in rows:
        moment = row.number("time")
        if moment < before:
            raise row.fail("time", "earlier than the row before: the table must be in order of time")
        before = moment
        vmid = row.text("vmid")
        if row.integer("type", maximum=1) == 0:
            if vmid in number:
                raise row.fail("vmid", f"the machine {vmid!r} is created twice")
            number[vmid] = len(machines)
            events.append(len(machines))
            machines.append((machine_amount(row, "cpu"), machine_amount(row, "memory"), moment))
        elif vmid in number:
            machine = number[vmid]
            if machine in ended:
                raise row.fail("vmid", f"the machine {vmid!r} is deleted twice")
            ended[machine] = moment
            events.append(-1 - machine)
        # A deletion of a machine that the table never creates concerns nobody: the table is cut from a longer
        # one.
    if not machines:
        raise InputError("no machine is created", file=path)
    cpu, mem, arrival = np.array(machines).T.copy()
    lifetime = np.array([ended.get(place, np.inf) for place in range(len(machines))]) - arrival
    return VmTrace(path.stem, cpu, mem, arrival, lifetime, np.array(events, dtype=np.int32))


def read_trace(path: Path) -> VmTrace:
    """Either table, told apart by its header."""
    if "type" in read_lines(path)[0]:
        return read_events(path)
    machines = read_lifetimes(path)
    return VmTrace(path.stem, *machines, events_of(machines.arrival, machines.lifetime))


def read_starts(path: Path, machines: int) -> I64:
    """Start indices from a .npy file: whole numbers of machines of a trace with so many."""
    try:
        starts = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError("no such file", file=path) from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"not a plain .npy array: {error}", file=path) from None
    if not isinstance(starts, np.ndarray) or starts.ndim != 1 or not np.issubdtype(starts.dtype, np.integer):
        raise InputError("not a list of whole numbers", file=path)
    if not starts.size or starts.min() < 0 or starts.max() >= machines:
        raise InputError(f"starts lie outside 0..{machines - 1}", file=path)
    return starts.astype(np.int64)


def split_range(split: Split, machines: int) -> tuple[int, int]:
    """The machines at which runs of that part may start: [first, last), scaled to shorter traces."""
    if split not in SPLITS:
        raise UsageError(f"there is no part {split!r} of a trace (known: {', '.join(SPLITS)})")
    whole = SPLITS["test"][1]
    first, last = SPLITS[split]
    if machines >= whole:
        return first, last
    return first * machines // whole, max(last * machines // whole, first * machines // whole + 1)


def fifths(split: Split, machines: int) -> tuple[int, int]:
    """[first, last) machine of a part of one's own trace: three fifths, one and one, in order of time."""
    first, last = {"train": (0, 3), "valid": (3, 4), "test": (4, 5)}[split]
    return first * machines // 5, last * machines // 5


def run_end(split: Split, start: int, machines: int) -> int:
    """The machine before which a run of that part ends: the part's border, for the test the trace's end.

    A start beyond the border, which only a user can name, ends with the part in which it lies.
    """
    borders = [split_range(part, machines)[1] for part in ("train", "valid")]
    for border in borders[list(SPLITS).index(split) :]:
        if start < border:
            return border
    return machines
