"""Which policy decides for which schedulerName: defaults, and the ConfigMap kube-system/proreus-schedulers.

Without an entry, `default-scheduler` is `kube`, and the name of a rule, of a shipped checkpoint or of a
folder of models stands for itself; so does that of an algorithm, for which there may be no model yet. A model
of one's own called `ddqn` goes before the shipped one. Pods with any other schedulerName are somebody else's,
or nobody's.

The names of rules may be written with dashes, as names are in Kubernetes: `kube-plus` is `kube_plus`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from proreus.engine.objects.promotions import Promotion, deciding
from proreus.engine.objects.scheduler_config import DEFAULT_SCHEDULER, NAME, NAMESPACE, Chosen
from proreus.engine.scheduler.instructions import PodRef
from proreus.policies.checkpoint import is_checkpoint
from proreus.worlds.pods.policies.catalogue import POLICIES

RULE = "kube"
"""Decides by default, and where another policy is slow, unsure, wrong or fails."""
ALGORITHMS = ("es", "ppo", "ddqn", "imitate")
"""Learn models for pods; nobody else's scheduler is taken to be called so."""
_MOST_NAMED = 16
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Untrained:
    """A name that is ours, and has no policy to decide."""

    told: str
    """To whoever asked for it."""


@dataclass(frozen=True)
class Schedulers:
    """Who decides for whom, as it was chosen last."""

    chosen: Mapping[str, Chosen]
    default: Chosen
    """For `default-scheduler`, where the ConfigMap does not say."""
    models: Path | None = None
    """A folder of checkpoints and training runs whose names stand for themselves."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with entries of the ConfigMap that do not count."""
    promotions: Mapping[str, Promotion] = field(default_factory=dict)
    """How far candidates have come."""

    tells_unknown: ClassVar[bool] = True
    """Whether pods of schedulers that nobody goes by are told so."""

    def for_pod(self, scheduler: str, pod: PodRef) -> Chosen | Untrained | None:
        """Who decides about that pod: the candidate, where it has come so far."""
        choice = self.named(scheduler)
        if not isinstance(choice, Chosen):
            return choice
        return deciding(choice, self.promotions.get(scheduler), pod.uid)

    def named(self, scheduler: str) -> Chosen | Untrained | None:
        """Who decides for that schedulerName; None: it is somebody else's."""
        choice = self.chosen.get(scheduler)
        if choice is not None:
            return choice
        if scheduler == DEFAULT_SCHEDULER:
            return self.default
        if scheduler in self.refused:
            return Untrained(f"ConfigMap {NAMESPACE}/{NAME}: {self.refused[scheduler]}")
        if scheduler in POLICIES.names and scheduler not in ALGORITHMS:
            return Chosen(scheduler)
        # The name comes from whoever may create pods: it must not lead out of the folder.
        if self.models is not None and _PLAIN.fullmatch(scheduler):
            folder = self.models / scheduler
            if is_checkpoint(folder) or is_checkpoint(folder / "best"):
                return Chosen(str(folder))
        if (rule := scheduler.replace("-", "_")) in POLICIES.names:
            return Chosen(rule)
        return self._untrained(scheduler) if scheduler in ALGORITHMS else None

    def unknown(self, scheduler: str) -> str:
        """To whoever asked for a name that nobody goes by."""
        names = dict.fromkeys((DEFAULT_SCHEDULER, *sorted(self.chosen)[:_MOST_NAMED], *POLICIES.names))
        return (
            f"no scheduler named {scheduler!r}: say one of {', '.join(names)}, "
            f"or add it to the ConfigMap {NAMESPACE}/{NAME}"
        )

    def _untrained(self, scheduler: str) -> Untrained:
        how = (
            "name a folder of them, --models DIR"
            if self.models is None
            else f"proreus train pods --algo {scheduler} --scenarios gpu --out {self.models / scheduler}"
        )
        return Untrained(f"schedulerName {scheduler} needs a trained model: {how}")
