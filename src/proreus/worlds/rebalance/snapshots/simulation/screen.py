"""A snapshot as text: a sign a machine for its fragments, the two machines of the last migration as bars."""

from __future__ import annotations

import numpy as np

from proreus.contract.text_bars import MOST_LINES, cpu_and_memory
from proreus.worlds.rebalance.snapshots.model import NUMA_NODES, Snapshot
from proreus.worlds.rebalance.snapshots.state import Machines, fragment_shares

_EIGHTHS = "·▁▂▃▄▅▆▇█"
_SIGNS_A_LINE = 100


def machine_lines(snapshot: Snapshot, machines: Machines, source: int = -1, target: int = -1) -> list[str]:
    """Every machine as a sign, the more of its cores are fragments the taller; where a migration led."""
    shares = fragment_shares(machines).mean(axis=1)
    signs = "".join(_EIGHTHS[level] for level in np.ceil(shares * 8).astype(int).tolist())
    lines = [signs[at : at + _SIGNS_A_LINE] for at in range(0, len(signs), _SIGNS_A_LINE)]
    if len(lines) > MOST_LINES:
        rest = len(signs) - MOST_LINES * _SIGNS_A_LINE
        lines[MOST_LINES:] = [f"... and {rest:,} more machines"]
    if source >= 0:
        lines += [_bars(snapshot, machines, source, "from"), _bars(snapshot, machines, target, "to")]
    return lines


def _bars(snapshot: Snapshot, machines: Machines, machine: int, mark: str) -> str:
    free, total = machines.free[machine], snapshot.total[machine]
    parts = []
    for numa in range(NUMA_NODES):
        cpu, memory = (1.0 - free[numa] / np.maximum(total[numa], 1)).tolist()
        cores, mib = free[numa].tolist()
        parts.append(cpu_and_memory((cpu, memory), (f"{cores:>5.4g}", f"{mib / 1024:>5.4g}")))
    return f"{mark:>4} {snapshot.machines[machine]:<8} {parts[0]}   {parts[1]}"
