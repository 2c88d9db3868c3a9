"""A small case of the world of virtual machines to learn on: big requests come after small ones."""

from __future__ import annotations

import numpy as np

from proreus.worlds.vms.model import DoubleRule, ServerShape, VmTrace, events_of
from proreus.worlds.vms.simulation.world import VmsOptions, compile_trace
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings, VmRowLanes

SMALL, BIG = 6, 8


def packing_servers(lanes: int) -> VmRowLanes:
    """Three servers of 2 x 8 cores; six requests of one core, then some that need an empty NUMA node each.

    Whoever packs the small ones tightly leaves more room for the big ones. The return is the number of
    placements: at best 6 + 5 (all small ones on one NUMA node); with one on each node it is 6.
    """
    cpu = np.array([1.0] * SMALL + [8.0] * BIG)
    arrival = np.arange(len(cpu), dtype=np.float64)
    lifetime = np.full(len(cpu), np.inf)
    trace = VmTrace("packing", cpu, cpu.copy(), arrival, lifetime, events_of(arrival, lifetime))
    options = VmsOptions(servers=(ServerShape(3, 8.0, 8.0),), double=DoubleRule("mem", ">", 100.0))
    work = compile_trace(trace, options.double)
    return VmRowLanes(BatchedVms(work, options, lanes, BatchSettings(first=0, last=1)))
