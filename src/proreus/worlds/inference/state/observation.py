"""What a controller sees every few seconds, of a simulation as of a service: pools, traffic, limits.

Only active instances count as such: those that start are listed with the seconds they still need, those that
drain are gone as far as new work goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F64, Bool
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import Scale, ScaleSteps
from proreus.worlds.inference.model.start_up import Limits


@dataclass(frozen=True)
class PoolSeen:
    """One pool."""

    role: Role
    active: int
    starting: tuple[float, ...]
    """Seconds until each that starts is active, the soonest first."""
    draining: int
    waiting: int
    """Requests bound to active instances that are not in a batch."""
    running: int
    """Requests in batches."""
    pending_tokens: int
    """Tokens that are planned and not computed: prompts by their length, decoding requests as one."""
    kv_use: float
    """Share of the KV memory of active instances that is taken."""
    busy: float
    """Share of the last interval that active instances had a batch."""

    @property
    def coming(self) -> int:
        """Active and starting."""
        return self.active + len(self.starting)


@dataclass(frozen=True)
class Traffic:
    """The last interval."""

    requests: float
    """That came, a second."""
    prompt_tokens: float
    """Of those, a second."""
    output_tokens: float
    """That those will generate, a second; a service knows what was generated instead."""
    ended: int
    ttft: float
    """Seconds, mean over first tokens; 0 where there were none."""
    wait: float
    """Seconds until a prompt began, mean over those that did."""
    met: float
    """Share of requests that ended as their class was promised; 1 where none did."""
    ttft_slack: float
    """90th percentile of the time to the first token, in what was promised: above 1 is late."""
    tbt_slack: float
    """The same of the time between tokens."""
    met_width: float = 0.0
    """How far apart the least and the most lie that `met` can be: 0 where every request is known."""
    found: float = 0.0
    """Share of prompts' tokens that prefix caches knew, over the requests that ended."""


@dataclass(frozen=True)
class Ability:
    """What one instance of a pool can do, from its timings: for rules that plan with rates."""

    prompt_tokens: float
    """Tokens of prompts a second."""
    output_tokens: float
    """Tokens generated a second with a full batch of usual requests."""
    kv_tokens: float
    """Tokens that its KV memory holds."""


Future = Callable[[float, float], tuple[float, float, float]]
"""From and until a moment: (requests, prompt tokens, output tokens) a second that will come."""


@dataclass(frozen=True, eq=False)
class InferenceObservation:
    """A cluster at the moment of a decision."""

    now: float
    interval: float
    """Seconds between decisions."""
    pools: tuple[PoolSeen, ...]
    traffic: Traffic
    history: F64
    """[intervals, 3] requests, prompt tokens and output tokens a second, the last interval last."""
    at_router: int
    """Requests that wait because a pool is empty."""
    total: int
    """Servers in use, draining ones included."""
    limits: Limits
    start_seconds: float
    """From the order of an instance to its first request."""
    abilities: tuple[Ability, ...]
    """Of each pool's instances."""
    steps: ScaleSteps
    future: Future | None = field(default=None, repr=False)
    """What will come: for a rule that is a bound and no controller."""
    life_seconds: float = 0.0
    """Mean life of instances that the provider takes away, as whoever rents them knows it; 0: none is."""
    models: int = 1
    """Language models that share the pools."""

    def pool(self, role: Role) -> PoolSeen:
        """The pool of that role."""
        return next(pool for pool in self.pools if pool.role == role)

    def ability(self, role: Role) -> Ability:
        """Of an instance of that pool."""
        return self.abilities[self.steps.roles.index(role)]

    @property
    def room(self) -> int:
        """Instances that may be started."""
        return max(self.limits.most_in_total - self.total, 0)

    def refusal(self, change: Scale) -> str:
        """Why a change cannot be; "": it can."""
        limits = self.limits
        if sum(max(change.of(pool.role), 0) for pool in self.pools) > self.room:
            return f"there would be more than {limits.most_in_total} instances"
        for pool in self.pools:
            after = pool.coming + change.of(pool.role) + change.moved_into(pool.role)
            lost = -min(change.of(pool.role), 0) - min(change.moved_into(pool.role), 0)
            if lost and after < limits.least:
                return f"the {pool.role} pool would have {after} instances"
            if after > max(limits.most, pool.coming):
                return f"the {pool.role} pool would have {after} instances"
            if -change.moved_into(pool.role) > pool.active:
                return f"the {pool.role} pool has {pool.active} active instances"
        return ""

    def action_mask(self) -> Bool:
        """bool[K]: the flat actions that no limit forbids."""
        table, limits = self.steps.table(), self.limits
        changes, migrate = table[:, :-1], table[:, -1]
        legal = np.maximum(changes, 0).sum(axis=1) <= self.room
        for pool in self.pools:
            change = changes[:, self.steps.roles.index(pool.role)]
            into = migrate * Scale(migrate=1).moved_into(pool.role)
            after = pool.coming + change + into
            shrinks = (change < 0) | (into < 0)
            legal &= ~(shrinks & (after < limits.least)) & (after <= max(limits.most, pool.coming))
            legal &= -into <= pool.active
        return np.asarray(legal, dtype=np.bool_)

    def towards(self, targets: dict[Role, int]) -> Scale:
        """The change that brings pools as near to so many instances as steps and limits allow."""
        room = self.room
        changes: dict[str, int] = {}
        for pool in self.pools:
            target = min(max(targets.get(pool.role, pool.coming), self.limits.least), self.limits.most)
            change = max(min(target - pool.coming, self.steps.scale), -self.steps.scale)
            if pool.coming < self.limits.least:
                change = max(change, 0)
            change = min(change, room) if change > 0 else change
            room -= max(change, 0)
            changes[pool.role] = change
        return Scale(**changes)
