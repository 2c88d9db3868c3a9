"""AIBrix's autoscaler (APA)."""

from __future__ import annotations

import math

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.policies.rules.work import use_of
from proreus.worlds.inference.state.observation import InferenceObservation


class Apa(Controller):
    """In proportion to use, a tenth of tolerance, five minutes before it shrinks."""

    target, tolerance, rest, most_growth, most_shrinking = 0.6, 0.1, 300.0, 2.0, 2.0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._grown: dict[Role, float] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """ceil(instances * use / target) where use is outside the tolerance."""
        targets: dict[Role, Target] = {}
        for pool in seen.pools:
            because = use_of(seen, pool)
            use, active = max(because.values()), max(pool.active, 1)
            count = pool.coming
            if use > self.target * (1 + self.tolerance):
                wanted = min(math.ceil(active * use / self.target), math.ceil(active * self.most_growth))
                count = max(wanted, pool.coming)
                self._grown[pool.role] = seen.now
            elif use < self.target * (1 - self.tolerance):
                wanted = max(math.ceil(active * use / self.target), math.ceil(active / self.most_shrinking))
                rested = seen.now - self._grown.get(pool.role, -math.inf) >= self.rest
                count = min(wanted, pool.coming) if rested else pool.coming
            targets[pool.role] = Target(count, {**because, "wanted use": self.target})
        return targets
