"""A pod's folder goes, with what is mounted in it, and nothing else goes with it."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from proreus.engine.runtimes.mounts import mounts_below, unmount
from proreus.engine.runtimes.safe_path import walk_beneath

VOLUMES, MOUNTS = "volumes", "mounts"
"""In a pod's folder: its volumes; what of them, and of the machine, is bound for single containers."""
_log = logging.getLogger(__name__)


def remove_tree(folder: Path) -> None:
    """All of it, whatever modes, links and depths it was left with; nothing of it runs any more.

    Where something stays mounted in it, the files stay: they may be the machine's.
    """
    if not folder.exists():
        return
    (folder / "pod.json").unlink(missing_ok=True)  # whoever comes after a kill goes on from here
    _remove_mounts(folder)
    left = [str(mounted.place) for mounted in mounts_below(folder)]
    if left:
        _log.error("%s is left as it is: %s stays mounted", folder, left[0])
        return
    with contextlib.suppress(FileNotFoundError):  # somebody else takes it away at the same moment
        _remove_content(folder)
        folder.rmdir()


def _remove_mounts(folder: Path) -> None:
    """What stood in memory is emptied first: keepers of other containers may hold it as long as they live.

    Nothing that is bound is emptied: it stands elsewhere, too.
    """
    volumes = folder.resolve() / VOLUMES
    for place, kind in list(mounts_below(folder)):
        try:
            if kind == "tmpfs" and place.parent == volumes:
                _remove_content(place)
            unmount(place)
        except OSError as error:
            _log.warning("%s stays mounted: %s", place, error)


def _remove_content(folder: Path) -> None:
    for visit in walk_beneath(folder, force=os.geteuid() != 0):
        if visit.done:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(visit.done, dir_fd=visit.folder)
            continue
        for entry in visit.entries:
            if not entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=visit.folder)
