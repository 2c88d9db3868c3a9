"""What a person decides about a real runtime."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proreus.engine.runtimes.config_refs import NoReferences, References
from proreus.engine.runtimes.start_backoff import USUAL_PAUSES, Pauses

MIB = 1024 * 1024


@dataclass(frozen=True)
class MachineOptions:
    """Where a runtime keeps its things, and what its pods may do."""

    root: Path
    """Everything of this runtime on the disk; one runtime a folder."""
    references: References = field(default_factory=NoReferences)
    address: str = "127.0.0.1"
    """The node's: pods have it, too, where they share the machine's network."""
    host_paths: tuple[Path, ...] = ()
    """What may be mounted from the machine."""
    allow_privileged: bool = False
    processes: int = 4096
    """The most processes and threads of one container."""
    log_bytes: int = 10 * MIB
    """The most in one log file of a container."""
    log_files: int = 5
    image_bytes: int = 10 * 1024 * MIB
    """The most that images may take on the disk before unused ones go."""
    most_image_bytes: int = 4 * 1024 * MIB
    """The most that one image may unpack to."""
    cgroups: bool = True
    """False: limits by rlimits alone, as where cgroups cannot be made."""
    devices: Path = Path("/")
    """Below it the GPUs are looked for, in `dev` and `proc`."""
    follow_seconds: float = 10.0
    """How often it is looked whether volumes' objects have changed, and whether volumes are too full."""
    pauses: Pauses = USUAL_PAUSES
    """Between attempts to start what cannot be started yet."""
    reserved: Mapping[str, str] = field(default_factory=dict)
    """What the machine keeps for itself, by resource."""
    offered: Mapping[str, str] = field(default_factory=dict)
    """Extended resources that the node has besides what is found on the machine."""
    socket: Path = Path("/run/containerd/containerd.sock")
    """Where containerd answers."""
    namespace: str = "k8s.io"
    """containerd's, where CRI keeps its images."""

    @property
    def own_name(self) -> str:
        """Of this runtime among others on the machine, which must not sweep each other's containers away."""
        return f"proreus-{hashlib.sha256(os.fsencode(self.root.resolve())).hexdigest()[:12]}"
