"""The action executor: three numbers become starts, drains and migrations, all of them within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proreus.model.errors import UsageError
from proreus.worlds.inference.document.application import Application
from proreus.worlds.inference.document.config import RLConfig, config_of, with_config
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.start_up import starting_within
from proreus.worlds.inference.policies.rules.work import use_of

_EVEN = 0.5
"""The use of a pool at which an adaptive step is the usual one."""


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
        self.config = config_of(config, application.options)
        application.control(with_config(application.options, self.config))
        if self.config.scale_up_delay is not None:
            self.scaling_manager.start = starting_within(self.config.scale_up_delay)
        if self.config.drain_check_interval is not None:
            application.cluster.check_drains_every(self.config.drain_check_interval)

    def execute(self, action: Sequence[float]) -> Executed:
        """[prompt, token, migration], each in its step; what is beyond -1 and 1 is cut."""
        found = np.asarray(action, dtype=np.float64).ravel()
        if found.shape != (3,) or not np.isfinite(found).all():
            raise UsageError(f"an action has three finite numbers, not {action!r}")
        prompt, token, migrate = (float(part) for part in np.clip(found, -1.0, 1.0))
        return Executed(
            self._handle_scaling(round(prompt * self.scale_step("prompt", prompt)), "prompt"),
            self._handle_scaling(round(token * self.scale_step("token", token)), "token"),
            self._handle_migration(round(migrate * self.config.action_mig_step)),
        )

    def scale_step(self, tag: Role, direction: float = 1.0) -> int:
        """Instances that an action of 1.0 (-1.0) starts (drains) in a pool now.

        Where steps are adaptive, they grow with what waits or is held in the pool when it is to grow, and
        with what is free when it is to shrink: half to twice the usual step.
        """
        usual = self.config.action_scale_step
        seen = self.application.observation() if self.config.adaptive_step else None
        if seen is None or tag not in seen.steps.roles:
            return usual
        use = max(use_of(seen, seen.pool(tag)).values())
        share = use if direction >= 0 else 1.0 - use
        return max(round(usual * min(max(share / _EVEN, 0.5), 2.0)), 1)

    def _get_instance_config(self, tag: Role) -> str:
        """The kind of instance that the pool began with."""
        return self.application.start_state_manager.get_instance_config(tag)

    def _get_parallelism(self, tag: Role) -> int:
        """Its GPUs."""
        return self.application.start_state_manager.get_parallelism(tag)

    def _handle_scaling(self, delta: int, tag: Role) -> int:
        """So many instances more, or fewer; until the first one that cannot be."""
        done = 0
        for _ in range(abs(delta)):
            if not (self._add(tag) if delta > 0 else self._remove(tag)):
                break
            done += 1 if delta > 0 else -1
        return done

    def _add(self, tag: Role) -> bool:
        _, instance = self.scaling_manager.scale_up_full(
            instance_cfg=self._get_instance_config(tag),
            parallelism=self._get_parallelism(tag),
            tag=tag,
            server_sku=None,
        )
        return instance is not None

    def _remove(self, tag: Role) -> bool:
        """The one with least to do; before it, one that only starts, which nobody would miss."""
        victims = self.scaling_manager.victims(tag)
        return bool(victims) and self.scaling_manager.scale_down_full(victims[0])

    def _handle_migration(self, delta: int) -> int:
        """From prompts to tokens, or back where it is negative."""
        source: Role = "prompt" if delta > 0 else "token"
        target: Role = "token" if delta > 0 else "prompt"
        done = 0
        for _ in range(abs(delta)):
            active = self.scaling_manager.get_active_instances(self.scaling_manager.victims(source))
            if not active or not self.scaling_manager.migrate(active[0], target):
                break
            done += 1 if delta > 0 else -1
        return done
