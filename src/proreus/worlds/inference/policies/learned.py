"""The learned controller: a capacity plan whose figures a network sets anew at every decision.

Each pool needs what is forecast for the moment that a start would be done, with a margin and the backlog,
over the use that its instances are good for, and enough for the highest load of the last hour to come back.
Together the pools get the sum, rounded up once: where a router lends instances between pools, rounding each
pool up would pay for a fraction twice. Instances are started at once, and moved between pools before any is
started; one is drained when the others could have borne all that was needed for some time.

A router that lends instances until they are empty (`mixed_pool` as splitwise-sim has it) does not get busy
ones back: requests then queue on the few that are left at home while the others idle. Such a pool, where many
wait and memory is free, gives its idlest instance to the other pool, and has another back at the next
decision.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Self

from proreus.worlds.inference.encoding.demand import ArrivalRates, arrivals_of, demand_of
from proreus.worlds.inference.encoding.pools import encode
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.knobs import (
    ALARM,
    CAUTION,
    EVENING,
    HOUR,
    LENDING,
    PATIENCE,
    RETURN,
    TREND,
    USE,
    WORK_OFF,
    Knob,
    Knobs,
)
from proreus.worlds.inference.policies.rules.controller import Migrating, Target
from proreus.worlds.inference.state.observation import InferenceObservation

_ROUNDING = 1e-9
_MANY_WAIT = 8.0
"""Requests for each active instance that no even load would let wait while there is memory."""
_REST = 60.0
"""Seconds between two evenings of a pool."""


@dataclass(frozen=True)
class Need:
    """Of one pool, in instances."""

    instances: float
    least: int
    """Of its own: what is above them another pool may lend."""
    because: dict[str, float]


class Learned(Migrating):
    """Plans capacity with figures that a network sets."""

    def __init__(self, name: str, knobs: Knobs) -> None:
        super().__init__(name)
        self._knobs = knobs
        self._needed: deque[tuple[float, float]] = deque()
        """(when, instances in all) that were needed, as long as anyone is patient."""
        self._evened_at = -math.inf

    def fresh(self, seed: int) -> Self:
        """Without memory."""
        return type(self)(self.name, self._knobs)

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """The total, and how it is split."""
        arrivals = arrivals_of(seen)
        rows, context = encode(seen, arrivals)
        figures = [self._knobs.of(row, context) for row in rows]
        needs = {
            pool.role: need_of(seen, pool.role, arrivals, figure)
            for pool, figure in zip(seen.pools, figures, strict=True)
        }
        patience = max(figure[PATIENCE] for figure in figures)
        coming = sum(pool.coming for pool in seen.pools)
        needed = max(
            sum(need.instances for need in needs.values()), float(sum(need.least for need in needs.values()))
        )
        total = self._total(seen.now, needed, coming, patience)
        counts = shared_out(seen, needs, total)
        if self._is_uneven(seen, figures):
            self._evened_at = seen.now
            counts = {pool.role: pool.coming for pool in seen.pools}
            counts["token"], counts["prompt"] = counts["token"] - 1, counts["prompt"] + 1
        return {
            role: Target(counts[role], {**need.because, "in all": needed}) for role, need in needs.items()
        }

    def _is_uneven(self, seen: InferenceObservation, figures: list[dict[Knob, float]]) -> bool:
        """Whether tokens wait for instances that others are lent in place of."""
        if seen.now - self._evened_at < _REST or len(seen.pools) < 2:
            return False
        pool, figure = next(
            (pool, figure) for pool, figure in zip(seen.pools, figures, strict=True) if pool.role == "token"
        )
        crowded = pool.waiting > _MANY_WAIT * pool.active and pool.kv_use < figure[EVENING]
        return crowded and pool.active > max(seen.limits.least, 1)

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
    seen: InferenceObservation, role: Role, arrivals: ArrivalRates, figure: dict[Knob, float]
) -> Need:
    """What a pool needs when an instance that is ordered now could serve."""
    demand = demand_of(seen, role)
    alarm = figure[ALARM] * (arrivals.sudden - arrivals.level)
    ahead = figure[TREND] * (arrivals.expected - arrivals.level)
    again = max(arrivals.hour_ago, 1.0) ** figure[HOUR]
    expected = max(arrivals.level + alarm + ahead, 0.0) * again
    margin = figure[CAUTION] * max(arrivals.likely_most - arrivals.expected, 0.0)
    backlog = demand.backlog / figure[WORK_OFF]
    load, spare = expected * demand.each, margin * demand.each
    returning = figure[RETURN] * arrivals.highest * demand.each
    instances = max((load + spare + backlog) / figure[USE], returning)
    least = math.ceil(instances - (figure[LENDING] if len(seen.pools) > 1 else 0.0) - _ROUNDING)
    because = {
        "arriving": arrivals.lately * demand.each,
        "forecast": load,
        "margin": spare,
        "backlog": backlog,
        "returning": returning,
        "use": figure[USE],
        "needs": instances,
        "patience": figure[PATIENCE],
    }
    return Need(instances, max(least, seen.limits.least), because)


def shared_out(seen: InferenceObservation, needs: dict[Role, Need], total: int) -> dict[Role, int]:
    """Whole instances for each pool: first its own, the others to those that lack most.

    Pools stay as they are as far as that leaves each its own.
    """
    counts = {pool.role: pool.coming for pool in seen.pools}

    def lacks(role: Role) -> tuple[bool, float]:
        return counts[role] < needs[role].least, needs[role].instances - counts[role]

    def spares(role: Role) -> tuple[bool, float]:
        return counts[role] > needs[role].least, counts[role] - needs[role].instances

    while sum(counts.values()) < total:
        counts[max(counts, key=lacks)] += 1
    while sum(counts.values()) > total:
        counts[max(counts, key=spares)] -= 1
    for _ in range(total):
        short, long = max(counts, key=lacks), max(counts, key=spares)
        if not (lacks(short)[0] and spares(long)[0]):
            break
        counts[short] += 1
        counts[long] -= 1
    return counts
