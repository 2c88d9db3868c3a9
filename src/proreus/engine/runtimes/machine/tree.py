"""What processes use where no cgroup counts it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from proreus.engine.runtimes.machine.cgroups import Spent

_TICK = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree_spent(processes: Iterable[int]) -> Spent | None:
    """Together; what has ended is counted with whoever waited for it. None where there is none."""
    cpu = memory = found = 0
    for pid in processes:
        try:
            fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        found += 1
        cpu += sum(int(one) for one in fields[11:15]) * _TICK
        memory += int(fields[21]) * _PAGE
    return Spent(cpu, memory) if found else None
