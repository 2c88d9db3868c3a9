"""Machines with two NUMA nodes as columns: fragments, what may go where, and moving it.

The world of rebalancing and its policies share these kernels, so a policy is judged by the rules it saw.
A fragment is what is left of a NUMA node's free cores after cutting them into pieces of `size` (16) cores:
since a migration frees as many cores as it takes, fewer fragments means more whole pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable
from proreus.worlds.rebalance.snapshots.model import CPU, MEMORY, Snapshot


@packable
class Machines(NamedTuple):
    """P machines and V virtual machines; `free`, `machine` and `numa` change as migrations are made."""

    free: I64  # [P, 2, 2] by machine, NUMA node, resource
    demand: I64  # [V, 2] per NUMA node that it runs on
    double: Bool  # [V]
    machine: I64  # [V]
    numa: I64  # [V]
    movable: Bool  # [V]
    group: I64  # [P] migrations stay within a group
    size: I64  # [1] cores of a whole piece


def machines_of(snapshot: Snapshot, fragment_size: int, *, within_clusters: bool) -> Machines:
    """The columns of a snapshot, its own to change; `within_clusters` keeps migrations in their cluster."""
    group = snapshot.group if within_clusters else np.zeros_like(snapshot.group)
    return pack(
        Machines(
            free=snapshot.free.copy(),
            demand=snapshot.demand,
            double=snapshot.double,
            machine=snapshot.machine.copy(),
            numa=snapshot.numa.copy(),
            movable=snapshot.movable,
            group=group,
            size=np.array([fragment_size], dtype=np.int64),
        )
    )


def copied(machines: Machines) -> Machines:
    """The same machines with a placement of their own."""
    return pack(
        Machines(
            free=machines.free.copy(),
            demand=machines.demand,
            double=machines.double,
            machine=machines.machine.copy(),
            numa=machines.numa.copy(),
            movable=machines.movable,
            group=machines.group,
            size=machines.size,
        )
    )


@compiled
def fragment_cores(machines: Machines) -> int:
    """Free cores that belong to no whole piece."""
    free, size = machines.free, machines.size[0]
    total = 0
    for p in range(free.shape[0]):
        total += free[p, 0, CPU] % size + free[p, 1, CPU] % size
    return total


def fragment_shares(machines: Machines) -> F64:
    """[P, 2] the cores of each NUMA node's fragment as a share of a whole piece."""
    size = machines.size[0]
    shares: F64 = machines.free[:, :, CPU] % size / size
    return shares


@compiled
def free_cores(machines: Machines) -> int:
    return machines.free[:, :, CPU].sum()


def fragment_rate(machines: Machines) -> float:
    """Fragment cores per free core; 0 where nothing is free."""
    return fragment_cores(machines) / max(free_cores(machines), 1)


@compiled
def fits(machines: Machines, v: int, p: int, numa: int) -> bool:
    """Whether NUMA node `numa` of machine p (both, for a double one) has room for v."""
    free, cpu, memory = machines.free, machines.demand[v, CPU], machines.demand[v, MEMORY]
    if machines.double[v]:
        for k in range(2):
            if free[p, k, CPU] < cpu or free[p, k, MEMORY] < memory:
                return False
        return True
    return free[p, numa, CPU] >= cpu and free[p, numa, MEMORY] >= memory


@compiled
def may_move(machines: Machines, v: int, p: int, numa: int) -> bool:
    """Whether v may migrate to (p, numa): another machine of its group that has room."""
    here = machines.machine[v]
    if not machines.movable[v] or here == p or machines.group[here] != machines.group[p]:
        return False
    if machines.double[v] and numa != 0:
        return False
    return fits(machines, v, p, numa)


@compiled
def move(machines: Machines, v: int, p: int, numa: int) -> None:
    """Migrate v to (p, numa); the caller has asked `may_move`."""
    here = machines.machine[v]
    for resource in range(2):
        amount = machines.demand[v, resource]
        if machines.double[v]:
            for k in range(2):
                machines.free[here, k, resource] += amount
                machines.free[p, k, resource] -= amount
        else:
            machines.free[here, machines.numa[v], resource] += amount
            machines.free[p, numa, resource] -= amount
    machines.machine[v] = p
    machines.numa[v] = numa


@compiled
def fragment_drop(machines: Machines, v: int, p: int, numa: int) -> int:
    """By how many cores the fragments shrink when v goes to (p, numa)."""
    free, size, cpu = machines.free, machines.size[0], machines.demand[v, CPU]
    here = machines.machine[v]
    drop = 0
    for k in range(2):
        if machines.double[v] or k == machines.numa[v]:
            drop += free[here, k, CPU] % size - (free[here, k, CPU] + cpu) % size
        if machines.double[v] or k == numa:
            drop += free[p, k, CPU] % size - (free[p, k, CPU] - cpu) % size
    return drop


@compiled
def fill_targets(machines: Machines, v: int, mask: Bool) -> int:
    """mask: bool[P, 2], filled with where v may go; returns how many places that are."""
    count = 0
    for p in range(mask.shape[0]):
        for numa in range(2):
            mask[p, numa] = may_move(machines, v, p, numa)
            count += mask[p, numa]
    return count


@dataclass(frozen=True)
class SnapshotObservation:
    """The moment of one decision about a snapshot. The columns are live: read them, never write them."""

    snapshot: Snapshot
    machines: Machines
    budget: int
    """Migrations that are left."""

    def action_mask(self) -> Bool:
        """bool[V * P * 2 + 1]: (vm * P + machine) * 2 + NUMA node; the last entry is to stop."""
        mask = np.ones(len(self.snapshot.vms) * len(self.snapshot.machines) * 2 + 1, dtype=np.bool_)
        places = mask[:-1].reshape(len(self.snapshot.vms), len(self.snapshot.machines), 2)
        for vm in range(len(self.snapshot.vms)):
            fill_targets(self.machines, vm, places[vm])
        return mask

    def targets(self, vm: int) -> Bool:
        """bool[P, 2]: where one virtual machine may go."""
        mask = np.zeros((len(self.snapshot.machines), 2), dtype=np.bool_)
        fill_targets(self.machines, vm, mask)
        return mask
