"""Lanes as one environment: `ddqn` learns on what PPO learns on, from the same choices and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.lanes import BatchedPods, BatchOptions
from proreus.worlds.pods.training.lessons import Lessons


class LaneEnv:
    """One lane per workload. The seed of an episode says which of them plays, and draws its pods."""

    def __init__(self, workloads: Sequence[Compiled], lessons: Lessons, world: PodsOptions) -> None:
        options = BatchOptions(world=world)
        self._batch = BatchedPods(workloads, len(workloads), 0, lessons.horizon, lessons.reward, options)
        self._at = 0

    @property
    def nodes(self) -> int:
        """Of the largest cluster: smaller ones are padded with nodes that are never legal."""
        return self._batch.nodes

    def reset(self, *, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first choice of the episode that the seed determines."""
        drawn = seed or 0
        self._at = drawn % len(self._batch)
        self._batch.reset_one(self._at, drawn)
        return self._seen(), {}

    def step(self, action: Any, /) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Carry out a flat action; what is seen after the end is another episode's and counts for nothing."""
        reward, ended = self._batch.step_one(self._at, int(action))
        return self._seen(), reward, ended, False, {}

    def _seen(self) -> dict[str, Any]:
        seen = self._batch.observation_of(self._at)
        return {"nodes": seen.features, "context": seen.context, "action_mask": seen.mask}
