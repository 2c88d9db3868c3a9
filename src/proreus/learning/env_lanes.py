"""An environment with Gymnasium's methods as one lane, without the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError


class MaskedEnv(Protocol):
    """What is asked of an environment; an observation is a dict of `nodes` [N, F], `context` [G] and
    `action_mask` [K]."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the episode that the seed determines."""
        ...

    def step(self, action: Any, /) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""
        ...


class EnvLanes:
    """One episode at a time; whoever learns begins the next one with a seed of its own."""

    encoding = ""

    def __init__(self, env: MaskedEnv) -> None:
        self._env = env

    def __len__(self) -> int:
        return 1

    def reset(self, seed: int) -> Choices:
        """Begin the episode that the seed determines."""
        return _choices(self._env.reset(seed=seed)[0])

    def step(self, chosen: I64) -> Steps:
        seen, reward, terminated, truncated, _ = self._env.step(int(chosen[0]))
        rewards, ended = np.array([float(reward)]), np.array([bool(terminated or truncated)])
        return Steps(_choices(seen), rewards, ended, rewards, np.array([bool(truncated) and not terminated]))

    def capture(self) -> Arrays:
        """Refused: an environment cannot be saved in the middle of an episode."""
        raise UsageError("an environment cannot be saved: play its episodes again from their seeds")

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Refused, like `capture`."""
        del saved
        raise UsageError("an environment cannot be saved: play its episodes again from their seeds")


def _choices(seen: Any) -> Choices:
    """Copied: the environment may change what it has shown."""
    rows, context, mask = (np.array(seen[name])[np.newaxis] for name in ("nodes", "context", "action_mask"))
    return Choices(rows, context, mask.astype(np.bool_))
