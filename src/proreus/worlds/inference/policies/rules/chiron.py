"""Chiron: back-pressure of interactive requests, batch requests in what is left."""

from __future__ import annotations

import math

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.policies.rules.work import backlog_seconds, work_lately
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen


class Chiron(Controller):
    """At most six in ten instances are busy with what cannot wait; what can wait fills the rest.

    Back-pressure is the share of a pool that arriving work keeps busy. What waits starts nothing until it
    would wait longer than batch requests may.
    """

    most_busy = 0.6
    window = 60.0
    """Seconds over which arriving work is counted."""
    batch_wait = 30.0
    """Seconds that batch requests may wait for their first token."""

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """Pools for themselves."""
        work = work_lately(seen, self.window)
        return {pool.role: self._target(seen, pool, work[pool.role]) for pool in seen.pools}

    def _target(self, seen: InferenceObservation, pool: PoolSeen, work: float) -> Target:
        pressure, waits = work / max(pool.active, 1), backlog_seconds(seen, pool)
        because = {"back-pressure": pressure, "work": work, "seconds pending": waits}
        count = pool.coming
        if work / max(pool.coming, 1) > self.most_busy:
            count = math.ceil(work / self.most_busy)
        elif pool.coming > 1 and work / (pool.coming - 1) <= self.most_busy and waits < 1.0:
            count = pool.coming - 1
        if waits > self.batch_wait and not pool.starting:
            count = max(count, pool.coming + 1)
        return Target(count, because)
