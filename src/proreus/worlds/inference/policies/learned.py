"""The learned controller: a capacity plan whose figures a network sets anew at every decision.

Each pool needs what is forecast for the moment that a start would be done, with a margin and the backlog, over
the use that its instances are good for. Together the pools get the sum, rounded up once: where a scheduler
lends instances between pools, rounding each pool up would pay for a fraction twice. Instances are started at
once; one is drained when the others could have borne all that was needed for some time.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Self

from proreus.worlds.inference.encoding.demand import Arrivals, arrivals_of, demand_of
from proreus.worlds.inference.encoding.pools import encode
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.policies.knobs import (
    ALARM,
    CAUTION,
    HOUR,
    LENDING,
    PATIENCE,
    TREND,
    USE,
    WORK_OFF,
    Knob,
    Knobs,
)
from proreus.worlds.inference.policies.rules import Controller, Target
from proreus.worlds.inference.state.observation import InferenceObservation

_ROUNDING = 1e-9
_FAR_OFF = 1.5
"""Instances that a pool must be off its share before one is migrated for it."""


@dataclass(frozen=True)
class Need:
    """Of one pool, in instances."""

    instances: float
    lent: float
    """That may be missing, since the other pool lends them."""
    because: dict[str, float]


class Learned(Controller):
    """Plans capacity with figures that a network sets."""

    def __init__(self, name: str, knobs: Knobs) -> None:
        super().__init__(name)
        self._knobs = knobs
        self._needed: deque[tuple[float, float]] = deque()
        """(when, instances in all) that were needed, as long as anyone is patient."""

    def fresh(self, seed: int) -> Self:
        """Without memory."""
        return type(self)(self.name, self._knobs)

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """The total, and how it is split."""
        arrivals = arrivals_of(seen)
        rows, context = encode(seen)
        figures = [self._knobs.of(row, context) for row in rows]
        needs = {
            pool.role: need_of(seen, pool.role, arrivals, figure)
            for pool, figure in zip(seen.pools, figures, strict=True)
        }
        patience = max(figure[PATIENCE] for figure in figures)
        coming = sum(pool.coming for pool in seen.pools)
        total = self._total(seen.now, _whole(needs), coming, patience)
        counts = shared_out(seen, {role: need.instances for role, need in needs.items()}, total)
        return {
            role: Target(counts[role], {**need.because, "in all": float(total)})
            for role, need in needs.items()
        }

    def _total(self, now: float, needed: float, coming: int, patience: float) -> int:
        """As many as are needed; fewer than there are only if that would have done for some time."""
        self._needed.append((now, needed))
        while self._needed[0][0] <= now - PATIENCE.high:
            self._needed.popleft()
        if math.ceil(needed - _ROUNDING) > coming:
            return math.ceil(needed - _ROUNDING)
        most = max(value for when, value in self._needed if when > now - patience)
        return min(math.ceil(most - _ROUNDING), coming)


def need_of(
    seen: InferenceObservation, role: Role, arrivals: Arrivals, figure: dict[Knob, float]
) -> Need:
    """What a pool needs when an instance that is ordered now could serve."""
    demand = demand_of(seen, role)
    alarm = figure[ALARM] * max(arrivals.lately - arrivals.level, 0.0)
    ahead = figure[TREND] * (arrivals.expected - arrivals.level)
    again = max(arrivals.hour_ago, 1.0) ** figure[HOUR]
    expected = max(arrivals.level + alarm + ahead, 0.0) * again
    margin = figure[CAUTION] * max(arrivals.likely_most - arrivals.expected, 0.0)
    backlog = demand.backlog / figure[WORK_OFF]
    load, spare = expected * demand.each, margin * demand.each
    because = {"forecast": load, "margin": spare, "backlog": backlog, "use": figure[USE]}
    return Need((load + spare + backlog) / figure[USE], figure[LENDING], because)


def _whole(needs: dict[Role, Need]) -> float:
    """Instances in all; without lending every pool is rounded up by itself."""
    together = sum(need.instances for need in needs.values())
    if len(needs) == 1:
        return together
    alone = sum(math.ceil(max(need.instances - need.lent, _ROUNDING)) for need in needs.values())
    return max(together, float(alone))


def shared_out(seen: InferenceObservation, needs: dict[Role, float], total: int) -> dict[Role, int]:
    """Whole instances for each pool: one by one to or from the pool that is furthest from its need."""
    counts = {pool.role: pool.coming for pool in seen.pools}

    def lacks(role: Role) -> float:
        return needs[role] - counts[role]

    while sum(counts.values()) < total:
        counts[max(counts, key=lacks)] += 1
    while sum(counts.values()) > total:
        giving = [role for role in counts if counts[role] > max(seen.limits.least, 1)]
        if not giving:
            return counts
        counts[min(giving, key=lacks)] -= 1
    if len(counts) > 1:
        short, long = max(counts, key=lacks), min(counts, key=lacks)
        if min(lacks(short), -lacks(long)) > _FAR_OFF and counts[long] > max(seen.limits.least, 1):
            counts[short] += 1
            counts[long] -= 1
    return counts


__all__ = ["Learned", "Need", "need_of", "shared_out"]
_ = Scale
