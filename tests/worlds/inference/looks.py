"""What a controller sees, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from proreus.worlds.inference.model.decision import ScaleSteps
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.state.observation import Ability, InferenceObservation, PoolSeen, Traffic

CALM = Traffic(10.0, 10_000.0, 2_000.0, 100, 0.3, 0.1, 1.0, 0.5, 0.5)


def pool(role: str, active: int = 4, **more: object) -> PoolSeen:
    """A pool at half of what it can do."""
    usual = PoolSeen(role, active, (), 0, 0, 40, 20_000, 0.5, 0.6)  # type: ignore[arg-type]
    return replace(usual, **more)  # type: ignore[arg-type]


def seen(
    *pools: PoolSeen, now: float = 100.0, limits: Limits | None = None, load: float = 1.0, intervals: int = 1
) -> InferenceObservation:
    """Instances that compute 10,000 prompt tokens a second, generate 1,000 and hold 100,000."""
    return InferenceObservation(
        now=now,
        interval=10.0,
        pools=pools,
        traffic=CALM,
        history=np.array([[10.0 * load, 10_000.0 * load, 2_000.0 * load]] * intervals),
        at_router=0,
        total=sum(pool.coming + pool.draining for pool in pools),
        limits=limits or Limits(most_in_total=20),
        start_seconds=120.0,
        abilities=(Ability(10_000.0, 1_000.0, 100_000.0),) * len(pools),
        steps=ScaleSteps(tuple(pool.role for pool in pools)),
        future=lambda begin, until: (10.0, 70_000.0, 2_800.0),
    )
