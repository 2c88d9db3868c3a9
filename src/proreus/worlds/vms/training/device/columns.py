"""What changes in the runs, as tensors that stay where they are. Letters as in `tables`.

A machine of a run is written to `where` when it comes, placed or turned away: what an earlier run left there
is never read, and nothing of size W has to be wiped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.columns import named_columns, write_back
from proreus.worlds.vms.training.device.tables import VmTables

# What a lane does next. CHECK: a machine has come, does it fit anywhere? WAIT: it does not, time must pass.
NEW_RUN, NEXT, CHECK, WAIT, DECIDE, IDLE = range(6)


@dataclass(eq=False)
class ClusterColumns:
    """Wide ones, written in place."""

    free: Tensor  # [E, N, 2, 2] int32
    where: Tensor  # [E, W] int32: place of each machine of the run, counted from its first; NOWHERE: none
    leaving: Tensor  # [E, H] float64: when machines leave, infinite where a slot is free
    place: Tensor  # [E, H] of the machine in the slot
    flavour: Tensor  # [E, H]


@dataclass(eq=False)
class RunColumns:
    """[E] each, but for `used`."""

    phase: Tensor
    run: Tensor  # of a list: which
    first: Tensor  # machine
    machine: Tensor  # at hand
    event: Tensor  # the next
    limit: Tensor
    placed: Tensor
    rejected: Tensor
    servers: Tensor  # open
    clock: Tensor  # float64
    wait: Tensor  # float64: sum
    used: Tensor  # [E, 2] float64
    rng: Tensor
    reward: Tensor  # float64: since the last choice
    total: Tensor  # float64: return of this run
    ended: Tensor  # bool: a run ended since the last choice
    ended_placed: Tensor  # of that run
    ended_wait: Tensor  # float64
    empty: Tensor  # starts in a row that led to no choice
    ended_runs: Tensor
    ended_total: Tensor  # float64


@dataclass(eq=False)
class ListColumns:
    """What a list of runs has come to."""

    next: Tensor  # [1] the run that nobody plays yet
    outcome: Tensor  # [J + 1, 3] float64: placed, turned away, waited; the last row is for nobody


@dataclass(eq=False)
class VmState:
    """Everything of all lanes."""

    clusters: ClusterColumns
    runs: RunColumns
    listed: ListColumns

    def working(self) -> VmState:
        """For one step: the same wide columns, figures of lanes that may be replaced."""
        return VmState(self.clusters, replace(self.runs), self.listed)

    def commit(self, work: VmState) -> None:
        """Write the figures of a working state back to where they belong."""
        write_back(self.runs, work.runs)

    def named(self) -> dict[str, Tensor]:
        """All columns by their names."""
        return named_columns(self)


_WHOLE = (
    "phase",
    "run",
    "first",
    "machine",
    "event",
    "limit",
    "placed",
    "rejected",
    "servers",
    "ended_placed",
    "empty",
    "ended_runs",
)
_REAL = ("clock", "wait", "reward", "total", "ended_wait", "ended_total")


def new_state(tables: VmTables, rng: Tensor) -> VmState:
    """All lanes before their first run; rng: int64[E]."""
    lanes, device, rules = rng.shape[0], rng.device, tables.rules
    servers = tables.servers.capacity.shape[0]
    alive = (lanes, rules.alive)
    window = 0 if rules.waits else rules.window

    def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return VmState(
        ClusterColumns(
            free=zeros(lanes, servers, 2, 2, dtype=torch.int32),
            where=zeros(lanes, window, dtype=torch.int32),
            leaving=torch.full(alive, torch.inf, dtype=torch.float64, device=device),
            place=zeros(*alive),
            flavour=zeros(*alive),
        ),
        RunColumns(
            **{name: zeros(lanes) for name in _WHOLE},
            **{name: zeros(lanes, dtype=torch.float64) for name in _REAL},
            used=zeros(lanes, 2, dtype=torch.float64),
            rng=rng.clone(),
            ended=zeros(lanes, dtype=torch.bool),
        ),
        ListColumns(next=zeros(1), outcome=zeros(tables.starts.listed.shape[0] + 1, 3, dtype=torch.float64)),
    )
