"""What the lanes of a device played, and the step in which a network plays: nothing of it comes to the host.

Lanes come to their choices when they come to them: a rollout has T steps, and a lane has a choice in most of
them. Row 0 is the choice that was still under way when the rollout before it ended; rows 1 to T were played;
row T + 1 is what the lanes stand at in the end. A reward stands in the row of the choice that it led to.
S = T + 2 rows, K = N + 2 actions; other letters as in `tables`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from proreus.worlds.pods.policies.torch_networks import bids_of, parts_of
from proreus.worlds.pods.training.cuda_graphs import replayed
from proreus.worlds.pods.training.device.lanes import DeviceLanes
from proreus.worlds.pods.training.device.splitmix import ahead, next_unit
from proreus.worlds.pods.training.device.step import Seen

MEAN, SPREAD = range(2)


@dataclass(eq=False)
class DeviceRollout:
    """[S, E, ..] each."""

    rows: Tensor  # float32[S, E, N, F]
    context: Tensor  # float32[S, E, G]
    allowed: Tensor  # bool[S, E, K]; all where there is no choice, so that nothing is undefined
    action: Tensor  # int64
    log_chance: Tensor  # float32
    value: Tensor  # float64, in the terms of rewards
    chose: Tensor  # bool: there was a choice
    reward: Tensor  # float64: since the choice before
    ended: Tensor  # bool: since the choice before


def new_rollout(lanes: DeviceLanes, steps: int) -> DeviceRollout:
    """Room for so many steps."""
    seen, device = lanes.seen, lanes.device
    wide = (steps + 2, len(lanes))
    return DeviceRollout(
        rows=torch.zeros((*wide, *seen.rows.shape[1:]), device=device),
        context=torch.zeros((*wide, seen.context.shape[1]), device=device),
        allowed=torch.ones((*wide, lanes.nodes + 2), dtype=torch.bool, device=device),
        action=torch.zeros(wide, dtype=torch.int64, device=device),
        log_chance=torch.zeros(wide, device=device),
        value=torch.zeros(wide, dtype=torch.float64, device=device),
        chose=torch.zeros(wide, dtype=torch.bool, device=device),
        reward=torch.zeros(wide, dtype=torch.float64, device=device),
        ended=torch.zeros(wide, dtype=torch.bool, device=device),
    )


class DevicePlayer:
    """Plays the lanes with the parameters, step after step, and notes what happens."""

    def __init__(self, lanes: DeviceLanes, params: Tensor, returns: Tensor, steps: int) -> None:
        """params: where they are learned; returns: float64[2], mean and spread of what values stand for."""
        self._lanes, self._params, self._returns, self._steps = lanes, params, returns, steps
        self.rollout = new_rollout(lanes, steps)
        self._seen = Seen(*(tensor.clone() for tensor in lanes.seen))
        self._row = torch.ones(1, dtype=torch.int64, device=lanes.device)
        heads = [lanes.world.rules.may_delay, lanes.world.rules.may_reject]
        self._heads = torch.tensor(heads, device=lanes.device).expand(len(lanes), 2)
        kept = [*lanes.world.state.named().values(), *self._seen, self._row, *self._columns()]
        self._play_step = replayed(self.play_step, kept, lanes.device)
        self._look = replayed(self._look_last, kept, lanes.device)

    def _columns(self) -> list[Tensor]:
        return [getattr(self.rollout, column.name) for column in fields(DeviceRollout)]

    @torch.no_grad()
    def play(self) -> DeviceRollout:
        """One rollout of every lane."""
        self._carry()
        self._row.fill_(1)
        for _ in range(self._steps):
            self._play_step()
        self._look()
        self._lanes.seen = self._seen
        return self.rollout

    def restart(self) -> None:
        """Take up what the lanes stand at, which somebody else has moved; nothing is under way."""
        for mine, theirs in zip(self._seen, self._lanes.world.look(), strict=True):
            mine.copy_(theirs)
        self.rollout.chose.zero_()

    def _carry(self) -> None:
        """The last choice of each lane, where it was carried out and has not led to another, to row 0."""
        rollout = self.rollout
        rows = torch.arange(self._steps + 2, device=self._row.device)[:, None]
        last = torch.where(rollout.chose, rows, -1).amax(0)
        under_way = (last >= 0) & (last <= self._steps)
        place = last.clamp(min=0)
        lanes = torch.arange(place.shape[0], device=place.device)
        for column in self._columns():
            column[0] = column[place, lanes]
        rollout.chose[0] = under_way
        rollout.allowed[0] |= ~under_way[:, None]

    def play_step(self) -> None:
        """Choose in every lane that has a choice, carry it out, look again."""
        state = self._lanes.world.state.lanes
        seen, row = self._seen, self._row
        allowed, logs, value = self._judged(seen)
        state.rng.copy_(torch.where(seen.ready, ahead(state.rng, 1), state.rng))
        places = torch.arange(allowed.shape[1], device=row.device)
        passed = torch.cumsum(logs.exp().double(), 1) <= next_unit(state.rng)[:, None]
        last = torch.where(allowed, places, 0).amax(1)
        action = torch.minimum(passed.sum(1), last)
        log_chance = logs.gather(1, action[:, None])[:, 0]
        self._note(seen, allowed, value, row)
        self.rollout.action.index_copy_(0, row, action[None])
        self.rollout.log_chance.index_copy_(0, row, log_chance[None])
        now, told = self._lanes.world.step(seen, action)
        for mine, new in zip(self._seen, now, strict=True):
            mine.copy_(new)
        row.add_(1)
        self.rollout.reward.index_copy_(0, row, told.reward[None])
        self.rollout.ended.index_copy_(0, row, told.ended[None])

    def _look_last(self) -> None:
        """Note what the lanes stand at after the last step."""
        allowed, _, value = self._judged(self._seen)
        self._note(self._seen, allowed, value, self._row)

    def _judged(self, seen: Seen) -> tuple[Tensor, Tensor, Tensor]:
        """(what is allowed, logarithms of the chances, value in the terms of rewards)."""
        bids, heads, value = bids_of(parts_of(self._params), seen.rows, seen.legal, seen.context)
        allowed = torch.cat([seen.legal, self._heads], 1) | ~seen.ready[:, None]
        logits = torch.cat([bids, heads], 1).masked_fill(~allowed, -math.inf)
        real = value.double() * self._returns[SPREAD] + self._returns[MEAN]
        return allowed, torch.log_softmax(logits, 1), real

    def _note(self, seen: Seen, allowed: Tensor, value: Tensor, row: Tensor) -> None:
        rollout = self.rollout
        rollout.rows.index_copy_(0, row, seen.rows[None])
        rollout.context.index_copy_(0, row, seen.context[None])
        rollout.allowed.index_copy_(0, row, allowed[None])
        rollout.value.index_copy_(0, row, value[None])
        rollout.chose.index_copy_(0, row, seen.ready[None])
