"""The block devices behind folders, by the numbers that the kernel throttles them by."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_NUMBERS = Path("/sys/dev/block")


def disks_of(folders: Iterable[Path], numbers: Path = _NUMBERS) -> tuple[str, ...]:
    """ "MAJOR:MINOR" of each whole disk that one of the folders lies on; a folder in memory has none."""
    disks = (_disk_of(_standing(folder), numbers) for folder in folders)
    return tuple(dict.fromkeys(disk for disk in disks if disk))


def _standing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next((place for place in (folder, *folder.absolute().parents) if place.exists()), Path("/"))


def _disk_of(folder: Path, numbers: Path) -> str:
    device = folder.stat().st_dev
    entry = numbers / f"{os.major(device)}:{os.minor(device)}"
    if not entry.exists():  # a file system without a device of its own: in memory, or over several
        return ""
    whole = entry.resolve()
    if (whole / "partition").exists():  # the kernel throttles disks, not their partitions
        whole = whole.parent
    return (whole / "dev").read_text().strip()
