"""What a careful engineer would write: a forecast for when a start is over, with a margin that was earned."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Migrating, Target
from proreus.worlds.inference.policies.rules.work import works
from proreus.worlds.inference.state.forecast import Doubt, Smoothing, error_of, forecast
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen


@dataclass(frozen=True)
class Margins:
    """The constants of the rule, tuned on parts for training alone."""

    prompt_use: float = 0.9
    token_use: float = 0.52
    mixed_use: float = 0.68
    """The share of what instances can do that is asked of them."""
    safety: float = 0.9
    """Usual errors of a forecast that are prepared for."""
    drain_seconds: float = 20.0
    """In which a queue that is still there when instances are ready is to go."""
    hold_seconds: float = 60.0
    """For which fewer must have been enough before any goes."""
    slack: float = 0.05
    """Share of use that must be free after one has gone: it does not come back at once."""
    doubt: Doubt = field(default_factory=lambda: Doubt(usual=0.25, weight=40.0, memory=20.0))
    smoothing: Smoothing = field(default_factory=lambda: Smoothing(level=0.5))

    def use(self, role: Role) -> float:
        """Of a pool."""
        match role:
            case "prompt":
                return self.prompt_use
            case "token":
                return self.token_use
            case "mixed":
                return self.mixed_use


@dataclass(frozen=True, eq=False)
class Likely:
    """[pools] each, of the work that will come."""

    then: F64
    """Expected when a start is over."""
    error: F64
    """How far that is usually off, as a logarithm."""
    most: F64
    """Likely at most."""


Foresee = Callable[[F64, int, Margins], Likely]
"""From [intervals, pools] of work, what comes so many intervals later."""


def damped_trends(history: F64, steps: int, margins: Margins) -> Likely:
    """Holt's, and how far they were off lately."""
    then = forecast(history, steps, smoothing=margins.smoothing).expected
    error = error_of(history, steps, margins.smoothing, margins.doubt)
    return Likely(then, error, then * np.exp(margins.safety * error))


class Predictive(Migrating):
    """Forecast at the end of a start, plus how far forecasts were off, plus the queue; slow to shrink."""

    margins = Margins()

    def __init__(self, name: str, foresee: Foresee = damped_trends) -> None:
        super().__init__(name)
        self._foresee = foresee
        self._needs: deque[tuple[float, dict[Role, int]]] = deque()

    def fresh(self, seed: int) -> Self:
        """Without memory."""
        return type(self)(self.name, self._foresee)

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """As many as will be needed when one that is ordered now is ready, and as are needed until then."""
        margins, history = self.margins, works(seen)
        steps = max(math.ceil((seen.start_seconds + seen.interval) / seen.interval), 1)
        later = self._foresee(history, steps, margins)
        soon = forecast(history, 1, smoothing=margins.smoothing).expected
        likely = np.maximum(later.most, soon * np.exp(margins.safety * later.error))
        queues = [self._queue(seen, pool, float(work)) for pool, work in zip(seen.pools, soon, strict=True)]
        wanted = {
            pool.role: float(most) + queue
            for pool, most, queue in zip(seen.pools, likely, queues, strict=True)
        }
        need, held = self._instances(wanted, 0.0), self._held(seen, self._instances(wanted, margins.slack))
        targets: dict[Role, Target] = {}
        for place, pool in enumerate(seen.pools):
            low, high = need[pool.role], max(held[pool.role], need[pool.role])
            because = {
                "work now": float(history[-3:, place].mean()),
                "forecast": float(later.then[place]),
                "usual error": float(later.error[place]),
                "likely at most": float(likely[place]),
                "queue": queues[place],
                "needed lately": float(high),
            }
            targets[pool.role] = Target(max(low, min(pool.coming, high)), because)
        return targets

    def _instances(self, work: dict[Role, float], slack: float) -> dict[Role, int]:
        """Of each pool, each instance used no more than its share less the slack."""
        return {
            role: max(math.ceil(amount / (self.margins.use(role) - slack) - 1e-9), 1)
            for role, amount in work.items()
        }

    def _queue(self, seen: InferenceObservation, pool: PoolSeen, work: float) -> float:
        """Instances that the queue needs on top, beyond what those that come clear on their own."""
        if pool.role == "token":
            return 0.0
        backlog = pool.pending_tokens / seen.ability(pool.role).prompt_tokens
        cleared = max(pool.active - work, 0.0) * seen.start_seconds
        cleared += sum(max(seen.start_seconds - ready, 0.0) for ready in pool.starting)
        return max(backlog - cleared, 0.0) / self.margins.drain_seconds

    def _held(self, seen: InferenceObservation, need: dict[Role, int]) -> dict[Role, int]:
        """The most that was needed in the last while."""
        self._needs.append((seen.now, need))
        while self._needs[0][0] <= seen.now - self.margins.hold_seconds:
            self._needs.popleft()
        return {role: max(past[role] for _, past in self._needs) for role in need}
