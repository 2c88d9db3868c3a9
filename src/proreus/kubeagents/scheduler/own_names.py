"""Whose pods these are: one schedulerName and no other, with a canary for some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proreus.engine.objects.promotions import in_share, ways
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler.instructions import PodRef
from proreus.engine.scheduler.profiles import Schedulers, Untrained


@dataclass(frozen=True)
class Canary:
    """Another policy that decides for some of the pods; the one that decides for the rest is its shadow."""

    policy: str
    share: float = 0.0
    """Of all pods, by their uids: whoever asks gets the same answer for ever."""
    namespaces: frozenset[str] = frozenset()
    """All pods of these."""

    def takes(self, pod: PodRef) -> bool:
        """Whether it decides about this one."""
        return pod.namespace in self.namespaces or in_share(pod.uid, self.share)


@dataclass(frozen=True)
class OwnName(Schedulers):
    """Pods of any other schedulerName are somebody else's, and are not spoken to."""

    name: str = "proreus"
    canary: Canary | None = None
    tells_unknown: ClassVar[bool] = False

    def named(self, scheduler: str) -> Chosen | Untrained | None:
        """Who decides for that schedulerName."""
        return self.default if scheduler == self.name else None

    def for_pod(self, scheduler: str, pod: PodRef) -> Chosen | Untrained | None:
        """The canary, where it is one of its pods."""
        chosen = super().for_pod(scheduler, pod)
        if not isinstance(chosen, Chosen) or self.canary is None:
            return chosen
        present, canary = self.ways
        return canary if self.canary.takes(pod) else present

    @property
    def ways(self) -> tuple[Chosen, ...]:
        """All that may decide."""
        chosen = self.default
        if self.canary is None:
            return ways(chosen)
        return (
            Chosen(chosen.policy, chosen.shadow or self.canary.policy, chosen.deadline_ms),
            Chosen(self.canary.policy, chosen.policy, chosen.deadline_ms),
        )
