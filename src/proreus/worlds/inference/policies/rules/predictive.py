"""What a careful engineer would write: a forecast for when a start is over, with a margin that was earned."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Migrating, Target
from proreus.worlds.inference.policies.rules.work import works
from proreus.worlds.inference.state.forecast import Smoothing, forecast
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen


@dataclass(frozen=True)
class Margins:
    """The constants of the rule, tuned on parts for training alone."""

    prompt_use: float = 0.8
    token_use: float = 0.9
    mixed_use: float = 0.7
    """The share of what instances can do that is asked of them."""
    quantile: float = 0.9
    """How often the load is to stay below what is prepared for."""
    drain_seconds: float = 20.0
    """In which a queue that is still there when instances are ready is to go."""
    hold_seconds: float = 120.0
    """For which fewer must have been enough before any goes."""
    slack: float = 0.05
    """Share of use that must be free after one has gone: it does not come back at once."""
    smoothing: Smoothing = field(default_factory=Smoothing)

    def use(self, role: Role) -> float:
        """Of a pool."""
        match role:
            case "prompt":
                return self.prompt_use
            case "token":
                return self.token_use
            case "mixed":
                return self.mixed_use


class Predictive(Migrating):
    """Forecast at the end of a start, plus how far forecasts were off, plus the queue; slow to shrink."""

    margins = Margins()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._needs: dict[Role, list[tuple[float, int]]] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """As many as will be needed when one that is ordered now is ready, and as are needed until then."""
        history = works(seen)
        steps = max(math.ceil((seen.start_seconds + seen.interval) / seen.interval), 1)
        then = forecast(history, steps, self.margins.quantile, self.margins.smoothing)
        soon = forecast(history, 1, self.margins.quantile, self.margins.smoothing)
        found: dict[Role, Target] = {}
        for place, pool in enumerate(seen.pools):
            likely = max(float(then.likely_most[place]), float(soon.likely_most[place]))
            queue = self._queue(seen, pool, float(soon.expected[place]))
            need = self._instances(pool.role, likely + queue, 0.0)
            held = self._held(seen, pool, self._instances(pool.role, likely + queue, self.margins.slack))
            count = need if need >= pool.coming else min(pool.coming, max(held, need))
            found[pool.role] = Target(
                count,
                {
                    "work now": float(np.mean(history[-3:, place])),
                    "forecast": float(then.expected[place]),
                    "likely at most": likely,
                    "queue": queue,
                    "needed lately": float(held),
                },
            )
        return found

    def _instances(self, role: Role, work: float, slack: float) -> int:
        return max(math.ceil(work / (self.margins.use(role) - slack) - 1e-9), 1)

    def _queue(self, seen: InferenceObservation, pool: PoolSeen, work: float) -> float:
        """Instances that the queue needs on top, beyond what those that come clear on their own."""
        if pool.role == "token":
            return 0.0
        backlog = pool.pending_tokens / seen.ability(pool.role).prompt_tokens
        cleared = max(pool.active - work, 0.0) * seen.start_seconds
        cleared += sum(max(seen.start_seconds - ready, 0.0) for ready in pool.starting)
        return max(backlog - cleared, 0.0) / self.margins.drain_seconds

    def _held(self, seen: InferenceObservation, pool: PoolSeen, need: int) -> int:
        """The most that was needed in the last while."""
        past = self._needs.setdefault(pool.role, [])
        past.append((seen.now, need))
        past[:] = [(at, count) for at, count in past if at > seen.now - self.margins.hold_seconds]
        return max(count for _, count in past)
