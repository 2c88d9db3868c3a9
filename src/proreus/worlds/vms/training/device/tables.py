"""What never changes about the runs of a batch, as tensors: traces one after the other, servers, starts.

E lanes, N servers, V machines and X events of all traces, F flavours of all traces, T traces, W most machines
of a run, H most machines that run at one time, J runs of a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError
from proreus.worlds.vms.model import WAITS
from proreus.worlds.vms.simulation import columns as c
from proreus.worlds.vms.simulation.columns import VmWork
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import VmsOptions, new_lanes
from proreus.worlds.vms.state.observation import demand


@dataclass(frozen=True, eq=False)
class TraceTables:
    """All traces; machines, events and flavours are numbered through."""

    flavour: Tensor  # [V]
    arrival: Tensor  # [V] float64
    lifetime: Tensor  # [V] float64
    created: Tensor  # [V] the event that creates the machine
    trace: Tensor  # [V]
    events: Tensor  # [X] v: creation of machine v; -1 - v: its deletion
    moment: Tensor  # [X] float64: when it happens
    machine_end: Tensor  # [T] behind the trace's last machine
    event_end: Tensor  # [T]


@dataclass(frozen=True, eq=False)
class FlavourTables:
    """What requests ask for."""

    need: Tensor  # [F, 2] int32 on each NUMA node that is used
    double: Tensor  # [F] bool
    asked: Tensor  # [F, 2, 2, 2] float32: `state.observation.demand`
    typical: Tensor  # [T, sizes] the flavour of each typical size


@dataclass(frozen=True, eq=False)
class ServerTables:
    """Of every lane the same."""

    capacity: Tensor  # [N, 2, 2] int32
    opened: Tensor  # [N + 1, 2] float64: cores and memory of so many servers
    scale: Tensor  # [2] float32: cores and GB of the NUMA node in whose shares rows are told


@dataclass(frozen=True, eq=False)
class StartTables:
    """Where runs begin: drawn from a range, or taken from a list."""

    first: int
    span: int
    """Starts are drawn from `first` on and before `first` + `span`; 0: they are listed."""
    limit: int
    """Machines of a run that is drawn, where `length` is empty."""
    length: Tensor  # [span] SPANE's length of the run from each start, or [0]
    listed: Tensor  # [J] machines at which the runs of a list start
    limits: Tensor  # [J] machines of each


@dataclass(frozen=True)
class VmRules:
    """What holds for all lanes, known before anything is played."""

    full: int
    release: bool
    reward: int
    growth: int
    threshold: float
    first_servers: int
    ending_cost: float
    """In place of rewards: what an end for want of room costs; 0: the rewards themselves."""
    room_limit: int
    """A run that has placed so many did not end for want of room."""
    window: int
    """W"""
    alive: int
    """H where machines wait, else 0"""

    @property
    def waits(self) -> bool:
        """Machines that fit nowhere wait."""
        return self.full == WAITS


@dataclass(frozen=True, eq=False)
class VmTables:
    """Everything that a step reads and never writes."""

    traces: TraceTables
    flavours: FlavourTables
    servers: ServerTables
    starts: StartTables
    rules: VmRules


def trace_tables(works: Sequence[VmWork], device: torch.device) -> tuple[TraceTables, FlavourTables]:
    """The machines and flavours of traces one after the other."""
    for work in works:
        deleted = work.events[work.events < 0]
        if np.unique(deleted).size != deleted.size:
            raise UsageError("a machine of the trace is deleted twice, which no device plays: use the host")
    machines = np.cumsum([0, *(work.flavour.size for work in works)])
    events = np.cumsum([0, *(work.events.size for work in works)])
    kinds = np.cumsum([0, *(work.flavours.double.size for work in works)])

    def joined(parts: Sequence[np.ndarray[Any, Any]]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts)).to(device)

    numbered = [
        np.where(work.events >= 0, work.events.astype(np.int64) + start, work.events.astype(np.int64) - start)
        for work, start in zip(works, machines, strict=False)
    ]
    flavours = FlavourTables(
        need=joined([work.flavours.need.T for work in works]),
        double=joined([work.flavours.double.astype(np.bool_) for work in works]),
        asked=joined(
            [np.stack([demand(w.flavours, kind) for kind in range(w.flavours.double.size)]) for w in works]
        ),
        typical=torch.from_numpy(
            np.stack(
                [w.flavours.typical.astype(np.int64) + start for w, start in zip(works, kinds, strict=False)]
            )
        ).to(device),
    )
    traces = TraceTables(
        flavour=joined([w.flavour.astype(np.int64) + start for w, start in zip(works, kinds, strict=False)]),
        arrival=joined([work.arrival for work in works]),
        lifetime=joined([work.lifetime for work in works]),
        created=joined([w.created.astype(np.int64) + start for w, start in zip(works, events, strict=False)]),
        trace=joined([np.full(work.flavour.size, t) for t, work in enumerate(works)]),
        events=joined(numbered),
        moment=joined([_moments(work) for work in works]),
        machine_end=torch.from_numpy(machines[1:].copy()).to(device),
        event_end=torch.from_numpy(events[1:].copy()).to(device),
    )
    return traces, flavours


def _moments(work: VmWork) -> np.ndarray[Any, Any]:
    ends = work.arrival + work.lifetime
    creates = work.events >= 0
    return np.where(
        creates, work.arrival[np.where(creates, work.events, 0)], ends[np.where(creates, 0, -1 - work.events)]
    )


def server_tables(
    options: VmsOptions, work: VmWork, most_machines: int, device: torch.device
) -> tuple[ServerTables, VmRules]:
    """Of a cluster, for runs of at most so many machines; `work` may be any of the traces."""
    shape = new_lanes(work, options, 1, most_machines)
    capacity, option = shape.servers.capacity, shape.option
    opened = np.concatenate([np.zeros((1, 2)), np.cumsum(capacity.sum(axis=1, dtype=np.float64), axis=0)])
    size = np.array([options.servers[0].cpu, options.servers[0].mem], dtype=np.float32)
    servers = ServerTables(*(torch.from_numpy(array).to(device) for array in (capacity, opened, size)))
    waits = int(option[c.FULL]) == WAITS
    rules = VmRules(
        full=int(option[c.FULL]),
        release=bool(option[c.RELEASE]),
        reward=int(option[c.REWARD]),
        growth=int(option[c.GROWTH]),
        threshold=options.threshold,
        first_servers=int(option[c.FIRST_SERVERS]),
        ending_cost=0.0,
        room_limit=0,
        window=shape.where.shape[1],
        alive=shape.leaving.shape[1] if waits else 0,
    )
    return servers, rules


def drawn_starts(work: VmWork, options: VmsOptions, part: tuple[int, int, int]) -> StartTables:
    """part: first start, the one behind the last, machines of a run (0: SPANE's, worked out for all)."""
    first, last, limit = part
    length = np.zeros(0, dtype=np.int64)
    if options.full == "wait" and not limit:
        length = planned_runs(work, options, np.arange(first, last)).limits
    none = torch.zeros(0, dtype=torch.int64)
    return StartTables(
        first, last - first, limit or work.flavour.size, torch.from_numpy(length), none, none.clone()
    )


def listed_starts(starts: I64, limits: I64, device: torch.device) -> StartTables:
    """[J] machines, numbered through all traces, and the machines of the run from each."""
    return StartTables(
        0,
        0,
        0,
        torch.zeros(0, dtype=torch.int64, device=device),
        torch.from_numpy(starts).to(device),
        torch.from_numpy(limits).to(device),
    )
