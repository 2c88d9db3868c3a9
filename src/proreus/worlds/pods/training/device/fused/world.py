"""`DeviceWorld` whose step is two kernels, one program a lane."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.rollout import Told
from proreus.learning.tensor_lanes.shown_lanes import HOLD
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.training.device.events import LaneRules
from proreus.worlds.pods.training.device.fused.events import move
from proreus.worlds.pods.training.device.fused.layout import columns_of, room_for, sizes_of, widened
from proreus.worlds.pods.training.device.fused.look import look
from proreus.worlds.pods.training.device.step import Seen
from proreus.worlds.pods.training.device.tables import Tables
from proreus.worlds.pods.training.device.world import DeviceWorld

EVENTS = 8
"""Events of a lane between two looks: a lane that has come to a choice before waits for nobody."""


EXACT = {"enable_fp_fusion": False}
"""Sums are those of the host: no product is fused with a sum."""
_MANY_LANES, _REGISTERS = 4_096, 128
"""From how many lanes on fewer registers for each leave room for more of them at once."""


class FusedWorld(DeviceWorld):
    """The same rules and columns; what is seen is written where it was seen before."""

    def __init__(self, tables: Tables, rules: LaneRules, rng: Tensor, events: int = EVENTS) -> None:
        tables = widened(tables)
        super().__init__(tables, rules, rng, events)
        self._columns = columns_of(tables, self.state)
        self._sizes = sizes_of(tables, rules, self.state, events)
        lanes, device = rng.shape[0], rng.device
        self._told = Told(
            came=torch.zeros(lanes, dtype=torch.bool, device=device),
            reward=torch.zeros(lanes, dtype=torch.float64, device=device),
            ended=torch.zeros(lanes, dtype=torch.bool, device=device),
            own=torch.zeros(0, device=device),
        )
        self._held = torch.full((lanes,), HOLD, device=device)
        few = {"maxnreg": _REGISTERS} if lanes >= _MANY_LANES else {}
        self._move_options: dict[str, Any] = {"num_warps": 1, **few, **EXACT}
        # Blocks of GPUs hold the devices of every node, too.
        self._look_options: dict[str, Any] = {"num_warps": 4 if tables.gpus else 1, **EXACT}

    @staticmethod
    def room(tables: Tables) -> int:
        """For how many pods of a lane."""
        return room_for(tables)

    def least_bytes(self, seen: Seen) -> int:
        """Columns of nodes, and what is seen of them: written once here, and read once by the network."""
        nodes, of = self.state.nodes, self.tables.lanes
        read = [getattr(nodes, column.name) for column in fields(nodes)]
        read += [of.allocatable, of.gpu_count, of.model, of.pace, of.order, of.domain]
        return sum(
            tensor.numel() * tensor.element_size()
            for tensor in (*read, *2 * (seen.rows, seen.context, seen.legal), seen.devices)
        )

    def look(self) -> Seen:
        """What every lane stands at, in columns of its own."""
        lanes, nodes, device = len(self._held), self.nodes, self._held.device
        seen = Seen(
            rows=torch.zeros((lanes, nodes, len(PAIR_FEATURES)), device=device),
            context=torch.zeros((lanes, len(CONTEXT_FEATURES)), device=device),
            legal=torch.zeros((lanes, nodes), dtype=torch.bool, device=device),
            devices=torch.zeros((lanes, nodes), dtype=torch.int64, device=device),
            preempts=torch.zeros(lanes, dtype=torch.bool, device=device),
            ready=torch.ones(lanes, dtype=torch.bool, device=device),  # and all are held: nothing is told
        )
        self._look(seen, self._held)
        return seen

    def step(self, seen: Seen, action: Tensor) -> tuple[Seen, Told]:
        """One step of all lanes; what is seen then stands in the same columns."""
        move[(len(self._held),)](self._columns, seen, action, self._sizes, **self._move_options)
        self._look(seen, action)
        told = self._told
        return seen, Told(told.came, told.reward, told.ended, told.reward)

    def _look(self, seen: Seen, action: Tensor) -> None:
        look[(len(self._held),)](
            self._columns,
            seen,
            self._told,
            action,
            self._sizes,
            **self._look_options,
        )
