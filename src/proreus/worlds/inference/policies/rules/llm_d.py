"""The workload variant autoscaler of llm-d (WVA), its analyser of saturation."""

from __future__ import annotations

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen


class Wva(Controller):
    """One more where little is spare, one fewer where enough is spare without it; never while one starts.

    A pool is full at a KV use of 0.8 or five waiting requests an instance; it is to have 0.1 and three of
    them spare. What is spare is of the whole pool, where llm-d averages over the instances that are not full.
    """

    kv_limit, kv_spare = 0.80, 0.10
    queue_limit, queue_spare = 5.0, 3.0
    down_after = 240.0
    """Seconds that fewer must be enough: the stabilisation of the autoscaler that carries it out."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._enough_since: dict[Role, float] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """Pools for themselves."""
        return {pool.role: self._target(seen, pool) for pool in seen.pools}

    def _target(self, seen: InferenceObservation, pool: PoolSeen) -> Target:
        active = max(pool.active, 1)
        queue = (pool.waiting + seen.at_router) / active
        spare_kv, spare_queue = self._spare(pool.kv_use, queue, 1.0)
        because = {"spare KV": spare_kv, "spare queue": spare_queue, "starting": float(len(pool.starting))}
        if pool.starting:
            return Target(pool.coming, because)
        if spare_kv < self.kv_spare or spare_queue < self.queue_spare:
            self._enough_since.pop(pool.role, None)
            return Target(pool.active + 1, because)
        if pool.active > 1:
            left_kv, left_queue = self._spare(pool.kv_use, queue, pool.active / (pool.active - 1))
            because |= {"spare KV with one fewer": left_kv, "spare queue with one fewer": left_queue}
            if left_kv >= self.kv_spare and left_queue >= self.queue_spare:
                since = self._enough_since.setdefault(pool.role, seen.now)
                if seen.now - since >= self.down_after:
                    self._enough_since[pool.role] = seen.now
                    return Target(pool.active - 1, because)
                return Target(pool.active, because)
        self._enough_since.pop(pool.role, None)
        return Target(pool.active, because)

    def _spare(self, kv_use: float, queue: float, share: float) -> tuple[float, float]:
        """(KV, queue) that is left where each instance takes so many times its load."""
        return max(self.kv_limit - kv_use * share, 0.0), max(self.queue_limit - queue * share, 0.0)
