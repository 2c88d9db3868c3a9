"""Lanes of pods on a device, behind the contract of all lanes.

`DeviceLanes` is what a learner on the device steps without a word to the host (`DeviceLanes.world`), and what
`reset` and `step` show as host arrays, so that conformance can be told: the same episodes as `BatchedPods`
plays from the same seed, choice by choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from proreus.contract.lanes import Choices, Steps
from proreus.kernels.arrays import I64
from proreus.learning.tensor_lanes.rollout import Told
from proreus.learning.tensor_lanes.shown_lanes import ShownLanes, lane_seeds
from proreus.model.errors import UsageError, WorkError
from proreus.worlds.pods.encoding.pair import VERSION
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.base_pods import Reward, base_pods
from proreus.worlds.pods.training.batched_lanes import LANES_APART, BatchOptions
from proreus.worlds.pods.training.device.columns import NEW_EPISODE, LaneState, new_state
from proreus.worlds.pods.training.device.events import LaneRules
from proreus.worlds.pods.training.device.step import Seen, look, step
from proreus.worlds.pods.training.device.tables import Tables, tables_of

EVENTS = 2
"""Events of a lane between two looks: more lanes come to a choice in a step, and a step takes longer."""
_MOST_EMPTY = 100


class DeviceWorld:
    """All lanes on the device: the rules, the state, and the step over both."""

    def __init__(self, tables: Tables, rules: LaneRules, rng: Tensor, events: int = EVENTS) -> None:
        self.tables, self.rules, self.events = tables, rules, events
        self.state: LaneState = new_state(tables, rng)
        self.nodes = tables.lanes.allocatable.shape[1]

    @property
    def rng(self) -> Tensor:
        """int64[E]"""
        return self.state.lanes.rng

    def columns(self) -> dict[str, Tensor]:
        """Everything that changes, by name."""
        return self.state.named()

    def look(self) -> Seen:
        """What every lane stands at."""
        return look(self.tables, self.rules, self.state)

    def step(self, seen: Seen, action: Tensor) -> tuple[Seen, Told]:
        """One step of all lanes; see `step.step`."""
        return step(self.tables, self.rules, self.state, seen, action, self.events)

    def ended_returns(self) -> tuple[int, float]:
        """(episodes that ended since this was asked last, the sum of their returns). Waits for the device."""
        lanes = self.state.lanes
        ended = int(lanes.ended_episodes.sum()), float(lanes.ended_total.sum())
        lanes.ended_episodes.zero_()
        lanes.ended_total.zero_()
        return ended

    def begin_anew(self) -> None:
        """Every lane before the first choice of a new episode."""
        lanes = self.state.lanes
        lanes.phase.fill_(NEW_EPISODE)
        lanes.reward.zero_()
        lanes.ended.zero_()

    def check(self) -> None:
        """Refuse to go on where no episode leaves anything to choose. Waits for the device."""
        if bool((self.state.lanes.empty > _MOST_EMPTY).any()):
            raise WorkError("a world cannot go on: no episode leaves anything to choose")


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
        self.world = DeviceWorld(tables, rules, seeds)
        self.nodes = self.world.nodes
        super().__init__(self.world, self.device, LANES_APART)

    def step(self, chosen: I64) -> Steps:
        """Carry out actions: int64[E], flat numbers in terms of the batch's N, as `BatchedPods` has them."""
        self.check_legal(chosen)
        flat = torch.from_numpy(chosen).to(self.device)
        places = torch.where(flat >= self.nodes, flat - self.nodes, flat)
        return self.go_on(places)

    def choices(self) -> Choices:
        """Rows of nodes; placing, preempting, delaying, rejecting."""
        seen: Seen = self.seen
        rules, lanes = self.world.rules, len(self)
        placing = seen.legal & ~seen.preempts[:, None]
        preempting = seen.legal & seen.preempts[:, None]
        heads = torch.tensor([rules.may_delay, rules.may_reject], device=self.device).expand(lanes, 2)
        legal = torch.cat([placing, preempting, heads], 1)
        return Choices(*(tensor.cpu().numpy().copy() for tensor in (seen.rows, seen.context, legal)))
