"""TokenScale: pools are as large as tokens are fast, and decoders compute prompts in a burst."""

from __future__ import annotations

import math

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Migrating, Target
from proreus.worlds.inference.policies.rules.work import USE_OF_ABILITY, backlog_seconds, work_lately
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen


class TokenScale(Migrating):
    """Tokens that arrive a second, over the tokens a second that an instance takes in.

    `convertible` decoders are kept beyond what decoding needs. When prompts of a second or more are pending,
    they are lent to the prompt pool at once, and go back when the burst is over.
    """

    window = 30.0
    """Seconds over which arriving tokens are counted."""
    convertible = 1
    burst = 1.0
    """Seconds of pending prompts from which decoders convert."""
    down_after = 60.0
    """Seconds for which fewer must have been enough."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._needs: dict[Role, list[tuple[float, int]]] = {}

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """By velocity; in a burst the convertible decoders are prompt instances."""
        work = work_lately(seen, self.window)
        pools = {pool.role: pool for pool in seen.pools}
        needs = {role: max(math.ceil(work[role] / USE_OF_ABILITY), 1) for role in pools}
        if "token" in needs:
            needs["token"] += self.convertible
        held = {role: self._held(seen, role, need) for role, need in needs.items()}
        lent = self._lent(seen, pools, held)
        targets: dict[Role, Target] = {}
        for role, pool in pools.items():
            sign = {"prompt": 1, "token": -1, "mixed": 0}[role]
            because = {
                "work": work[role],
                "needs": float(needs[role]),
                "seconds pending": backlog_seconds(seen, pool),
                "lent": float(sign * lent),
            }
            targets[role] = Target(held[role] + sign * lent, because)
        return targets

    def _held(self, seen: InferenceObservation, role: Role, need: int) -> int:
        """The most that was needed in the last while: what was started is not drained at the first lull."""
        past = self._needs.setdefault(role, [])
        past.append((seen.now, need))
        past[:] = [(at, count) for at, count in past if at > seen.now - self.down_after]
        return max(count for _, count in past)

    def _lent(self, seen: InferenceObservation, pools: dict[Role, PoolSeen], held: dict[Role, int]) -> int:
        if "token" not in pools or backlog_seconds(seen, pools["prompt"]) < self.burst:
            return 0
        return max(min(self.convertible, pools["token"].active - 1, held["token"] - 1), 0)
