"""Lanes on a device as the contract of all lanes shows them: host arrays, every lane at a choice.

What a learner on the device steps is `world`, without a word to the host. `observe`, `step` and
`restore` are for those who look from outside, as conformance does; `capture` and `take_up` for saved runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import I64
from proreus.learning.tensor_lanes.rollout import TensorWorld
from proreus.model.errors import IllegalDecision, WorkError
from proreus.policies.networks.torch_threads import few_torch_threads

HOLD = -1
"""In place of an action: the lane stays at its choice."""


class ResettableWorld(TensorWorld, Protocol):
    """What is shown."""

    def begin_anew(self) -> None:
        """Every lane before the first choice of a new episode."""
        ...

    def check(self) -> None:
        """Refuse to go on where no episode leaves anything to choose. Waits for the device."""
        ...


class ShownLanes(ABC):
    """E lanes; what their choices look like and how actions are numbered is the world's affair."""

    def __init__(self, world: ResettableWorld, device: torch.device, lanes_apart: int) -> None:
        """lanes_apart: between the seeds of two batches, as the host's lanes have it."""
        self._shown, self.device, self._apart = world, device, lanes_apart
        self._seen: Any = None

    def __len__(self) -> int:
        return self._shown.rng.shape[0]

    @property
    def seen(self) -> Any:
        """What every lane stands at, ready or not."""
        if self._seen is None:
            self._seen = self._shown.look()
        return self._seen

    @seen.setter
    def seen(self, seen: Any) -> None:
        self._seen = seen

    @abstractmethod
    def choices(self) -> Choices:
        """What is seen as host arrays."""

    def reset(self, seed: int | None = None) -> Choices:
        """Every lane at the first choice of a new episode; a seed begins anew what the lanes draw."""
        if seed is not None:
            self._shown.rng.copy_(lane_seeds(len(self), seed, self._apart))
        self._shown.begin_anew()
        self._seen = None
        return self.observe()

    def observe(self) -> Choices:
        """Every lane where it stands; brings new lanes to their first choice."""
        return self.go_on(torch.full((len(self),), HOLD, device=self.device)).choices

    def check_legal(self, chosen: I64) -> None:
        """Refuse actions that are not legal, before anything is done."""
        legal = self.choices().legal
        for i, action in enumerate(chosen.tolist()):
            if not 0 <= action < legal.shape[1] or not legal[i, action]:
                raise IllegalDecision(f"action {action} of lane {i}: illegal action")

    @few_torch_threads()
    def go_on(self, action: Tensor) -> Steps:
        """Until every lane stands at a choice; those that do so before wait for the others."""
        rewards, own = np.zeros(len(self)), np.zeros(len(self))
        ended = np.zeros(len(self), dtype=np.bool_)
        hold = torch.full_like(action, HOLD)
        waiting = bool((action == HOLD).all())
        while not waiting or not bool(self.seen.ready.all()):
            self._seen, told = self._shown.step(self.seen, action)
            came = told.came.cpu().numpy()
            for column, news in ((rewards, told.reward), (ended, told.ended), (own, told.own)):
                column[came] = news.cpu().numpy()[came]
            self._shown.check()
            action, waiting = hold, True
        return Steps(self.choices(), rewards, ended, own)

    def capture(self) -> Arrays:
        """Everything that changes, by name: restored, the batch goes on as if nothing had happened."""
        return {name: column.cpu().numpy().copy() for name, column in self._shown.columns().items()}

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Take up what `capture` of an equal batch returned, and show every lane at a choice."""
        self.take_up(saved)
        return self.observe()

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Every lane where it stood, also between two choices: what it is owed is told at the next."""
        for name, column in self._shown.columns().items():
            known = saved.get(name)
            if known is None or known.shape != tuple(column.shape):
                raise WorkError(f"the saved state does not fit: {name}")
            column.copy_(torch.from_numpy(np.array(known)))
        self._seen = None


def lane_seeds(count: int, seed: int, apart: int) -> Tensor:
    """int64[E]: the first state of each lane's generator, with the bits of the host's uint64."""
    wrapped = [(seed * apart + i) % 2**64 for i in range(count)]
    return torch.from_numpy(np.array(wrapped, dtype=np.uint64).view(np.int64))
