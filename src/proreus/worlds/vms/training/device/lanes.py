"""Runs of virtual machines on a device, behind the contract of all lanes.

From the same seed `VmDeviceLanes` plays what `VmRowLanes` plays, choice by choice.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from proreus.contract.lanes import Choices, Steps
from proreus.kernels.arrays import I64
from proreus.learning.tensor_lanes.rollout import Told
from proreus.learning.tensor_lanes.shown_lanes import ShownLanes, lane_seeds
from proreus.model.errors import UsageError
from proreus.worlds.vms.encoding.rows import VERSION, numa_size
from proreus.worlds.vms.training.device.columns import NEW_RUN, VmState, new_state
from proreus.worlds.vms.training.device.step import VmSeen, look, step
from proreus.worlds.vms.training.device.tables import (
    VmTables,
    drawn_starts,
    server_tables,
    trace_tables,
)
from proreus.worlds.vms.training.lanes import LANES_APART, NO_CHOICE, TRIES, VmRowLanes


class VmDeviceWorld:
    """All lanes on the device: the tables, the state, and the step over both."""

    def __init__(self, tables: VmTables, rng: Tensor) -> None:
        self.tables = tables
        self.state: VmState = new_state(tables, rng)

    @property
    def rng(self) -> Tensor:
        """int64[E]"""
        return self.state.runs.rng

    def columns(self) -> dict[str, Tensor]:
        """Everything that changes, by name."""
        return self.state.named()

    def look(self) -> VmSeen:
        """What every lane stands at."""
        return look(self.tables, self.state)

    def step(self, seen: VmSeen, action: Tensor) -> tuple[VmSeen, Told]:
        """One step of all lanes; see `step.step`."""
        return step(self.tables, self.state, seen, action)

    def ended_returns(self) -> tuple[int, float]:
        """(episodes that ended since this was asked last, the sum of their returns). Waits for the device."""
        runs = self.state.runs
        ended = int(runs.ended_runs.sum()), float(runs.ended_total.sum())
        runs.ended_runs.zero_()
        runs.ended_total.zero_()
        return ended

    def begin_anew(self) -> None:
        """Every lane before the first choice of a new run."""
        runs = self.state.runs
        runs.phase.fill_(NEW_RUN)
        runs.reward.zero_()
        runs.ended.zero_()

    def check(self) -> None:
        """Refuse to go on where no start leads to a choice. Waits for the device."""
        if bool((self.state.runs.empty > TRIES).any()):
            raise UsageError(NO_CHOICE)


class VmDeviceLanes(ShownLanes):
    """The runs that a batch of the host would play, on a device."""

    encoding = VERSION

    def __init__(self, like: VmRowLanes, device: str) -> None:
        """like: lanes of the host over the same runs, which stay as they are."""
        batch = like.batch
        options, settings, work = batch.options, batch.settings, batch.work
        numa_size(options.servers)  # rows are told in shares of one size
        self.device = torch.device(device)
        machines = work.flavour.size
        last = settings.last or machines
        traces, flavours = trace_tables([work], self.device)
        servers, rules = server_tables(
            options, work, settings.limit or machines - settings.first, self.device
        )
        starts = drawn_starts(work, options, (settings.first, last, settings.limit))
        tables = VmTables(
            traces,
            flavours,
            servers,
            replace(starts, length=starts.length.to(self.device)),
            replace(rules, ending_cost=like.ending_cost, room_limit=settings.limit),
        )
        seeds = lane_seeds(len(batch), settings.seed, LANES_APART).to(self.device)
        self.world = VmDeviceWorld(tables, seeds)
        super().__init__(self.world, self.device, LANES_APART)

    def step(self, chosen: I64) -> Steps:
        """One choice of every run: server * 2 + NUMA node."""
        self.check_legal(chosen)
        return self.go_on(torch.from_numpy(chosen).to(self.device))

    def choices(self) -> Choices:
        """Rows of places."""
        seen: VmSeen = self.seen
        return Choices(*(tensor.cpu().numpy().copy() for tensor in (seen.rows, seen.context, seen.legal)))
