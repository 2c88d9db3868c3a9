"""Nodes as text: a line a node, a bar for its CPU and one for its memory, and the pods on it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from proreus.contract.text_bars import MOST_LINES, cpu_and_memory
from proreus.worlds.rebalance.windows.simulation.world import WindowsWorld


def node_lines(world: WindowsWorld, moved: Collection[int] = ()) -> list[str]:
    """How full each node was by the last window, and its pods with the CPU they asked for; `moved`: pods."""
    asked, names = world.asked(), world.windows.deployment
    widest = max(map(len, names.node_names))
    lines = []
    for node, name in enumerate(names.node_names[:MOST_LINES]):
        here = np.flatnonzero(world.hosting.where == node)
        cpu, memory = (asked[here].sum(axis=0) / world.hosting.capacity[node]).tolist()
        hot = "!" if max(cpu, memory) > world.options.threshold else " "
        bars = cpu_and_memory((cpu, memory), (f"{cpu:>5.0%}", f"{memory:>5.0%}"))
        pods = (
            f"{names.pod_names[p]} {_short(asked[p, 0])}{'*' if p in moved else ''}" for p in here.tolist()
        )
        lines.append(f"{name:>{widest}} {bars} {hot} {', '.join(pods)}".rstrip())
    if len(names.node_names) > MOST_LINES:
        lines.append(f"{'':>{widest}} ... and {len(names.node_names) - MOST_LINES} more nodes")
    lines.append(f"{'':>{widest}} pods with the CPU they asked for; * moved now; ! above the threshold")
    return lines


def _short(amount: float) -> str:
    return f"{amount:.0f}" if amount >= 1.0 else f"{amount:.2g}"
