"""Traces as rows of the tables that readers read."""

from __future__ import annotations

import numpy as np

from proreus.worlds.vms.model import VmTrace


def event_rows(trace: VmTrace) -> list[tuple[int, float, float, float, int]]:
    """The trace as rows of an event table: vmid, cpu, memory, time, type."""
    ends = trace.arrival + trace.lifetime
    rows = []
    for event in trace.events.tolist():
        machine = event if event >= 0 else -1 - event
        moment = trace.arrival[machine] if event >= 0 else ends[machine]
        rows.append(
            (machine, float(trace.cpu[machine]), float(trace.mem[machine]), float(moment), int(event < 0))
        )
    return rows


def lifetime_rows(trace: VmTrace) -> list[tuple[int, float, float, float, float]]:
    """The trace as rows of a lifetime table: vmid, cpu, mem, at, lt; machines that never end are left out."""
    kept = np.flatnonzero(np.isfinite(trace.lifetime)).tolist()
    return [
        (
            place,
            float(trace.cpu[machine]),
            float(trace.mem[machine]),
            float(trace.arrival[machine]),
            float(trace.lifetime[machine]),
        )
        for place, machine in enumerate(kept)
    ]
