"""Classes of service: how soon a request is to have its first token, and how fast the others."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.model.errors import UsageError

AS_MANY_AGAIN = 0.05
"""Attainment below what is wanted that adds as many GPU-hours as there were."""


@dataclass(frozen=True)
class ServiceClass:
    """What was promised to requests of a class."""

    name: str
    ttft: float
    """Seconds to the first token."""
    tbt: float
    """Seconds from one token to the next, on average over a request."""
    weight: float = 1.0
    """What a request of the class counts in attainment, against one of another class."""

    def __post_init__(self) -> None:
        if min(self.ttft, self.tbt) <= 0:
            raise UsageError(f"class {self.name!r} promises no time at all")
        if not self.weight > 0:
            raise UsageError(f"class {self.name!r} weighs nothing")


INTERACTIVE = ServiceClass("interactive", 2.0, 0.1)
BATCH = ServiceClass("batch", 30.0, 0.5)
