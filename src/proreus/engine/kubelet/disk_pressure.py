"""Whether the disk of a node has room: the kubelet's hard thresholds for evictions."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

_LEAST_BYTES = 0.10
"""Of the disk: nodefs.available."""
_LEAST_INODES = 0.05
"""nodefs.inodesFree."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a disk lacks; the words change with every byte, so that only the kind is compared."""

    kind: str = ""
    lacks: str = field(default="", compare=False)


NO_PRESSURE = Pressure()


def disk_pressure(folder: Path) -> Pressure:
    """Of the disk that this folder is on; one that cannot be looked at is no reason to turn pods away."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        disk = os.statvfs(folder)
    except OSError:
        return NO_PRESSURE
    if disk.f_blocks and disk.f_bavail < _LEAST_BYTES * disk.f_blocks:
        share = 100 * disk.f_bavail / disk.f_blocks
        return Pressure("bytes", f"{share:.1f} % of {folder}'s disk are free, less than {_LEAST_BYTES:.0%}")
    if disk.f_files and disk.f_favail < _LEAST_INODES * disk.f_files:
        share = 100 * disk.f_favail / disk.f_files
        return Pressure("inodes", f"{share:.1f} % of its inodes are free, less than {_LEAST_INODES:.0%}")
    return NO_PRESSURE
