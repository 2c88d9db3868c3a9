"""What all rules are: a target for each pool, with what it was worked out from.

`Controller` turns targets into a change that steps and limits allow. A rule of one's own needs `targets`
alone.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import NOTHING, Scale
from proreus.worlds.inference.state.observation import InferenceObservation


@dataclass(frozen=True)
class Target:
    """How many instances a pool should have, and why."""

    count: int
    because: dict[str, float]


class Controller(ABC):
    """A rule: one object a run, asked at every decision."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """For the pools that the rule has an opinion on."""

    def change(self, seen: InferenceObservation, wanted: dict[Role, Target]) -> Scale:
        """What is done about targets: pools start and drain, each for itself."""
        return seen.towards({role: target.count for role, target in wanted.items()})

    def decide(self, observation: InferenceObservation, /) -> Scale:
        """Towards the targets."""
        return self.change(observation, self.targets(observation))

    def explain(self, observation: InferenceObservation, /) -> Explanation:
        """What was seen of each pool, and how many instances follow from it."""
        twin = copy.deepcopy(self)
        wanted = twin.targets(observation)
        change = twin.change(observation, wanted)
        verdicts = tuple(
            Verdict(f"{role} pool", "", target.because, float(target.count))
            for role, target in wanted.items()
        )
        subject = str(round(observation.now / observation.interval) - 1)
        return Explanation(
            self.name,
            subject,
            change,
            verdicts,
            _note(observation),
            told(change),
            "",
            "pool",
            amount="wanted",
        )

    def fresh(self, seed: int) -> Self:
        """Without memory."""
        return type(self)(self.name)


class Migrating(Controller):
    """A rule whose pools lend each other instances before any is started or drained."""

    def change(self, seen: InferenceObservation, wanted: dict[Role, Target]) -> Scale:
        """What one pool has too many of goes to the other at once; the rest is started or drained."""
        counts = {role: target.count for role, target in wanted.items()}
        if set(counts) != {"prompt", "token"}:
            return seen.towards(counts)
        moved = _moved(seen, counts)
        if not moved:
            return seen.towards(counts)
        rest = seen.towards({"prompt": counts["prompt"] + moved, "token": counts["token"] - moved})
        change = Scale(rest.prompt, rest.token, migrate=moved)
        return change if not seen.refusal(change) else seen.towards(counts)


def _moved(seen: InferenceObservation, counts: dict[Role, int]) -> int:
    """Instances that go from prompts to tokens (negative: back) since one pool has too many, one too few."""
    spare = {role: seen.pool(role).coming - count for role, count in counts.items()}
    for giver, taker, sign in (("prompt", "token", 1), ("token", "prompt", -1)):
        least = min(spare[giver], -spare[taker], seen.steps.migrate, seen.pool(giver).active)  # type: ignore[index,arg-type]
        if least > 0:
            return sign * least
    return 0


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
    return f"At {seen.now:,.0f} s {seen.traffic.requests:.1f} requests/s; {pools}."
