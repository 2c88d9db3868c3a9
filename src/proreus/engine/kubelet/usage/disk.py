"""How many bytes stand in a folder: looked at beside the event loop, and not without end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

from proreus.engine.runtimes.safe_path import walk_beneath

MOST_ENTRIES = 200_000
"""Files and folders that are counted of one place; of a pod that has more, only these are told."""
MOST_SECONDS = 5.0
"""For all places together; those that are not reached go first the next time."""
_BLOCK = 512
Place = TypeVar("Place")


def folder_bytes(folder: Path, most: int = MOST_ENTRIES, until: float = float("inf")) -> int | None:
    """What the files in it take on the disk, by the file system's count; None where the time ran out.

    Neither links nor mounts are followed: what they lead to is somebody else's. A file with several names
    counts once. until: a moment of the steady clock.
    """
    total, seen = 0, 0
    several: set[int] = set()
    try:
        device = folder.lstat().st_dev
        for visit in walk_beneath(folder):
            for entry in visit.entries:
                seen += 1
                if seen > most:
                    return total
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:  # gone meanwhile
                    continue
                if stat.st_dev != device or stat.st_ino in several:
                    continue
                if stat.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                    several.add(stat.st_ino)
                total += stat.st_blocks * _BLOCK
            if time.monotonic() > until:
                return None
    except OSError:  # gone meanwhile, or moved while it was walked through: so much was seen
        return total
    return total


class DiskMeter(Generic[Place]):
    """Remembers what was last seen of each place; `look` is called in a thread, one at a time."""

    def __init__(self) -> None:
        self.bytes: Mapping[Place, int] = {}
        """By place, the sum of its folders."""
        self._looked: dict[Place, int] = {}
        """In which turn each was looked at last."""
        self._turn = 0

    def look(self, places: Mapping[Place, tuple[Path, ...]], seconds: float = MOST_SECONDS) -> None:
        """At these places alone from now on, the longest not looked at first."""
        until = time.monotonic() + seconds
        self._turn += 1
        measured = {place: self.bytes[place] for place in places if place in self.bytes}
        for place in sorted(places, key=lambda candidate: self._looked.get(candidate, 0)):
            sizes = [folder_bytes(folder, until=until) for folder in places[place]]
            known = [size for size in sizes if size is not None]
            if len(known) < len(sizes):
                break
            measured[place], self._looked[place] = sum(known), self._turn
        self.bytes = measured
        self._looked = {place: turn for place, turn in self._looked.items() if place in places}
