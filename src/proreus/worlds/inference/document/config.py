"""The settings of the decision loop, under the names that the document gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.model.objectives import Objectives


@dataclass(frozen=True)
class RLConfig:
    """As `rl_config`; a mapping with some of these keys does as well."""

    action_scale_step: int = 5
    """Instances that an action of 1.0 starts."""
    action_mig_step: int = 3
    """Instances that an action of 1.0 migrates."""
    min_instances_per_pool: int = 1
    max_total_instances: int = 100
    decision_interval: float = 10.0
    """Seconds."""
    stack_size: int = 4
    """States that an agent sees at once, the last one last."""
    objectives: Objectives = field(default_factory=Objectives)
    """Weights of the reward."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("action_scale_step", "action_mig_step", "min_instances_per_pool"):
            if getattr(self, name) < 0:
                raise UsageError(f"rl_config: {name} is below 0")
        if min(self.max_total_instances, self.stack_size) < 1 or not self.decision_interval > 0:
            raise UsageError("rl_config: max_total_instances, stack_size and decision_interval are above 0")


def config_of(given: RLConfig | Mapping[str, Any] | None) -> RLConfig:
    """The settings; a UsageError names a key that is none of them."""
    if isinstance(given, RLConfig):
        return given
    known = [one.name for one in fields(RLConfig)]
    for name in given or {}:
        if name not in known:
            raise unknown_name("key of rl_config", name, known)
    return RLConfig(**(given or {}))
