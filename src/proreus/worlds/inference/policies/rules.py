"""Controllers that need no training: how many instances a pool should have, from what is seen of it.

Every rule says a target for each pool, with what it was worked out from; `Controller` turns targets into a
change that steps and limits allow. A rule of one's own needs `targets` alone.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from dataclasses import dataclass
from typing import Self

from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import NOTHING, Scale
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen

_USE_OF_ABILITY = 0.7
"""The share of what an instance can do that is asked of it, so that queues stay short."""


@dataclass(frozen=True)
class Target:
    """How many instances a pool should have, and why."""

    count: int
    because: dict[str, float]


class Controller:
    """A rule: one object a run, asked at every decision."""

    def __init__(self, name: str) -> None:
        self.name = name

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """For the pools that the rule has an opinion on."""
        raise NotImplementedError

    def decide(self, observation: InferenceObservation, /) -> Scale:
        """Towards the targets."""
        wanted = self.targets(observation)
        return observation.towards({role: target.count for role, target in wanted.items()})

    def explain(self, observation: InferenceObservation, /) -> Explanation:
        """What was seen of each pool, and how many instances follow from it."""
        wanted = copy.deepcopy(self).targets(observation)
        change = observation.towards({role: target.count for role, target in wanted.items()})
        verdicts = tuple(
            Verdict(f"{role} pool", "", target.because, float(target.count))
            for role, target in wanted.items()
        )
        subject = str(round(observation.now / observation.interval) - 1)
        return Explanation(self.name, subject, change, verdicts, _note(observation), told(change), "", "pool")

    def fresh(self, seed: int) -> Self:
        """Without memory."""
        return type(self)(self.name)


def told(change: Scale) -> str:
    """A change in words."""
    if change == NOTHING:
        return "changes nothing"
    parts = [
        f"{'starts' if count > 0 else 'drains'} {abs(count)} {role}"
        for role, count in (("prompt", change.prompt), ("token", change.token), ("mixed", change.mixed))
        if count
    ]
    if change.migrate:
        ways = ("prompt", "token") if change.migrate > 0 else ("token", "prompt")
        parts.append(f"migrates {abs(change.migrate)} from {ways[0]} to {ways[1]}")
    return ", ".join(parts)


def _note(seen: InferenceObservation) -> str:
    pools = ", ".join(
        f"{pool.role}: {pool.active} active, {len(pool.starting)} starting, {pool.waiting} requests wait"
        for pool in seen.pools
    )
    return f"At {seen.now:,.0f} s {seen.traffic.requests:.1f} requests/s; {pools}. Bars are targets."


class Static(Controller):
    """The cluster stays as it began."""

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """As many as there are."""
        return {pool.role: Target(pool.coming, {"as it is": float(pool.coming)}) for pool in seen.pools}


def use_of(seen: InferenceObservation, pool: PoolSeen) -> dict[str, float]:
    """What bounds a pool, in shares: KV memory where tokens are decoded, pending tokens where prompts are.

    Pending tokens are held against what the pool computes in a second.
    """
    found: dict[str, float] = {}
    if pool.role != "prompt":
        found["KV memory"] = pool.kv_use
    if pool.role != "token":
        rate = max(pool.active, 1) * seen.ability(pool.role).prompt_tokens
        found["pending prompts"] = pool.pending_tokens / rate
    return found


class Threshold(Controller):
    """More instances above a use of 0.8, fewer below 0.3, as queues and KV memory say."""

    high, low, calm = 0.8, 0.3, 60.0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._calm_since: dict[Role, float] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """One step a decision; down only after a minute without need."""
        found: dict[Role, Target] = {}
        for pool in seen.pools:
            because = use_of(seen, pool)
            use, count = max(because.values()), pool.coming
            if use >= self.low:
                self._calm_since.pop(pool.role, None)
            if use > self.high and not pool.starting:
                count = math.ceil(pool.active * min(use / self.high, 2.0))
            elif use < self.low:
                since = self._calm_since.setdefault(pool.role, seen.now)
                if seen.now - since >= self.calm:
                    count -= 1
                    self._calm_since[pool.role] = seen.now
            found[pool.role] = Target(count, because)
        return found


class Kpa(Controller):
    """Knative's autoscaler: concurrency over a minute, and over six seconds when there is panic."""

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
        each = concurrency_of(seen, pool.role) * _USE_OF_ABILITY
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


def concurrency_of(seen: InferenceObservation, role: Role) -> float:
    """Requests that an instance of a pool serves at one time without delay."""
    requests, prompt_tokens, output_tokens = (float(value) for value in seen.history.mean(axis=0))
    prompt = prompt_tokens / max(requests, 1e-9)
    if role == "prompt":
        return max(seen.ability(role).prompt_tokens / max(prompt, 1.0), 1.0)
    tokens = prompt + output_tokens / max(requests, 1e-9)
    return max(seen.ability(role).kv_tokens / max(tokens, 1.0), 1.0)


class Apa(Controller):
    """AIBrix's autoscaler: in proportion to use, a tenth of tolerance, five minutes before it shrinks."""

    target, tolerance, rest, most_growth, most_shrinking = 0.6, 0.1, 300.0, 2.0, 2.0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._grown: dict[Role, float] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """ceil(instances * use / target) where use is outside the tolerance."""
        found: dict[Role, Target] = {}
        for pool in seen.pools:
            because = use_of(seen, pool)
            use, active = max(because.values()), max(pool.active, 1)
            count = pool.coming
            if use > self.target * (1 + self.tolerance):
                wanted = min(math.ceil(active * use / self.target), math.ceil(active * self.most_growth))
                count = max(wanted, pool.coming)
                self._grown[pool.role] = seen.now
            elif use < self.target * (1 - self.tolerance):
                wanted = max(math.ceil(active * use / self.target), math.ceil(active / self.most_shrinking))
                rested = seen.now - self._grown.get(pool.role, -math.inf) >= self.rest
                count = min(wanted, pool.coming) if rested else pool.coming
            found[pool.role] = Target(count, {**because, "wanted use": self.target})
        return found


class Oracle(Controller):
    """Sees what will come, and has instances ready when it does: a bound, not a controller."""

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """For the busiest moment until the next instance could be ready, and a little beyond."""
        if seen.future is None:
            return {}
        ahead = seen.start_seconds + 2 * seen.interval
        step = max(seen.interval, 5.0)
        moments = [seen.now + step * place for place in range(max(math.ceil(ahead / step), 1))]
        rates = [seen.future(begin, begin + step) for begin in moments]
        found: dict[Role, Target] = {}
        for pool in seen.pools:
            ability = seen.ability(pool.role)
            prompts = max(rate[1] for rate in rates) / ability.prompt_tokens
            tokens = sum(rate[2] for rate in rates) / len(rates) / ability.output_tokens
            load = {"prompt": prompts, "token": tokens, "mixed": prompts + tokens}[pool.role]
            backlog = pool.pending_tokens / ability.prompt_tokens / 10.0 if pool.role != "token" else 0.0
            count = max(math.ceil((load + backlog) / _USE_OF_ABILITY), 1)
            found[pool.role] = Target(count, {"busiest": load, "backlog": backlog})
        return found
