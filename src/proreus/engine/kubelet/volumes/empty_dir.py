"""Volumes that begin empty and go with their pod, on the disk or in memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proreus.engine.objects.resource_amounts import read_amounts
from proreus.engine.runtimes.mounts import mount_memory
from proreus.engine.runtimes.protocol import Pod
from proreus.model.resources import MEMORY, parse_quantity

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
        try:
            mount_memory(place, "mode=0777" + (f",size={bound}" if bound else ""))
        except OSError as error:
            # Root in a container of somebody else's may not mount: then it is a folder, as without root.
            _log.warning("%s is on the disk: %s", place, error.strerror)
    place.chmod(0o777)


def _memory_bound(source: Mapping[str, Any], pod: Pod) -> int:
    """The least of its own limit and its pod's, where every container has one; 0: none."""
    containers = pod["spec"]["containers"]
    limits = [
        read_amounts((container.get("resources") or {}).get("limits")).get(MEMORY) for container in containers
    ]
    stated = [amount for amount in limits if amount is not None]
    bounds = [parse_quantity(str(source["sizeLimit"]))] if source.get("sizeLimit") else []
    bounds += [sum(stated)] if len(stated) == len(limits) else []
    return min((bound for bound in bounds if bound), default=0)
