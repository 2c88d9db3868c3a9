"""What a policy of rebalancing may decide: one migration after the other, then to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Migrate:
    """Move a virtual machine (or a pod) to a machine (a node); `numa` is 0 for those on both NUMA nodes."""

    unit: int
    target: int
    numa: int = 0


@dataclass(frozen=True)
class Stop:
    """Move nothing more: this snapshot, or this window, is done."""


Migration: TypeAlias = Migrate | Stop
