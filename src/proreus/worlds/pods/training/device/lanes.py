"""Lanes of pods on a device, behind the contract of all lanes.

`DeviceLanes` is what a learner on the device steps without a word to the host (`DeviceLanes.world`), and what
`reset` and `step` show as host arrays, so that conformance can be told: the same episodes as `BatchedPods`
plays from the same seed, choice by choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from proreus.contract.lanes import Choices, Steps
from proreus.kernels.arrays import I64
from proreus.learning.tensor_lanes.shown_lanes import ShownLanes, lane_seeds
from proreus.learning.tensor_lanes.triton_support import kernels_run_on
from proreus.model.errors import UsageError
from proreus.worlds.pods.encoding.pair import VERSION
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.base_pods import Reward, base_pods
from proreus.worlds.pods.training.batched_lanes import LANES_APART, BatchOptions
from proreus.worlds.pods.training.device.events import LaneRules
from proreus.worlds.pods.training.device.step import Seen
from proreus.worlds.pods.training.device.tables import tables_of
from proreus.worlds.pods.training.device.world import DeviceWorld


class DeviceLanes(ShownLanes):
    """`count` lanes over one workload or several in turn, as `BatchedPods` has them, played on a device."""

    encoding = VERSION

    def __init__(
        self,
        compiled_workload: Compiled | Sequence[Compiled],
        count: int,
        seed: int = 0,
        horizon: int = 0,
        reward: Reward = "allocation",
        options: BatchOptions = BatchOptions(),  # noqa: B008 (frozen)
    ) -> None:
        """As `BatchedPods`; `options.device` says where."""
        several = [compiled_workload] if isinstance(compiled_workload, Compiled) else list(compiled_workload)
        if count < 1 or not several:
            raise UsageError("a batch needs at least one lane and one workload")
        if horizon < 0 or (horizon and not options.redraw):
            raise UsageError("a horizon is a number of pods, and needs pods that are drawn anew")
        self.compiled = tuple(several)
        self.device = torch.device(options.device)
        bases = [base_pods(each, horizon, reward) for each in several]
        tables = tables_of(several, bases, np.arange(count) % len(several), self.device)
        rules = LaneRules(
            options=options.world,
            completion=reward == "completion",
            redraw=options.redraw,
            may_delay=options.may_delay,
            may_reject=options.may_reject,
        )
        seeds = lane_seeds(count, seed, LANES_APART).to(self.device)
        self.world = _world_on(self.device)(tables, rules, seeds)
        self.nodes = self.world.nodes
        super().__init__(self.world, self.device, LANES_APART)

    def step(self, chosen: I64) -> Steps:
        """Carry out actions: int64[E], flat numbers in terms of the batch's N, as `BatchedPods` has them."""
        self.check_legal(chosen)
        flat = torch.from_numpy(chosen).to(self.device)
        places = torch.where(flat >= self.nodes, flat - self.nodes, flat)
        return self.go_on(places)

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Also what the other kind of world saved: kernels have room for pods that nobody has."""
        used, columns = int(self.world.tables.pods.episode.max()), self.world.columns()
        fitted = {
            name: _with_room(saved[name], used, column.shape[1])
            for name, column in columns.items()
            if name.startswith("pods.") and name in saved
        }
        super().take_up({**saved, **fitted})

    def choices(self) -> Choices:
        """Rows of nodes; placing, preempting, delaying, rejecting."""
        seen: Seen = self.seen
        rules, lanes = self.world.rules, len(self)
        placing = seen.legal & ~seen.preempts[:, None]
        preempting = seen.legal & seen.preempts[:, None]
        heads = torch.tensor([rules.may_delay, rules.may_reject], device=self.device).expand(lanes, 2)
        legal = torch.cat([placing, preempting, heads], 1)
        return Choices(*(tensor.cpu().numpy().copy() for tensor in (seen.rows, seen.context, legal)))


def _with_room(column: np.ndarray[Any, Any], used: int, room: int) -> np.ndarray[Any, Any]:
    """[E, P] with so much room; as it is where it is not that of so many pods."""
    if column.ndim != 2 or column.shape[1] < used or column[:, used:].any():
        return column
    return np.pad(column[:, :used], ((0, 0), (0, room - used)))


def _world_on(device: torch.device) -> type[DeviceWorld]:
    """With kernels of its own where there are some: Triton comes with torch for CUDA."""
    if kernels_run_on(device):
        from proreus.worlds.pods.training.device.fused.world import FusedWorld

        return FusedWorld
    return DeviceWorld
