"""A snapshot as a world: one migration after the other, until the budget is spent or the policy stops."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proreus.contract.replay import Move, Stage, levels_of
from proreus.contract.simulation import Look, Outcome
from proreus.model.errors import IllegalDecision, UsageError
from proreus.model.measure import Measure, by_name
from proreus.worlds.rebalance.decision import Migrate, Migration, Stop, migration_of
from proreus.worlds.rebalance.snapshots.datasets.bytedance import snapshot_json
from proreus.worlds.rebalance.snapshots.model import CPU, NUMA_NODES, Snapshot
from proreus.worlds.rebalance.snapshots.simulation.screen import machine_lines
from proreus.worlds.rebalance.snapshots.state import (
    Machines,
    SnapshotObservation,
    fragment_cores,
    fragment_rate,
    fragment_shares,
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


Row = tuple[str, str, str, float]
"""Of a migration: virtual machine, from (machine/NUMA node), to, fragment rate after it."""


class SnapshotWorld:
    """Ask `next_decision` until it returns None, answering each with `apply`."""

    def __init__(self, snapshot: Snapshot, options: SnapshotOptions | None = None) -> None:
        self.snapshot = snapshot
        self.options = options or SnapshotOptions()
        self.machines: Machines = machines_of(
            snapshot, self.options.fragment_size, within_clusters=self.options.within_clusters
        )
        self._before = fragment_rate(self.machines)
        self._rows: list[Row] = []
        self._memory = 0
        self._last: Move | None = None
        self._stopped = False

    @property
    def budget(self) -> int:
        """Migrations that are left."""
        return 0 if self._stopped else self.options.budget - len(self._rows)

    def next_decision(self) -> SnapshotObservation | None:
        """The snapshot as it stands; None when the budget is spent or the policy has stopped."""
        return SnapshotObservation(self.snapshot, self.machines, self.budget) if self.budget else None

    def apply(self, decision: Migration | int, /) -> None:
        """Carry out a migration; IllegalDecision leaves everything as it is."""
        if not self.budget:
            raise IllegalDecision("no migration is left in the budget")
        sizes = (len(self.snapshot.vms), len(self.snapshot.machines), NUMA_NODES)
        migration = migration_of(decision, *sizes)
        if isinstance(migration, Stop):
            self._stopped = True
            return
        self._check(migration)
        vm, before = migration.unit, self._place(migration.unit)
        name, source = self.snapshot.vms[vm], int(self.machines.machine[vm])
        move(self.machines, vm, migration.target, migration.numa)
        self._memory += int(self.snapshot.demand[vm, 1]) * (2 if self.snapshot.double[vm] else 1)
        self._rows.append((name, before, self._place(vm), fragment_rate(self.machines)))
        self._last = Move(name, source, migration.target)

    def subject(self) -> str:
        """The number of the migration, from 1 on."""
        return str(len(self._rows) + 1)

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

    def outcome(self) -> Outcome:
        """What the migrations so far have come to."""
        rate = fragment_rate(self.machines)
        pieces = (free_cores(self.machines) - fragment_cores(self.machines)) // self.options.fragment_size
        measures = {
            "fragment_rate": 100 * rate,
            "fragment_rate_before": 100 * self._before,
            "fragment_reduction": 100 * (self._before - rate),
            "whole_pieces": float(pieces),
            "moves": float(len(self._rows)),
            "migrated_memory": self._memory / _MIB_PER_GIB,
        }
        columns = ("vm", "from", "to", "fragment_rate")
        return Outcome(measures, columns, tuple(self._rows), lambda: snapshot_json(self.snapshot_now()))

    def screen(self) -> list[str]:
        """The machines after the last migration."""
        spent, rate = len(self._rows), 100 * fragment_rate(self.machines)
        head = f"{spent} of {self.options.budget} migrations, fragment rate {rate:.2f} %"
        if self._last is None:
            return [head, *machine_lines(self.snapshot, self.machines)]
        names, last = self.snapshot.machines, self._last
        title = f"{head}: {last.item} {names[last.source]} → {names[last.target]}"
        return [title, *machine_lines(self.snapshot, self.machines, last.source, last.target)]

    def stage(self) -> Stage:
        """Machines with two NUMA nodes, each with gauges."""
        gauges = ("CPU", "memory", f"fragment, of {self.options.fragment_size} cores")
        return Stage("machine", self.snapshot.machines, gauges, "NUMA node", colour=len(gauges) - 1)

    def look(self) -> Look | None:
        """The machines after a migration; None once the policy has stopped, for nothing moved."""
        if self._stopped:
            return None
        cores = self.snapshot.total[:, :, CPU].sum(axis=1)
        use = 1.0 - self.machines.free[:, :, CPU].sum(axis=1) / np.maximum(cores, 1)
        used = 1.0 - self.machines.free / np.maximum(self.snapshot.total, 1)
        shares = np.concatenate([used, fragment_shares(self.machines)[:, :, None]], axis=2)
        moves, self._last = () if self._last is None else (self._last,), None
        count = len(self._rows)
        series = {"fragments": 100 * fragment_rate(self.machines), "moves": float(count)}
        return Look(float(count), count, series, use, levels_of(shares), moves)

    def told(self, before: Look | None, now: Look) -> str:
        """Which migrations led here, and what they came to."""
        rate = f"fragment rate {now.series['fragments']:.2f} %"
        if before is None:
            return f"before the first migration, {rate}"
        first = before.count + 1
        which = f"migration {now.count}" if first == now.count else f"migrations {first} to {now.count}"
        return f"{which}, {rate}"

    def facts(self) -> tuple[str, ...]:
        """Machines and virtual machines."""
        snapshot = self.snapshot
        return f"{len(snapshot.machines):,} machines", f"{len(snapshot.vms):,} virtual machines"
