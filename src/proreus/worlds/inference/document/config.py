"""The settings of the decision loop, under the names that the document gives them.

They may be said in the cluster file or in `rl_config`; where both say one, `rl_config` has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.datasets.cluster_file import MAX_TOTAL_INSTANCES
from proreus.worlds.inference.model.objectives import Objectives
from proreus.worlds.inference.simulation.options import ControlOptions


@dataclass(frozen=True)
class RLConfig:
    """As `rl_config`; a mapping with some of these keys does as well."""

    action_scale_step: int = 5
    """Instances that an action of 1.0 starts."""
    action_mig_step: int = 3
    """Instances that an action of 1.0 migrates."""
    min_instances_per_pool: int = 1
    max_total_instances: int = MAX_TOTAL_INSTANCES
    decision_interval: float = 10.0
    """Seconds."""
    stack_size: int = 4
    """States that an agent sees at once, the last one last."""
    adaptive_step: bool = False
    """Whether the step of a pool follows its load: up to twice as many where much waits, half where little
    does."""
    scale_up_delay: float | None = None
    """Seconds that a start takes; None: as the cluster file, or the scenario, has it."""
    drain_check_interval: float | None = None
    """Seconds between looks at a draining instance; None: likewise."""
    objectives: Objectives = field(default_factory=Objectives)
    """Weights of the reward."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("action_scale_step", "action_mig_step", "min_instances_per_pool"):
            if getattr(self, name) < 0:
                raise UsageError(f"rl_config: {name} is below 0")
        if min(self.max_total_instances, self.stack_size) < 1 or not self.decision_interval > 0:
            raise UsageError("rl_config: max_total_instances, stack_size and decision_interval are above 0")
        for name in ("scale_up_delay", "drain_check_interval"):
            if not 0 <= (getattr(self, name) or 0.0) < float("inf"):
                raise UsageError(f"rl_config: {name} is no number of seconds")


def config_of(given: RLConfig | Mapping[str, Any] | None, options: ControlOptions | None = None) -> RLConfig:
    """The settings; a UsageError names a key that is none of them.

    What a mapping leaves out is as the application has it, which its cluster file says.
    """
    if isinstance(given, RLConfig):
        return given
    known = [setting.name for setting in fields(RLConfig)]
    for name in given or {}:
        if name not in known:
            raise unknown_name("key of rl_config", name, known)
    of_application = {}
    if options is not None:
        of_application = {
            "action_scale_step": options.scale_step,
            "action_mig_step": options.migrate_step,
            "min_instances_per_pool": options.limits.least,
            "max_total_instances": options.limits.most_in_total,
            "decision_interval": options.interval,
            "objectives": options.objectives,
        }
    return RLConfig(**{**of_application, **(given or {})})


def with_config(options: ControlOptions, config: RLConfig) -> ControlOptions:
    """How an application is controlled under these settings."""
    limits = replace(
        options.limits, least=config.min_instances_per_pool, most_in_total=config.max_total_instances
    )
    return replace(
        options,
        interval=config.decision_interval,
        scale_step=config.action_scale_step,
        migrate_step=config.action_mig_step,
        limits=limits,
        objectives=config.objectives,
    )
