"""The simplest rules: nothing, and thresholds of use."""

from __future__ import annotations

import math

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.policies.rules.work import use_of
from proreus.worlds.inference.state.observation import InferenceObservation


class Static(Controller):
    """The cluster stays as it began."""

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """As many as there are."""
        return {pool.role: Target(pool.coming, {"as it is": float(pool.coming)}) for pool in seen.pools}


class Threshold(Controller):
    """More instances above a use of 0.8, fewer below 0.3, as queues and KV memory say."""

    high, low, calm = 0.8, 0.3, 60.0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._calm_since: dict[Role, float] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """One step a decision; down only after a minute without need."""
        targets: dict[Role, Target] = {}
        for pool in seen.pools:
            because = use_of(seen, pool)
            use, count = max(because.values()), pool.coming
            if use >= self.low:
                self._calm_since.pop(pool.role, None)
            if use > self.high and not pool.starting:
                count = math.ceil(pool.active * min(use / self.high, 2.0))
            elif use < self.low:
                since = self._calm_since.setdefault(pool.role, seen.now)
                if seen.now - since >= self.calm:
                    count -= 1
                    self._calm_since[pool.role] = seen.now
            targets[pool.role] = Target(count, because)
        return targets
