"""The arrays of the world `vms`: the trace, and the runs that are played side by side over it.

Letters in shape comments: V machines of the trace, E events, L lanes, W most machines of one run, H most
machines that run at one time, and those of `state.servers`.
"""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I32, I64
from proreus.kernels.structs import packable
from proreus.worlds.vms.state.servers import Flavours, Servers


@packable
class VmWork(NamedTuple):
    """The trace; it never changes and all lanes share it."""

    flavour: I32  # [V]
    arrival: F64  # [V] seconds
    lifetime: F64  # [V] seconds, infinite where it is never deleted
    events: I32  # [E] v: creation of machine v; -1 - v: its deletion
    created: I32  # [V] the event that creates the machine
    flavours: Flavours


@packable
class VmLanes(NamedTuple):
    """Runs side by side."""

    servers: Servers
    where: I32  # [L, W] place of each machine of the run, counted from its first; NOWHERE: none
    leaving: F64  # [L, H] heap of the times at which machines leave, where machines may wait
    leaver: I32  # [L, H] the machine of each
    tally: I64  # [L, TALLIES]
    figure: F64  # [L, FIGURES]
    option: I64  # [OPTIONS]
    threshold: F64  # [1] utilisation above which servers are added


# Of `tally`: the run's first machine and the one at hand, the next event; machines placed, rejected, that had
# to wait, that run, in the heap; servers in use; the most machines of the run; its status.
FIRST, MACHINE, EVENT, PLACED, REJECTED, WAITED, RUNNING, QUEUED, SERVERS, LIMIT, STATUS = range(11)
TALLIES = 11

# Of `figure`: the clock; the sum of waiting times; amounts in use and in open servers, their integrals over
# time.
NOW, BEGAN, WAIT = range(3)
CPU_USED, MEM_USED, CPU_OPEN, MEM_OPEN = range(3, 7)
CPU_SECONDS, MEM_SECONDS, CPU_OPEN_SECONDS, MEM_OPEN_SECONDS = range(7, 11)
FIGURES = 11

# Of `option`; that of FULL is one of `model.FULL_CODES`.
FULL, RELEASE, REWARD, GROWTH, FIRST_SERVERS = range(5)
OPTIONS = 5

# What a placement is worth: one, its cores as a share of a NUMA node, or minus log(1 + its waiting time).
PER_PLACEMENT, BY_CPU, BY_WAIT = range(3)

# Of a lane.
DECIDING, NO_ROOM, ALL_DONE = range(3)
