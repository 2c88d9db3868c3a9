"""Servers as text: a line a server, a bar for the cores and one for the memory of each NUMA node."""

from __future__ import annotations

import numpy as np

from proreus.contract.text_bars import MOST_LINES, cpu_and_memory
from proreus.kernels.arrays import I32
from proreus.worlds.vms.state.servers import UNITS


def server_lines(capacity: I32, free: I32, open_servers: int, chosen: int = -1) -> list[str]:
    """A line for each open server of capacity and free, int32[N, 2, 2]; `chosen`: the last place taken."""
    lines = []
    for server in range(min(open_servers, MOST_LINES)):
        used = 1.0 - free[server] / np.maximum(capacity[server], 1)
        parts = []
        for numa in range(2):
            mark = "→" if chosen == 2 * server + numa else " "
            cores, memory = (free[server, numa] / UNITS).tolist()
            cpu_share, mem_share = used[numa].tolist()
            bars = cpu_and_memory((cpu_share, mem_share), (f"{cores:>5.4g}", f"{memory:>5.4g}"))
            parts.append(f"{mark}{bars}")
        lines.append(f"{server:>4} {parts[0]}  {parts[1]}")
    if open_servers > MOST_LINES:
        lines.append(f"     ... and {open_servers - MOST_LINES} more servers")
    return lines
