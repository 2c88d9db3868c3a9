"""What a policy of rebalancing may decide: one migration after the other, then to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from proreus.model.errors import IllegalDecision


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


def migration_of(decision: object, units: int, targets: int, numas: int = 1) -> Migration:
    """What was decided: a migration, or the number of one, (unit * targets + target) * numas + numa.

    Whatever else a policy returns is an IllegalDecision; whether the migration is allowed shows later.
    """
    if isinstance(decision, Stop):
        return decision
    if isinstance(decision, Migrate):
        if not all(isinstance(number, int | np.integer) for number in vars(decision).values()):
            raise IllegalDecision(f"{decision}: units, targets and NUMA nodes are whole numbers")
        return decision
    if not isinstance(decision, int | np.integer):
        raise IllegalDecision(f"{decision!r} is neither Migrate nor Stop nor the number of a migration")
    stop = units * targets * numas
    if not 0 <= decision <= stop:
        raise IllegalDecision(f"action {decision} is outside 0..{stop}")
    unit, place = divmod(int(decision), targets * numas)
    return Stop() if decision == stop else Migrate(unit, *divmod(place, numas))
