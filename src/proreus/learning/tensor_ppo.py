"""PPO over rows whose lanes are tensors: rollout, advantages and minibatches stay where the network is.

The algorithm and settings of `learning.ppo`. What is different: lanes come to their choices each in its own
time, so that an update learns from at most as many choices as it has steps. The host draws the order of the
minibatches and is told each loss. E lanes, S rows of a rollout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch

from proreus.contract.lanes import Arrays, Lanes
from proreus.learning.learner_state import part_of, under
from proreus.learning.ppo import Played, PPOConfig, PPOLearner
from proreus.learning.tensor_lanes.advantages import choice_advantages
from proreus.learning.tensor_lanes.rollout import (
    DevicePlayer,
    DeviceRollout,
    Judged,
    SeenChoices,
    TensorWorld,
)
from proreus.model.errors import WorkError
from proreus.policies.networks.torch_threads import few_torch_threads


class PlaceSeen(SeenChoices, Protocol):
    """Every row may be chosen, where it is legal."""

    @property
    def legal(self) -> torch.Tensor:
        """bool[E, R]"""
        ...


class PlaceLanes(Lanes, Protocol):
    """Lanes as tensors, and as the contract shows them."""

    device: torch.device

    @property
    def seen(self) -> Any:
        """`PlaceSeen`"""
        ...

    @seen.setter
    def seen(self, seen: Any) -> None: ...

    @property
    def world(self) -> TensorWorld:
        """What is stepped."""
        ...

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Every lane where it stood when it was captured, also between two choices."""
        ...


class TensorPPOLearner(PPOLearner):
    """Plays and learns on one device."""

    def __init__(self, config: PPOConfig, lanes: PlaceLanes, initial: Arrays | None = None) -> None:
        super().__init__(config, lanes, initial)
        self._there = lanes
        self._player = DevicePlayer(lanes, self._judge, config.rollout_steps)

    def _judge(self, seen: PlaceSeen) -> Judged:
        allowed = seen.legal | ~seen.ready[:, None]
        logits, value = self.network(seen.rows, seen.context, allowed)
        return Judged(allowed, torch.log_softmax(logits, 1), value.double())

    def play_there(self) -> DeviceRollout:
        """One rollout of every lane, which stays on the device."""
        return self._player.play()

    @few_torch_threads()
    def update(self) -> dict[str, float]:
        """Play a rollout and learn from it; returns in the world's own terms."""
        rollout, config = self.play_there(), self._config
        advantage, learned = choice_advantages(rollout, (config.discount, config.gae_lambda))
        chosen = learned.flatten().nonzero()[:, 0]
        if len(chosen) < config.minibatches:
            raise WorkError(f"ppo: {len(chosen)} choices in an update, fewer than its minibatches")
        known = advantage.flatten()[chosen]
        columns = rollout.columns()
        rows, context, allowed, action, log, value = (
            columns[name].flatten(0, 1)[chosen]
            for name in ("rows", "context", "allowed", "action", "log_chance", "value")
        )
        scaled = (known - known.mean()) / (known.std(correction=0) + 1e-8)
        played = Played(rows, context, allowed, action, log, scaled.float(), (known + value).float())
        figures = self.learn_from(played, learned[1:-1].numel())
        ended, total = self._there.world.ended_returns()
        if ended:
            self._returns.episodes += ended
            self._returns.latest = [total / ended]
        return {**figures, "return": self._returns.mean}

    def capture(self) -> Arrays:
        """The whole learner, copied; take it between two updates."""
        rollout = self._player.rollout.columns()
        noted = {name: column.cpu().numpy().copy() for name, column in rollout.items()}
        return {**super().capture(), **under("rollout", noted)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the captured learner."""
        super().restore(state)
        self._player.restart()
        saved = part_of(state, "rollout")
        for name, column in self._player.rollout.columns().items():
            if name not in saved or saved[name].shape != tuple(column.shape):
                raise WorkError(f"the saved state does not fit: rollout.{name}")
            column.copy_(torch.from_numpy(np.array(saved[name])))

    def _take_up_lanes(self, saved: Arrays) -> None:
        """Not to their next choices, as `restore` goes on: the rewards on the way would be lost."""
        self._there.take_up(saved)
