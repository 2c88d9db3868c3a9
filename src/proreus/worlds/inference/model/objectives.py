"""What an interval is worth to a controller that learns: named objectives with weights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """What happened between two decisions, in shares."""

    missed: float
    """Of the requests that ended, or should have: those that were not served as promised."""
    cost: float
    """Price of all instances, in what the most that may be would cost."""
    changed: int
    """Instances that were started, drained or migrated."""
    busy: tuple[float, ...]
    """Share of the interval that the instances of each pool had a batch."""
    energy: float
    """In what the most instances would take at full power."""


@dataclass(frozen=True)
class Objectives:
    """Weights; the reward of an interval is never above the weight of utilisation."""

    slo: float = 2.0
    cost: float = 0.6
    stability: float = 0.15
    utilisation: float = 0.05
    energy: float = 0.0
    wanted_use: float = 0.7
    """The share at which an instance is best used."""

    def reward(self, interval: Interval) -> float:
        """Of one interval."""
        use = sum(1.0 - abs(busy - self.wanted_use) for busy in interval.busy) / max(len(interval.busy), 1)
        return (
            -self.slo * interval.missed
            - self.cost * interval.cost
            - self.stability * interval.changed / 10.0
            + self.utilisation * use
            - self.energy * interval.energy
        )
