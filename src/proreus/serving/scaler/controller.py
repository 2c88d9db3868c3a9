"""How many replicas there are to be: readings in, a number for each pool out. No clock, no network.

The policy is asked, and the rule beside it, so that its memory is fresh when it has to stand in: when the
policy fails, is slow, illegal or unsure, or when too many replicas cannot be read. Where none can be read at
all the last number holds, since less is known than would be needed to change it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from proreus.model.errors import IllegalDecision
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.deadline import TooSlow
from proreus.policies.isolated_policy import IsolatedPolicy, PolicyResting
from proreus.policies.protocol import Doubts
from proreus.serving.messages import shortened
from proreus.serving.scaler.guard_rails import within
from proreus.serving.scaler.policy_answers import NotThePolicy, Reason, change_of
from proreus.serving.scaler.shadow_controller import ShadowController, ShadowStep
from proreus.serving.scaler.trigger_metadata import ScalerOptions
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.live_collector import LiveCollector, LiveLook
from proreus.worlds.inference.state.observation import InferenceObservation
from proreus.worlds.inference.state.replicas import Reading
from proreus.worlds.inference.state.shadow_fleet import ShadowTally

By = Literal["policy", "rule", "held"]
Compute = Callable[[], Any]
Limited = Callable[[Compute, float], Any]
"""Runs a computation within so many seconds, or raises TooSlow."""


@dataclass(frozen=True)
class ScalingDecision:
    """One decision."""

    at: float
    replicas: Mapping[Role, int]
    """That are asked for."""
    would: Mapping[Role, int]
    """That would be, were the policy not in shadow."""
    by: By
    reason: Reason = ""
    """Why it was not the policy."""
    why: str = ""
    """The same in words, and what the rails did."""
    look: LiveLook | None = None
    shadow: ShadowStep | None = None
    """What the policy holds in the shadow, where it is in one."""


class PoolController:
    """One controller of one service."""

    def __init__(self, options: ScalerOptions, policy: AnyPolicy, rule: AnyPolicy, limited: Limited) -> None:
        self.options = options
        self.collector = LiveCollector(options.live)
        self._policy, self._rule, self._limited = policy, rule, limited
        self._shadow = (
            None if options.shadow == "off" else ShadowController(options, policy.fresh(0), self._computed)
        )
        self._wanted: dict[Role, int] | None = None
        self._changed_at = -float("inf")
        self._read_at: float | None = None
        self._doubt = ""

    @property
    def wanted(self) -> Mapping[Role, int] | None:
        """Asked for now; None: nothing was seen yet, so that any number would be a guess."""
        return self._wanted

    def go_on_from(
        self, now: float, wanted: Mapping[Role, int], starts: Mapping[Role, tuple[float, ...]]
    ) -> None:
        """As somebody before has left it."""
        for role in self.collector.starts:
            self.collector.starts[role].remember(starts.get(role, ()))
        rails = self.options.rails
        self._want(now, {role: min(max(count, rails.least), rails.most) for role, count in wanted.items()})

    def _want(self, now: float, wanted: Mapping[Role, int]) -> None:
        if dict(wanted) != self._wanted:
            self._changed_at = now
        self._wanted = dict(wanted)
        if self.options.shadow != "current":  # there somebody else asks for replicas, nobody knows how many
            self.collector.ordered(now, self._wanted)

    @property
    def shadow_tally(self) -> ShadowTally | None:
        """What was held and kept, really and in the shadow; None: the policy acts."""
        return None if self._shadow is None else self._shadow.tally

    def silent_seconds(self, now: float) -> float:
        """Since any replica could be read; infinite where none ever was."""
        return float("inf") if self._read_at is None else now - self._read_at

    def step(
        self, now: float, readings: Mapping[Role, Mapping[str, Reading]], at_router: int = 0, doubt: str = ""
    ) -> ScalingDecision | None:
        """Look and decide; None: nothing is known at all. doubt: why fewer replicas would be premature."""
        # Rates are known from the second look on: at the first one a busy service looks idle.
        self._doubt = doubt or ("" if self.collector.has_looked else "nothing has been counted yet")
        look = self.collector.look(now, readings, at_router)
        if look.read:
            self._read_at = now
        idle = self.options.rails.least == 0 and not look.unreadable
        if self._wanted is None:
            if not look.read and not idle:
                return None
            self._want(now, self._as_it_is(look.observation))
        assert self._wanted is not None
        nobody_expected = idle and not any(self._wanted.values())
        if not look.read and not nobody_expected:
            why = look.unreadable[0] if look.unreadable else "no replica answers"
            return ScalingDecision(now, self._wanted, self._wanted, "held", "dead", shortened(why), look)
        return self._decide(now, look)

    def _as_it_is(self, seen: InferenceObservation) -> dict[Role, int]:
        """Whoever was there first has asked for at least what serves."""
        rails = self.options.rails
        return {pool.role: min(max(pool.active, rails.least), rails.most) for pool in seen.pools}

    def _decide(self, now: float, look: LiveLook) -> ScalingDecision:
        seen = look.observation
        wanted = self._wanted
        assert wanted is not None
        reason: Reason = ""
        why = ""
        rule: dict[Role, int] | None = None
        try:
            rule = self._targets(self._computed(self._rule, seen), seen)
        except NotThePolicy as error:
            why = f"the rule: {error}"
        except Exception as error:  # noqa: BLE001 - a stranger's rule may raise anything, or be slow
            why = f"the rule raised {type(error).__name__}: {error}"
        policy: dict[Role, int] | None = None
        try:
            policy = self._asked(look)
        except NotThePolicy as error:
            reason, why = error.reason, "; ".join(part for part in (str(error), why) if part)
        chosen = policy if policy is not None else rule
        by: By = "policy" if policy is not None else "rule" if rule is not None else "held"
        would, rails_say = self._railed(now, chosen or wanted, seen)
        acted = would
        match self.options.shadow:
            case "rule":
                acted, _ = self._railed(now, rule or wanted, seen)
            case "current":
                acted = self._as_it_is(seen)
            case "off":
                pass
        self._want(now, acted)
        text = "; ".join(part for part in (why, rails_say) if part)
        shadow = None if self._shadow is None else self._shadow.step(seen, no_fewer=bool(self._doubt))
        return ScalingDecision(now, acted, would, by, reason, shortened(text), look, shadow)

    def _railed(
        self, now: float, wanted: Mapping[Role, int], seen: InferenceObservation
    ) -> tuple[dict[Role, int], str]:
        current = self._wanted
        assert current is not None
        found: dict[Role, int] = {}
        said = ""
        for role, count in wanted.items():
            # Nobody but a replica serves those that wait before all of them.
            asked = max(count, 1) if seen.at_router > 0 else count
            if self._doubt and asked < current[role]:
                asked, said = current[role], said or f"{role}: none fewer, since {self._doubt}"
            railed = within(self.options.rails, asked, current[role], now - self._changed_at)
            found[role] = railed.replicas
            said = said or (f"{role}: {railed.why}" if railed.why else "")
        return found, said

    def _asked(self, look: LiveLook) -> dict[Role, int]:
        """What the policy wants."""
        if len(look.unreadable) >= max(look.read, 1):
            raise NotThePolicy("unreadable", look.unreadable[0])
        seen, policy = look.observation, self._policy
        try:
            return self._targets(self._computed(policy, seen), seen)
        except TooSlow as error:
            # It may still be at work, with the memory of this one.
            self._policy = policy.fresh(0)
            raise NotThePolicy("slow", str(error)) from error
        except PolicyResting as error:
            raise NotThePolicy("resting", str(error)) from error
        except IllegalDecision as error:
            raise NotThePolicy("illegal", str(error)) from error
        except NotThePolicy:
            raise
        except Exception as error:
            raise NotThePolicy("raised", f"{type(error).__name__}: {error}") from error

    def _computed(self, policy: AnyPolicy, seen: InferenceObservation) -> object:
        """What a policy, or the rule, decides within its time; one from elsewhere in its own process."""
        seconds = self.options.deadline_seconds
        if isinstance(policy, IsolatedPolicy):
            made = policy.within(seen, seconds)
            if made.unsure:
                raise NotThePolicy("unsure", made.unsure)
            return made.decision

        def compute() -> Any:
            doubt = policy.unsure(seen) if isinstance(policy, Doubts) else ""
            return NotThePolicy("unsure", str(doubt)) if doubt else policy.decide(seen)

        decision = self._limited(compute, seconds)
        if isinstance(decision, NotThePolicy):
            raise decision
        return decision

    def _targets(self, decision: object, seen: InferenceObservation) -> dict[Role, int]:
        """From a change to numbers; those that are missing, and overdue, stay asked for while needed.

        Whoever decides sees the replicas that serve and those that are expected, not those that were asked
        for in vain: where it is content with them, nobody needs the others.
        """
        change = change_of(decision, seen)
        assert self._wanted is not None
        targets: dict[Role, int] = {}
        for pool in seen.pools:
            more = change.of(pool.role) + change.moved_into(pool.role)
            target = pool.coming + more
            content = more < 0 or (more == 0 and not pool.starting)
            targets[pool.role] = target if content else max(target, self._wanted[pool.role])
        return targets
