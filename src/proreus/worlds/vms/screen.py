"""Servers as text: a line a server, a bar for the cores and one for the memory of each NUMA node."""

from __future__ import annotations

import numpy as np

from proreus.cluster.servers import I32, UNITS

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 12
MOST_LINES = 40


def bar(share: float, width: int = _WIDTH) -> str:
    """A share from 0 to 1 as a bar, to an eighth of a sign."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def server_lines(capacity: I32, free: I32, open_servers: int, chosen: int = -1) -> list[str]:
    """A line for each open server of capacity and free, int32[N, 2, 2]; `chosen`: the last place taken."""
    lines = []
    for server in range(min(open_servers, MOST_LINES)):
        used = 1.0 - free[server] / np.maximum(capacity[server], 1)
        parts = []
        for numa in range(2):
            mark = "→" if chosen == 2 * server + numa else " "
            cores, memory = (free[server, numa] / UNITS).tolist()
            cpu_bar, mem_bar = (bar(float(share)) for share in used[numa])
            parts.append(f"{mark}cpu ▕{cpu_bar}▏{cores:>5.4g}  mem ▕{mem_bar}▏{memory:>5.4g}")
        lines.append(f"{server:>4} {parts[0]}  {parts[1]}")
    if open_servers > MOST_LINES:
        lines.append(f"     ... and {open_servers - MOST_LINES} more servers")
    return lines
