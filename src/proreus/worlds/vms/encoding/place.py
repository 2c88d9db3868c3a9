"""What a learned policy sees of a place for a virtual machine: the server as the machine would leave it.

Every feature depends on the request, on the server in question and on how many places are left for the
typical sizes in the whole cluster: never on a server's number. So one set of weights serves any number of
servers, and servers in the same state are treated alike. "Here" is the NUMA node that takes the machine (the
fuller one where it takes both), "there" the other.
"""

from __future__ import annotations

from proreus.kernels.arrays import F64
from proreus.kernels.compiled import compiled_inline
from proreus.worlds.vms.state.servers import TYPICAL, Flavours, Servers

VERSION = "vms-1"

_SIZES = tuple(f"{cores}c{gb}g{' on both' if both else ''}" for cores, gb, both in TYPICAL)
FEATURES = (
    "cpu free here",
    "mem free here",
    "cpu free there",
    "mem free there",
    "cpu free here, squared",
    "mem free here, squared",
    "cpu free there, squared",
    "mem free there, squared",
    "scarcer free here",
    "scarcer free there",
    "cpu difference of the nodes",
    "mem difference of the nodes",
    "cpu and mem difference here",
    "cpu free here and there, product",
    "server was empty",
    "node was empty",
    *(f"places lost for {size}" for size in _SIZES),
    *(f"share of all places lost for {size}" for size in _SIZES),
)
_LOST = 16


@compiled_inline
def encode_place(servers: Servers, flavours: Flavours, lane: int, flavour: int, place: int, out: F64) -> None:
    """Fill `out`, float64[features], for a request of that flavour at that place, where it fits."""
    free, capacity, need = servers.free, servers.capacity, flavours.need
    server, here = place // 2, place % 2
    both = flavours.double[flavour]
    if both:
        # Of two nodes that give the same, the fuller one counts as "here".
        first = (
            free[lane, server, 0, 0] / capacity[server, 0, 0]
            + free[lane, server, 0, 1] / capacity[server, 0, 1]
        )
        other = (
            free[lane, server, 1, 0] / capacity[server, 1, 0]
            + free[lane, server, 1, 1] / capacity[server, 1, 1]
        )
        here = 0 if first <= other else 1
    there = 1 - here
    cpu_here = free[lane, server, here, 0] - need[0, flavour]
    mem_here = free[lane, server, here, 1] - need[1, flavour]
    cpu_there = free[lane, server, there, 0] - both * need[0, flavour]
    mem_there = free[lane, server, there, 1] - both * need[1, flavour]
    node_empty = free[lane, server, here, 0] == capacity[server, here, 0]
    cpu, mem = cpu_here / capacity[server, here, 0], mem_here / capacity[server, here, 1]
    cpu_other, mem_other = cpu_there / capacity[server, there, 0], mem_there / capacity[server, there, 1]
    out[0], out[1], out[2], out[3] = cpu, mem, cpu_other, mem_other
    out[4], out[5], out[6], out[7] = cpu * cpu, mem * mem, cpu_other * cpu_other, mem_other * mem_other
    out[8], out[9] = min(cpu, mem), min(cpu_other, mem_other)
    out[10], out[11], out[12] = abs(cpu - cpu_other), abs(mem - mem_other), abs(cpu - mem)
    out[13] = cpu * cpu_other
    out[14] = 1.0 if node_empty and free[lane, server, there, 0] == capacity[server, there, 0] else 0.0
    out[15] = 1.0 if node_empty else 0.0
    sizes = flavours.typical.size
    for size in range(sizes):
        kind = flavours.typical[size]
        fits_here = cpu_here >= need[0, kind] and mem_here >= need[1, kind]
        fits_there = cpu_there >= need[0, kind] and mem_there >= need[1, kind]
        left = (2 if fits_here and fits_there else 0) if flavours.double[kind] else fits_here + fits_there
        lost = servers.before[lane, server, 0, kind] + servers.before[lane, server, 1, kind] - left
        out[_LOST + size] = lost
        out[_LOST + sizes + size] = lost / max(servers.room[lane, kind], 1)
