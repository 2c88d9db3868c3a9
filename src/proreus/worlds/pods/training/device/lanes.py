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
from torch import Tensor

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import I64
from proreus.learning.tensor_lanes.rollout import Told
from proreus.model.errors import IllegalDecision, UsageError, WorkError
from proreus.worlds.pods.encoding.pair import VERSION
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.base_pods import Reward, base_pods
from proreus.worlds.pods.training.batched_lanes import LANES_APART, BatchOptions
from proreus.worlds.pods.training.device.columns import NEW_EPISODE, LaneState, new_state
from proreus.worlds.pods.training.device.events import LaneRules
from proreus.worlds.pods.training.device.step import HOLD, Seen, look, step
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

    def check(self) -> None:
        """Refuse to go on where no episode leaves anything to choose. Waits for the device."""
        if bool((self.state.lanes.empty > _MOST_EMPTY).any()):
            raise WorkError("a world cannot go on: no episode leaves anything to choose")


class DeviceLanes:
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
        self.compiled, self.device = tuple(several), torch.device(options.device)
        bases = [base_pods(each, horizon, reward) for each in several]
        tables = tables_of(several, bases, np.arange(count) % len(several), self.device)
        rules = LaneRules(
            options=options.world,
            completion=reward == "completion",
            redraw=options.redraw,
            may_delay=options.may_delay,
            may_reject=options.may_reject,
        )
        self.world = DeviceWorld(tables, rules, self._seeds(count, seed))
        self.nodes = self.world.nodes
        self._seen: Seen | None = None

    def _seeds(self, count: int, seed: int) -> Tensor:
        wrapped = [(seed * LANES_APART + i) % 2**64 for i in range(count)]
        return torch.from_numpy(np.array(wrapped, dtype=np.uint64).view(np.int64)).to(self.device)

    def __len__(self) -> int:
        return self.world.state.lanes.phase.shape[0]

    @property
    def seen(self) -> Seen:
        """What every lane stands at, ready or not."""
        if self._seen is None:
            self._seen = self.world.look()
        return self._seen

    @seen.setter
    def seen(self, seen: Seen) -> None:
        self._seen = seen

    def reset(self, seed: int | None = None) -> Choices:
        """Every lane at the first choice of a new episode; a seed begins anew what the lanes draw."""
        lanes = self.world.state.lanes
        if seed is not None:
            lanes.rng.copy_(self._seeds(len(self), seed))
        lanes.phase.fill_(NEW_EPISODE)
        lanes.reward.zero_()
        lanes.ended.zero_()
        self._seen = None
        return self.observe()

    def observe(self) -> Choices:
        """Every lane where it stands; brings new lanes to their first choice."""
        self._go_on(torch.full((len(self),), HOLD, device=self.device))
        return self._choices()

    def step(self, chosen: I64) -> Steps:
        """Carry out actions: int64[E], flat numbers in terms of the batch's N, as `BatchedPods` has them."""
        legal = self._choices().legal
        for i, action in enumerate(chosen.tolist()):
            if not 0 <= action < legal.shape[1] or not legal[i, action]:
                raise IllegalDecision(f"action {action} of lane {i}: illegal action")
        flat = torch.from_numpy(chosen).to(self.device)
        nodes = self.nodes
        places = torch.where(flat >= nodes, flat - nodes, flat)
        rewards, ended = self._go_on(places)
        return Steps(self._choices(), rewards, ended, rewards)

    def _go_on(self, action: Tensor) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Until every lane stands at a choice; those that do so before wait for the others."""
        rewards, ended = np.zeros(len(self)), np.zeros(len(self), dtype=np.bool_)
        hold = torch.full_like(action, HOLD)
        waiting = bool((action == HOLD).all())
        while not waiting or not bool(self.seen.ready.all()):
            self._seen, told = self.world.step(self.seen, action)
            came = told.came.cpu().numpy()
            rewards[came] = told.reward.cpu().numpy()[came]
            ended[came] = told.ended.cpu().numpy()[came]
            self.world.check()
            action, waiting = hold, True
        return rewards, ended

    def _choices(self) -> Choices:
        seen = self.seen
        rules, lanes = self.world.rules, len(self)
        placing = seen.legal & ~seen.preempts[:, None]
        preempting = seen.legal & seen.preempts[:, None]
        heads = torch.tensor([rules.may_delay, rules.may_reject], device=self.device).expand(lanes, 2)
        legal = torch.cat([placing, preempting, heads], 1)
        return Choices(*(tensor.cpu().numpy().copy() for tensor in (seen.rows, seen.context, legal)))

    def capture(self) -> Arrays:
        """Everything that changes, by name: restored, the batch goes on as if nothing had happened."""
        return {name: column.cpu().numpy().copy() for name, column in self.world.state.named().items()}

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Take up what `capture` of an equal batch returned."""
        for name, column in self.world.state.named().items():
            known = saved.get(name)
            if known is None or known.shape != tuple(column.shape):
                raise WorkError(f"the saved state does not fit: {name}")
            column.copy_(torch.from_numpy(np.array(known)))
        self._seen = None
        return self.observe()
