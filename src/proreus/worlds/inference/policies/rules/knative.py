"""Knative's autoscaler (KPA)."""

from __future__ import annotations

import math
from collections import deque

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.policies.rules.work import USE_OF_ABILITY, concurrency_of
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen


class Kpa(Controller):
    """Concurrency over a minute, and over six seconds when there is panic."""

    stable, panic, panics_at, most_growth = 60.0, 6.0, 2.0, 10.0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._seen: dict[Role, deque[tuple[float, float]]] = {}
        self._panic_until: dict[Role, float] = {}
        self._panic_most: dict[Role, int] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """ceil(concurrency / (target * 0.7)); in panic never fewer than there were."""
        return {pool.role: self._target(seen, pool) for pool in seen.pools}

    def _target(self, seen: InferenceObservation, pool: PoolSeen) -> Target:
        window = self._seen.setdefault(pool.role, deque())
        window.append((seen.now, float(pool.running + pool.waiting + seen.at_router)))
        while window[0][0] <= seen.now - self.stable:
            window.popleft()
        each = concurrency_of(seen, pool.role) * USE_OF_ABILITY
        calm = sum(value for _, value in window) / len(window)
        recent = [value for at, value in window if at > seen.now - max(self.panic, seen.interval)]
        now = sum(recent) / len(recent)
        wanted, in_panic = math.ceil(calm / each), math.ceil(now / each)
        if in_panic >= self.panics_at * max(pool.active, 1):
            self._panic_until[pool.role] = seen.now + self.stable
        because = {"concurrency": calm, "lately": now, "each takes": each}
        if seen.now < self._panic_until.get(pool.role, -1.0):
            most = max(self._panic_most.get(pool.role, 0), in_panic, pool.coming)
            self._panic_most[pool.role] = most
            return Target(most, because)
        self._panic_most.pop(pool.role, None)
        return Target(min(wanted, math.ceil(max(pool.active, 1) * self.most_growth)), because)
