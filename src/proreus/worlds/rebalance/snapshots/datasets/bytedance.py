"""ByteDance's cluster snapshots (VMR2L, EuroSys 2025; Apache-2.0): machines with two NUMA nodes and their
VMs.

A file holds clusters, each with `host_info` (free and total cores and huge-page memory per NUMA node) and
`vm_instance` (machine, NUMA nodes, cores, memory). The published experiments put the clusters of a file
together, and so does `read_snapshot`; which cluster a machine came from is kept as its group. The memory of
some machines is used by more than the listed virtual machines, and that is taken as it stands. Others list
more free and in use than they have: there only what their virtual machines leave can be free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proreus.data.cursor import Entry
from proreus.data.json_tree import read_json
from proreus.kernels.arrays import I64
from proreus.model.errors import InputError
from proreus.worlds.rebalance.snapshots.model import CPU, MEMORY, NUMA_NODES, Snapshot, amounts_in_use


@dataclass
class _Columns:
    """What has been read so far."""

    machines: dict[str, int] = field(default_factory=dict)
    total: list[list[list[int]]] = field(default_factory=list)
    free: list[list[list[int]]] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    vms: dict[str, int] = field(default_factory=dict)
    demand: list[tuple[int, int]] = field(default_factory=list)
    place: list[tuple[int, int, bool, bool]] = field(default_factory=list)


def read_snapshot(path: Path, *, strict: bool = False) -> Snapshot:
    """The snapshot of a file, its clusters put together.

    Where NUMA nodes list more free and in use than they have, what is free is lowered and `Snapshot.mended`
    says where; `strict` refuses such a file.
    """
    columns = _Columns()
    for number, cluster in enumerate(read_json(path).require("cluster_list").children()):
        for host in cluster.require("host_info").children():
            _read_machine(host, number, columns)
        for vm in cluster.require("vm_instance").children():
            _read_vm(vm, columns)
    place = np.array(columns.place, dtype=np.int64).reshape(-1, 4)
    demand = np.array(columns.demand, dtype=np.int64).reshape(-1, 2)
    machine, numa, double = place[:, 0], place[:, 1], place[:, 2] == 1
    total, free = np.array(columns.total, dtype=np.int64), np.array(columns.free, dtype=np.int64)
    mended = ""
    if columns.machines:
        in_use = amounts_in_use(len(columns.machines), demand, (machine, numa, double))
        mended = _contradictions(tuple(columns.machines), total, free, in_use)
        if mended and strict:
            raise InputError(f"{mended} (--strict)", file=path)
        total = np.maximum(total, in_use)  # they run there, so there is at least so much
        free = np.minimum(free, total - in_use)
    try:
        return Snapshot(
            name=path.stem,
            machines=tuple(columns.machines),
            vms=tuple(columns.vms),
            total=total,
            free=free,
            demand=demand,
            double=double,
            machine=machine,
            numa=numa,
            movable=place[:, 3] == 1,
            group=np.array(columns.group, dtype=np.int64),
            mended=f"{mended}; what is free there was lowered to what they leave" if mended else "",
        )
    except ValueError as error:  # every value is sound, together they are not a snapshot
        raise InputError(str(error), file=path) from None


def _contradictions(machines: tuple[str, ...], total: I64, free: I64, in_use: I64) -> str:
    """How many NUMA nodes list more than they have, by how much, and the worst of them; "": none."""
    parts = []
    for resource, (what, unit) in enumerate((("cores", "cores"), ("memory", "MiB"))):
        beyond = (free + in_use - total)[:, :, resource]
        count = int((beyond > 0).sum())
        if not count:
            continue
        p, numa = np.unravel_index(int(beyond.argmax()), beyond.shape)
        has, idle, busy = (int(amount[p, numa, resource]) for amount in (total, free, in_use))
        parts.append(
            f"{count:,} of {beyond.size:,} NUMA nodes list more {what} free and in use than they have, by "
            f"{int(beyond.clip(min=0).sum()):,} {unit} in all (most of all {machines[p]}/{numa}: "
            f"{has:,} {unit}, {idle:,} free and {busy:,} in use by its virtual machines)"
        )
    return "; ".join(parts)


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot in the layout that `read_snapshot` reads."""
    clusters: dict[int, dict[str, Any]] = {}
    for group in snapshot.group.tolist():
        clusters.setdefault(group, {"host_info": [], "vm_instance": []})
    for p, name in enumerate(snapshot.machines):
        parts = [
            {
                "node": k,
                "total_cpu": int(snapshot.total[p, k, CPU]),
                "free_cpu": int(snapshot.free[p, k, CPU]),
                "memory_huge_total_mb": int(snapshot.total[p, k, MEMORY]),
                "memory_huge_free_mb": int(snapshot.free[p, k, MEMORY]),
            }
            for k in range(NUMA_NODES)
        ]
        clusters[int(snapshot.group[p])]["host_info"].append({"node_id": name, "numa": parts})
    for v, name in enumerate(snapshot.vms):
        machine, (cpu, memory) = int(snapshot.machine[v]), snapshot.demand[v].tolist()
        nodes = range(NUMA_NODES) if snapshot.double[v] else (int(snapshot.numa[v]),)
        clusters[int(snapshot.group[machine])]["vm_instance"].append(
            {
                "instance_id": name,
                "host_id": snapshot.machines[machine],
                "numa": [{"node": k, "cpu": cpu, "mem_mb": memory} for k in nodes],
                "allow_migration": bool(snapshot.movable[v]),
            }
        )
    return {"cluster_list": list(clusters.values())}


def _read_machine(host: Entry, cluster: int, columns: _Columns) -> None:
    name = _name(host.require("node_id"))
    if name in columns.machines:
        raise host.require("node_id").fail(f"{name!r} is listed twice")
    total: list[list[int]] = [[], []]
    free: list[list[int]] = [[], []]
    for part in host.require("numa").children():
        k = _numa_node(part.require("node"))
        if total[k]:
            raise part.require("node").fail("this NUMA node is listed twice")
        total[k] = [part.require("total_cpu").integer(), int(part.require("memory_huge_total_mb").number())]
        free[k] = [part.require("free_cpu").integer(), int(part.require("memory_huge_free_mb").number())]
        for resource, label in enumerate(("free_cpu", "memory_huge_free_mb")):
            if free[k][resource] > total[k][resource]:
                raise part.require(label).fail("more is free than there is")
    if not all(total):
        raise host.require("numa").fail(f"a machine has {NUMA_NODES} NUMA nodes")
    columns.machines[name] = len(columns.machines)
    columns.total.append(total)
    columns.free.append(free)
    columns.group.append(cluster)


def _read_vm(vm: Entry, columns: _Columns) -> None:
    name = _name(vm.require("instance_id"))
    if name in columns.vms:
        raise vm.require("instance_id").fail(f"{name!r} is listed twice")
    host = vm.require("host_id")
    if host.text() not in columns.machines:
        raise host.fail(f"there is no machine {host.text()!r}")
    parts = vm.require("numa").children()
    if len(parts) not in (1, NUMA_NODES):
        raise vm.require("numa").fail("a virtual machine runs on one NUMA node or on both")
    demands = {(p.require("cpu").integer(), int(p.require("mem_mb").number())) for p in parts}
    if len(demands) > 1:
        raise vm.require("numa").fail("what it takes of the two NUMA nodes differs")
    nodes = [_numa_node(part.require("node")) for part in parts]
    if len(set(nodes)) < len(nodes):
        raise vm.require("numa").fail("the same NUMA node is listed twice")
    demand = demands.pop()
    if not demand[0]:
        raise parts[0].require("cpu").fail("a virtual machine needs at least one core")
    double = len(parts) == NUMA_NODES
    movable = vm.truth_at("allow_migration", default=True)
    columns.vms[name] = len(columns.vms)
    columns.demand.append(demand)
    columns.place.append((columns.machines[host.text()], 0 if double else nodes[0], double, movable))


def _name(value: Entry) -> str:
    if not value.text():
        raise value.fail("a text is needed here")
    return value.text()


def _numa_node(value: Entry) -> int:
    if value.integer() >= NUMA_NODES:
        raise value.fail(f"{value.integer()} is not a NUMA node (0 or 1)")
    return value.integer()
