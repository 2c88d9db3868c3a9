"""Volumes that begin empty and go with their pod, on the disk or in memory."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proreus.engine.objects.amounts import read_amounts
from proreus.engine.runtimes.protocol import Pod
from proreus.model.resources import MEMORY, parse_quantity

_MS_NOSUID, _MS_NODEV, _MNT_DETACH = 2, 4, 2
_ESCAPE = re.compile(r"\\([0-7]{3})")
"""How the kernel writes a space in a path."""
_libc = ctypes.CDLL(None, use_errno=True)
_log = logging.getLogger(__name__)


def stand_empty_dir(place: Path, source: Mapping[str, Any], pod: Pod) -> None:
    """The folder, asked again the same; in memory where that is wanted and root is at hand.

    Raises `ValueError` for a limit that is no quantity, and for another medium.
    """
    medium = source.get("medium") or ""
    if medium not in ("", "Memory"):
        raise ValueError(f"this node has no emptyDir of medium {medium!r}")
    bound = _memory_bound(source, pod)
    place.mkdir(parents=True, exist_ok=True)
    if medium == "Memory" and os.geteuid() == 0 and not place.is_mount():
        _mount_memory(place, bound)
    place.chmod(0o777)


def remove_mounts(folder: Path) -> None:
    """Nothing is mounted below it any more, and what stood there in memory is gone.

    It is emptied first: keepers of other containers may hold what is mounted for as long as they live.
    """
    for place in _mounts_below(folder):
        for entry in list(place.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if _libc.umount2(os.fsencode(place), _MNT_DETACH) != 0:
            _log.warning("%s stays mounted: %s", place, os.strerror(ctypes.get_errno()))


def _memory_bound(source: Mapping[str, Any], pod: Pod) -> int:
    """The least of its own limit and its pod's, where every container has one; 0: none."""
    containers = pod["spec"]["containers"]
    limits = [read_amounts((one.get("resources") or {}).get("limits")).get(MEMORY) for one in containers]
    stated = [amount for amount in limits if amount is not None]
    bounds = [parse_quantity(str(source["sizeLimit"]))] if source.get("sizeLimit") else []
    bounds += [sum(stated)] if len(stated) == len(limits) else []
    return min((bound for bound in bounds if bound), default=0)


def _mount_memory(place: Path, most: int) -> None:
    options = "mode=0777" + (f",size={most}" if most else "")
    flags = _MS_NOSUID | _MS_NODEV
    if _libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", flags, options.encode()) != 0:
        # Root in a container of somebody else's may not mount: then it is a folder, as without root.
        _log.warning("%s is on the disk: %s", place, os.strerror(ctypes.get_errno()))


def _mounts_below(folder: Path) -> Iterator[Path]:
    """What is in memory there, the innermost first; anything else is somebody else's."""
    top = str(folder.resolve()) + "/"
    for line in reversed(Path("/proc/self/mounts").read_text(errors="surrogateescape").splitlines()):
        _, written, kind, *_ = line.split(" ")
        place = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), written)
        if kind == "tmpfs" and place.startswith(top):
            yield Path(place)
