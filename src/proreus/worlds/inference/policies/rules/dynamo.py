"""The planner of NVIDIA Dynamo: a floor from a forecast of traffic, and a loop over pass times above it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.service import INTERACTIVE
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.policies.rules.work import backlog_seconds, works
from proreus.worlds.inference.state.forecast import forecast
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen

_SAMPLES, _ENOUGH = 64, 5


@dataclass
class PassTimes:
    """Seconds against load, as they were seen: a line that does not fall."""

    samples: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def learn(self, load: float, seconds: float) -> None:
        """What was seen of one interval."""
        self.samples.append((load, seconds))

    def at(self, load: float) -> float | None:
        """Seconds at a load; None before enough was seen."""
        if len(self.samples) < _ENOUGH:
            return None
        loads, seconds = np.array(self.samples).T
        spread = loads - loads.mean()
        slope = max(float(spread @ seconds) / max(float(spread @ spread), 1e-12), 0.0)
        return float(seconds.mean()) + slope * (load - float(loads.mean()))


class Dynamo(Controller):
    """Never fewer than traffic needs; one more where tokens would be late, one fewer where they would not.

    What users reported of the original is done right here: the time in the queue is part of the time to the
    first token, the survivors of a shrinking pool take N/(N-1) of its load, and intervals in which a pool
    changed teach nothing.
    """

    ttft, tbt = 0.5, 0.05
    """Seconds, on average, that are aimed at."""
    plan_seconds = 180.0
    """Between two forecasts of traffic."""
    sensitivity = 0.8
    """Of what is aimed at: below it with one instance fewer, one goes."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._planned_at = -math.inf
        self._floor: dict[Role, int] = {}
        self._active: dict[Role, int] = {}
        self._before: dict[Role, tuple[float, float]] = {}
        self._prompts: dict[Role, PassTimes] = {}
        self._tokens: dict[Role, PassTimes] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """The load loop at every decision, the floor every three minutes."""
        if seen.now - self._planned_at >= self.plan_seconds:
            self._plan(seen)
        self._learn(seen)
        targets: dict[Role, Target] = {}
        for pool in seen.pools:
            because = {"floor": float(self._floor[pool.role])}
            step = 0 if pool.starting else self._step(seen, pool, because)
            targets[pool.role] = Target(max(pool.coming + step, self._floor[pool.role]), because)
        return targets

    def _plan(self, seen: InferenceObservation) -> None:
        """ceil(demand / what an engine does), for the busiest moment until the next forecast is acted on."""
        history = works(seen)
        last = round((self.plan_seconds + seen.start_seconds) / seen.interval)
        ahead = range(1, max(last, 1) + 1, max(last // 6, 1))
        busiest = np.max([forecast(history, steps).expected for steps in ahead], axis=0)
        for pool, work in zip(seen.pools, busiest.tolist(), strict=True):
            self._floor[pool.role] = max(math.ceil(work), 1)
        self._planned_at = seen.now

    def _learn(self, seen: InferenceObservation) -> None:
        """What is seen now came of the load at the last look."""
        for pool in seen.pools:
            settled = self._active.get(pool.role) == pool.active and not pool.draining
            before = self._before.get(pool.role)
            self._active[pool.role] = pool.active
            self._before[pool.role] = self._loads(seen, pool)
            if not settled or before is None or not seen.traffic.ended:
                continue
            if pool.role != "token":
                self._prompts.setdefault(pool.role, PassTimes()).learn(before[0], seen.traffic.ttft)
            if pool.role != "prompt":
                late = seen.traffic.tbt_slack * INTERACTIVE.tbt
                self._tokens.setdefault(pool.role, PassTimes()).learn(before[1], late)

    def _loads(self, seen: InferenceObservation, pool: PoolSeen) -> tuple[float, float]:
        """(seconds of prompts, those at the router included; requests in a batch) an instance."""
        requests, prompts, _ = seen.history.mean(axis=0).tolist()
        at_router = seen.at_router * prompts / max(requests, 1e-9)
        rate = seen.ability(pool.role).prompt_tokens * max(pool.active, 1)
        return backlog_seconds(seen, pool) + at_router / rate, pool.running / max(pool.active, 1)

    def _step(self, seen: InferenceObservation, pool: PoolSeen, because: dict[str, float]) -> int:
        """One more, one fewer, or none."""
        fewer = pool.active / (pool.active - 1) if pool.active > 1 else math.inf
        up, down = False, pool.active > 1
        queued, running = self._loads(seen, pool)
        for what, times, load, aim in (
            ("first token", self._prompts.get(pool.role), queued, self.ttft),
            ("between tokens", self._tokens.get(pool.role), running, self.tbt),
        ):
            if times is None or load <= 0.0:  # nothing is late where there is nothing
                continue
            now = times.at(load)
            if now is None:
                down = False
                continue
            because[what] = now
            up |= now > aim
            if down:
                then = times.at(load * fewer)
                assert then is not None
                because[f"{what} with one fewer"] = then
                down = then < aim * self.sensitivity and pool.kv_use * fewer < 1.0
        return 1 if up else -1 if down else 0
