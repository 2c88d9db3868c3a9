"""A cluster of machines with two NUMA nodes each, at one moment: which machine runs which virtual machine.

Readers and the generator make snapshots, the world of rebalancing plays migrations on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I64, Bool

NUMA_NODES = 2
CPU, MEMORY = 0, 1
"""Columns of everything that counts cores and MiB."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """P machines and V virtual machines as columns. Amounts are whole cores and MiB, per NUMA node."""

    name: str
    machines: tuple[str, ...]
    """The machines' names."""
    vms: tuple[str, ...]
    """The virtual machines' names."""
    total: I64
    """[P, 2, 2] by machine, NUMA node and resource."""
    free: I64
    """[P, 2, 2] what nobody uses; a snapshot may know of use that no listed virtual machine explains."""
    demand: I64
    """[V, 2] what a virtual machine takes on each NUMA node that it runs on."""
    double: Bool
    """[V] whether it runs on both NUMA nodes of its machine."""
    machine: I64
    """[V] where it runs."""
    numa: I64
    """[V] the NUMA node; 0 for double ones."""
    movable: Bool
    """[V] whether it may be migrated."""
    group: I64
    """[P] the cluster that a machine belongs to."""
    mended: str = ""
    """What contradicted itself where the snapshot was read, and what was made of it; "": nothing."""

    def __post_init__(self) -> None:
        machines, vms = len(self.machines), len(self.vms)
        shapes = {
            "total": (machines, NUMA_NODES, 2),
            "free": (machines, NUMA_NODES, 2),
            "demand": (vms, 2),
            "double": (vms,),
            "machine": (vms,),
            "numa": (vms,),
            "movable": (vms,),
            "group": (machines,),
        }
        for field, shape in shapes.items():
            if getattr(self, field).shape != shape:
                raise ValueError(f"{field} has the shape {getattr(self, field).shape} and not {shape}")
        if not machines:
            raise ValueError("a snapshot needs at least one machine")
        if (self.free < 0).any() or (self.free > self.total).any():
            raise ValueError("a NUMA node has less than nothing or more than all of its room free")
        if (self.demand < 0).any() or not self.demand[:, CPU].all():
            raise ValueError("a virtual machine needs at least one core")
        if vms and not (self.machine.min() >= 0 and self.machine.max() < machines):
            raise ValueError("a virtual machine runs on a machine that is not there")
        if not np.isin(self.numa, (0, 1)).all() or self.numa[self.double].any():
            raise ValueError("a NUMA node is 0 or 1, and 0 for a virtual machine on both")
        # Otherwise a node would have more free than it has once its virtual machines are gone.
        in_use = amounts_in_use(machines, self.demand, (self.machine, self.numa, self.double))
        if (self.free + in_use > self.total).any():
            raise ValueError("a NUMA node has more free and in use than it has")


def amounts_in_use(machines: int, demand: I64, where: tuple[I64, I64, Bool]) -> I64:
    """int64[P, 2, 2]: what the listed virtual machines take; where: machine, NUMA node and double of each."""
    machine, numa, double = where
    in_use = np.zeros((machines, NUMA_NODES, 2), dtype=np.int64)
    for part in range(NUMA_NODES):
        there = double | (numa == part)
        np.add.at(in_use[:, part], machine[there], demand[there])
    return in_use
