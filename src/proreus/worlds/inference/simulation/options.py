"""How a cluster is controlled: when a controller decides, within what, and what was promised to users."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from proreus.model.errors import UsageError
from proreus.worlds.inference.model.objectives import Objectives
from proreus.worlds.inference.model.service import BATCH, INTERACTIVE, ServiceClass
from proreus.worlds.inference.model.start_up import Limits, StartUp


@dataclass(frozen=True)
class ControlOptions:
    """What holds for every controller of a run."""

    interval: float = 10.0
    """Seconds between two decisions."""
    start: StartUp = field(default_factory=StartUp)
    limits: Limits = field(default_factory=Limits)
    scale_step: int = 5
    """Most instances of a pool that one decision starts or drains."""
    migrate_step: int = 3
    """Most that one decision migrates between pools."""
    classes: tuple[ServiceClass, ...] = (INTERACTIVE, BATCH)
    objectives: Objectives = field(default_factory=Objectives)
    spot_seconds: float = 0.0
    """Mean life of an instance that the provider may take away; 0: none is."""
    wanted: float = 0.99
    """Share of requests that is to be served as promised."""

    def __post_init__(self) -> None:
        if not 0 < self.interval < math.inf:
            raise UsageError(f"interval: {self.interval:g} is not a number of seconds above 0")
        if min(self.scale_step, self.migrate_step, self.spot_seconds) < 0:
            raise UsageError("steps and the life of spot instances are not below 0")
