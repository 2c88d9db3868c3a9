"""What a policy in shadow would have held, decision by decision: its own replicas, beside the real ones.

`state.shadow_fleet` has the replicas and what becomes of requests there; here the policy is asked, and its
answers keep within the same rails as they would for real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proreus.policies.catalogue import AnyPolicy
from proreus.policies.deadline import TooSlow
from proreus.serving.scaler.guard_rails import within
from proreus.serving.scaler.policy_answers import NotThePolicy, change_of
from proreus.serving.scaler.trigger_metadata import ScalerOptions
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.observation import InferenceObservation
from proreus.worlds.inference.state.shadow_fleet import ShadowFleet, ShadowTally

Ask = Callable[[AnyPolicy, InferenceObservation], object]
"""What a policy decides, within its time."""


@dataclass(frozen=True)
class ShadowStep:
    """One decision of a policy for replicas of its own."""

    policy: str
    gpus: int
    """Of a replica."""
    replicas: dict[Role, int]
    """That it holds from now on."""
    tally: ShadowTally
    """Since the last one."""
    refused: str = ""
    """Why it did not decide, so that its replicas stay as they are."""


class ShadowController:
    """One policy and the replicas that it would have."""

    def __init__(self, options: ScalerOptions, policy: AnyPolicy, ask: Ask) -> None:
        self._options, self._policy, self._ask = options, policy, ask
        # Where others scale, nobody says which replicas start.
        self._fleet = ShadowFleet(sees_starts=options.shadow != "current")
        self._changed_at = -float("inf")

    @property
    def tally(self) -> ShadowTally:
        """Since the shadow began."""
        return self._fleet.tally

    def step(self, seen: InferenceObservation, *, no_fewer: bool) -> ShadowStep:
        """Decide for what the service looks like now; no_fewer: too little is known to take any away."""
        before = self._fleet.tally
        own = self._fleet.follow(seen)
        current = {pool.role: self._fleet.replicas(pool.role) for pool in own.pools}
        wanted, refused = self._asked(own, current)
        rails, calm = self._options.rails, seen.now - self._changed_at
        railed = {
            role: max(within(rails, count, current[role], calm).replicas, current[role] if no_fewer else 0)
            for role, count in wanted.items()
        }
        if railed != current:
            self._changed_at = seen.now
        self._fleet.scale(railed)
        passed = self._fleet.tally.since(before)
        return ShadowStep(self._options.policy, self._options.gpus, railed, passed, refused)

    def _asked(self, own: InferenceObservation, current: dict[Role, int]) -> tuple[dict[Role, int], str]:
        """(replicas that it wants, why it does not say)."""
        try:
            change = change_of(self._ask(self._policy, own), own)
        except NotThePolicy as error:
            return current, error.reason
        except TooSlow:
            self._policy = self._policy.fresh(0)  # it may still be at work, with the memory of this one
            return current, "slow"
        except Exception:  # noqa: BLE001 - a stranger's policy may raise anything, and nothing hangs on it
            return current, "raised"
        return {role: current[role] + change.of(role) + change.moved_into(role) for role in current}, ""
