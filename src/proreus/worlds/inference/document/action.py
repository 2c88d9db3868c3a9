"""The action executor: three numbers become starts, drains and migrations, all of them within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from proreus.model.errors import UsageError
from proreus.worlds.inference.document.application import Application
from proreus.worlds.inference.document.config import RLConfig, config_of
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.simulation.scaling_manager import Instance


@dataclass(frozen=True)
class Executed:
    """Instances that an action started (positive) or drained in each pool, and migrated to the token pool."""

    prompt: int
    token: int
    migrated: int


class RLActionExecutor:
    """Carries actions out through the scaling manager of an application."""

    def __init__(self, application: Application, config: RLConfig | Mapping[str, Any] | None = None) -> None:
        self.application = application
        self.scaling_manager = application.scaling_manager
        self.scheduler = application.scheduler
        self.config = config_of(config)
        self.scaling_manager.limits = replace(
            self.scaling_manager.limits,
            least=self.config.min_instances_per_pool,
            most_in_total=self.config.max_total_instances,
        )

    def execute(self, action: Sequence[float]) -> Executed:
        """[prompt, token, migration], each in its step; what is beyond -1 and 1 is cut."""
        found = np.asarray(action, dtype=np.float64).ravel()
        if found.shape != (3,) or not np.isfinite(found).all():
            raise UsageError(f"an action has three finite numbers, not {action!r}")
        prompt, token, migrate = np.clip(found, -1.0, 1.0)
        return Executed(
            self._handle_scaling(_whole(prompt * self.config.action_scale_step), "prompt"),
            self._handle_scaling(_whole(token * self.config.action_scale_step), "token"),
            self._handle_migration(_whole(migrate * self.config.action_mig_step)),
        )

    def _handle_scaling(self, delta: int, tag: Role) -> int:
        """So many instances more, or fewer; until the first one that cannot be."""
        done = 0
        for _ in range(abs(delta)):
            if not (self._add(tag) if delta > 0 else self._remove(tag)):
                break
            done += 1 if delta > 0 else -1
        return done

    def _add(self, tag: Role) -> bool:
        manager = self.application.start_state_manager
        return (
            self.scaling_manager.scale_up_full(
                instance_cfg=manager.get_instance_config(tag),
                parallelism=manager.get_parallelism(tag),
                tag=tag,
                server_sku=None,
            )
            is not None
        )

    def _remove(self, tag: Role) -> bool:
        active = list(self.application.active(tag))
        return bool(active) and self.scaling_manager.scale_down_full(self._least_loaded(active, tag))

    def _handle_migration(self, delta: int) -> int:
        """From prompts to tokens, or back where it is negative."""
        source: Role = "prompt" if delta > 0 else "token"
        target: Role = "token" if delta > 0 else "prompt"
        done = 0
        for _ in range(abs(delta)):
            active = list(self.application.active(source))
            if not active or not self.scaling_manager.migrate(self._least_loaded(active, source), target):
                break
            done += 1 if delta > 0 else -1
        return done

    def _least_loaded(self, active: Sequence[Instance], tag: Role) -> Instance:
        if tag == "prompt":
            return min(active, key=lambda instance: (instance.sched_pending_tokens, instance.instance_id))
        return min(active, key=lambda instance: (instance.sched_memory, instance.instance_id))


def _whole(value: float) -> int:
    return round(float(value))
