"""What the agents without nodes want done to objects; they say it, their shell does it.

Every instruction is of the state that was looked at: where that has changed since, it is refused, and the
agent looks again. So acting twice, or on what is old, does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass

from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.objects.intents import Disruption
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.metadata import Object

__all__ = [
    "CreateObject",
    "DeleteObject",
    "Instruction",
    "ReconcileResult",
    "RecordEvent",
    "UpdateObject",
    "sooner",
]


@dataclass(frozen=True, slots=True)
class CreateObject:
    """A new object."""

    kind: Kind
    object: Object


@dataclass(frozen=True, slots=True)
class UpdateObject:
    """This state instead of the one with its resourceVersion."""

    kind: Kind
    object: Object
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """This very object is to go."""

    kind: Kind
    object: Object
    grace: int | None = None
    propagation: str = "Background"
    disruption: Disruption | None = None
    """Of a pod: why it has to go though it did nothing wrong."""


Instruction = CreateObject | UpdateObject | DeleteObject | RecordEvent


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What to do now, and when to look again even if nothing changes."""

    instructions: tuple[Instruction, ...] = ()
    again_in: float | None = None
    """Seconds; None: only when something changes."""


def sooner(*waits: float | None) -> float | None:
    """The first of the moments that are waited for."""
    stated = [wait for wait in waits if wait is not None]
    return min(stated) if stated else None
