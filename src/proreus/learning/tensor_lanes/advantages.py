"""Advantages of lanes that come to their choices each in its own time. S rows of a rollout, E lanes."""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.learning.returns import advantage_steps
from proreus.learning.tensor_lanes.rollout import DeviceRollout


def choice_advantages(rollout: DeviceRollout, weights: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """(float64[S, E], bool[S, E]): advantages of the choices, and which of them have led to another.

    The choices of each lane are moved together, so that every one stands before the one that it led to; the
    last of a lane is not learned from, it says what comes after the others. Weights: discount, lambda.
    """
    rows, lanes = rollout.chose.shape
    place = torch.cumsum(rollout.chose, 0) - 1
    aside = torch.where(rollout.chose, place, rows)  # a row behind the last takes what is no choice
    last = rollout.chose.sum(0) - 1  # [E], -1 where there is none

    def together(column: Tensor) -> Tensor:
        room = torch.zeros((rows + 1, lanes), dtype=column.dtype, device=column.device)
        return room.scatter_(0, aside, column)[:rows]

    values, rewards, ended = (together(column) for column in (rollout.value, rollout.reward, rollout.ended))
    final = values.gather(0, last.clamp(min=0)[None])
    beyond = torch.arange(rows, device=place.device)[:, None] >= last
    # From the last choice on nothing is a surprise: an end whose reward is what was thought of it.
    values = torch.where(beyond, final, values)
    rewards = torch.where(beyond, final, torch.roll(rewards, -1, 0))
    ended = beyond | torch.roll(ended, -1, 0)
    following = torch.cat([values, final], 0)
    advantages = torch.stack(advantage_steps(rewards, ended, following, weights))
    learned = rollout.chose & (place < last)
    return advantages.gather(0, place.clamp(min=0)), learned
