"""SageServe: a plan from a forecast by an integer program, and memory that corrects it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Migrating, Target
from proreus.worlds.inference.policies.rules.work import use_of, work_lately, works
from proreus.worlds.inference.state.forecast import autoregressive
from proreus.worlds.inference.state.observation import InferenceObservation


@dataclass(frozen=True)
class Prices:
    """What a plan costs: by the source's figures, a start is worth 150 s of ten units, in instances."""

    instance: float = 1.0
    start: float = 0.15
    migration: float = 0.05


def cheapest_plan(
    now: tuple[int, ...], needs: tuple[float, ...], least: int, most: int, prices: Prices
) -> tuple[int, ...]:
    """Instances of one or two pools that meet needs at least cost; exact, by trying them all.

    Minimises price of instances + of starts + of migrations subject to as many as are needed in each pool,
    `least` at least and `most` in all. Where that cannot be, what is missing is least. Ties go to what
    changes least, then to fewer.
    """
    # More than `most` are no plan, and what a burst would need may be a million.
    ends = [max(math.ceil(min(need, most)), count, least) for need, count in zip(needs, now, strict=True)]
    axes = np.meshgrid(*(np.arange(least, end + 1) for end in ends), indexing="ij")
    counts = np.stack([axis.ravel() for axis in axes], axis=1)
    counts = counts[(counts.sum(axis=1) <= most) | (counts == least).all(axis=1)]
    changes = counts - np.array(now)
    moved = np.zeros(len(counts), dtype=np.int64)
    if len(now) == 2:
        moved = np.where((changes[:, 0] > 0) != (changes[:, 1] > 0), np.minimum(*np.abs(changes).T), moved)
    starts = np.maximum(changes, 0).sum(axis=1) - moved
    cost = prices.instance * counts.sum(axis=1) + prices.start * starts + prices.migration * moved
    missing = np.maximum(np.ceil(np.array(needs)) - counts, 0.0).sum(axis=1)
    order = np.lexsort((counts.sum(axis=1), np.abs(changes).sum(axis=1), cost.round(9), missing))
    return tuple(int(count) for count in counts[order[0]])


class SageServe(Migrating):
    """Plans ahead every few starts, for the busiest moment that is forecast.

    The source plans every hour at a start of 155 s, which is too late for loads that double in minutes: here
    a plan is made for every start. Growth is carried out at once, shrinking where use is below 0.25; above
    0.5 one more than planned is started.
    """

    plan_starts = 1.0
    """Starts between two plans."""
    window = 60.0
    """Seconds over which the load is taken that no plan stays below."""
    exceeds_above, shrinks_below = 0.5, 0.25
    use = 0.7
    """Of what an instance can do that is planned with."""
    prices = Prices()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._planned_at = -math.inf
        self._plan: dict[Role, int] = {}
        self._forecast: dict[Role, float] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """Towards the plan, as use allows."""
        period = max(self.plan_starts * seen.start_seconds, seen.interval)
        if seen.now - self._planned_at >= period:
            self._make_plan(seen, period)
        targets: dict[Role, Target] = {}
        for pool in seen.pools:
            because = use_of(seen, pool)
            use, plan, count = max(because.values()), self._plan[pool.role], pool.coming
            if plan > count or use < self.shrinks_below:
                count = plan
            if use > self.exceeds_above and not pool.starting:
                count = max(count, pool.coming + 1)
            targets[pool.role] = Target(
                count, {**because, "forecast work": self._forecast[pool.role], "plan": float(plan)}
            )
        return targets

    def _make_plan(self, seen: InferenceObservation, period: float) -> None:
        """For the busiest moment from when a start is over until that of the next plan is."""
        history, roles = works(seen), [pool.role for pool in seen.pools]
        first = max(round(seen.start_seconds / seen.interval), 1)
        ahead = range(first, first + max(round(period / seen.interval), 1), max(first // 4, 1))
        lately = work_lately(seen, self.window)
        self._forecast = {
            role: max(lately[role], *(autoregressive(history[:, place], steps) for steps in ahead))
            for place, role in enumerate(roles)
        }
        limits = seen.limits
        plan = cheapest_plan(
            tuple(pool.coming for pool in seen.pools),
            tuple(self._forecast[role] / self.use for role in roles),
            limits.least,
            min(limits.most_in_total, limits.most * len(roles)),
            self.prices,
        )
        self._plan = dict(zip(roles, plan, strict=True))
        self._planned_at = seen.now
