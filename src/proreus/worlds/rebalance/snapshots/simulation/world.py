"""A snapshot as a world: one migration after the other, until the budget is spent or the policy stops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from proreus.model.errors import IllegalDecision, UsageError
from proreus.model.measure import Measure, by_name
from proreus.worlds.rebalance.snapshots.model import Migrate, Migration, Snapshot, Stop
from proreus.worlds.rebalance.snapshots.state import (
    Machines,
    SnapshotObservation,
    fragment_cores,
    fragment_rate,
    free_cores,
    machines_of,
    may_move,
    move,
)

MEASURES = by_name(
    Measure("fragment_rate", "%", "lower", "Fragment rate after the migrations", "fragments"),
    Measure("fragment_rate_before", "%", "lower", "Fragment rate before the migrations", "before"),
    Measure("fragment_reduction", "points", "higher", "Reduction of the fragment rate", "reduction"),
    Measure("whole_pieces", "pieces", "higher", "Whole pieces that are free", "pieces"),
    Measure("moves", "", "lower", "Migrations", "moves"),
    Measure("migrated_memory", "GiB", "lower", "Memory that was migrated", "memory moved"),
    Measure("plan_seconds", "s", "lower", "Time to all migrations", "time"),
)
_MIB_PER_GIB = 1024


@dataclass(frozen=True)
class SnapshotOptions:
    """The rules of rescheduling a snapshot."""

    budget: int = 50
    """The most migrations (the migration number limit of VMR2L)."""
    fragment_size: int = 16
    """Cores of a whole piece: free cores of a NUMA node beyond a multiple of it are fragments."""
    within_clusters: bool = False
    """Keep virtual machines in the cluster they came from; published experiments do not."""

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise UsageError(f"the budget of {self.budget} migrations is negative")
        if self.fragment_size < 1:
            raise UsageError(f"a piece of {self.fragment_size} cores is not a piece")


@dataclass(frozen=True)
class SnapshotOutcome:
    """What the migrations have come to."""

    measures: dict[str, float]
    log: tuple[tuple[str, str, str, float], ...]
    """One row per migration: virtual machine, from (machine/NUMA node), to, fragment rate after it."""


@dataclass
class _Log:
    rows: list[tuple[str, str, str, float]] = field(default_factory=list)
    memory: int = 0


class SnapshotWorld:
    """Ask `next_decision` until it returns None, answering each with `apply`."""

    def __init__(self, snapshot: Snapshot, options: SnapshotOptions | None = None) -> None:
        self.snapshot = snapshot
        self.options = options or SnapshotOptions()
        self.machines: Machines = machines_of(
            snapshot, self.options.fragment_size, within_clusters=self.options.within_clusters
        )
        self._before = fragment_rate(self.machines)
        self._log = _Log()
        self._stopped = False

    @property
    def budget(self) -> int:
        """Migrations that are left."""
        return 0 if self._stopped else self.options.budget - len(self._log.rows)

    def next_decision(self) -> SnapshotObservation | None:
        """The snapshot as it stands; None when the budget is spent or the policy has stopped."""
        return SnapshotObservation(self.snapshot, self.machines, self.budget) if self.budget else None

    def apply(self, migration: Migration) -> None:
        """Carry out a migration; IllegalDecision leaves everything as it is."""
        if not self.budget:
            raise IllegalDecision("no migration is left in the budget")
        if isinstance(migration, Stop):
            self._stopped = True
            return
        self._check(migration)
        vm, before = migration.unit, self._place(migration.unit)
        move(self.machines, vm, migration.target, migration.numa)
        self._log.memory += int(self.snapshot.demand[vm, 1]) * (2 if self.snapshot.double[vm] else 1)
        self._log.rows.append((self.snapshot.vms[vm], before, self._place(vm), fragment_rate(self.machines)))

    def _check(self, migration: Migrate) -> None:
        vms, machines = len(self.snapshot.vms), len(self.snapshot.machines)
        if not (0 <= migration.unit < vms and 0 <= migration.target < machines and migration.numa in (0, 1)):
            raise IllegalDecision(f"{migration}: there is no such virtual machine, machine or NUMA node")
        if not may_move(self.machines, migration.unit, migration.target, migration.numa):
            name, target = self.snapshot.vms[migration.unit], self.snapshot.machines[migration.target]
            raise IllegalDecision(f"{name} may not migrate to NUMA node {migration.numa} of {target}")

    def _place(self, vm: int) -> str:
        name = self.snapshot.machines[self.machines.machine[vm]]
        return name if self.snapshot.double[vm] else f"{name}/{self.machines.numa[vm]}"

    def snapshot_now(self) -> Snapshot:
        """The snapshot after the migrations so far."""
        return replace(
            self.snapshot,
            free=self.machines.free.copy(),
            machine=self.machines.machine.copy(),
            numa=self.machines.numa.copy(),
        )

    def outcome(self) -> SnapshotOutcome:
        """What the migrations so far have come to."""
        rate = fragment_rate(self.machines)
        pieces = (free_cores(self.machines) - fragment_cores(self.machines)) // self.options.fragment_size
        measures = {
            "fragment_rate": 100 * rate,
            "fragment_rate_before": 100 * self._before,
            "fragment_reduction": 100 * (self._before - rate),
            "whole_pieces": float(pieces),
            "moves": float(len(self._log.rows)),
            "migrated_memory": self._log.memory / _MIB_PER_GIB,
        }
        return SnapshotOutcome(measures, tuple(self._log.rows))
