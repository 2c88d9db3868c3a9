"""What a resource agent wants done: to its runtime, and to the objects that tell of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.objects.metadata import Object


@dataclass(frozen=True, slots=True)
class StartPod:
    """The runtime is to make a sandbox, and run these containers in it."""

    pod: Object
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartContainer:
    """The runtime is to run this container (again)."""

    uid: str
    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopPod:
    """The runtime is to end all containers."""

    uid: str
    grace: float


@dataclass(frozen=True, slots=True)
class ForgetPod:
    """The runtime is to forget the pod."""

    uid: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """The API is to show this status, if that pod is still there."""

    pod: Object
    status: dict[str, Any]
    lazy: bool = False
    """Whether it may wait a little for a later one that makes it needless."""


@dataclass(frozen=True, slots=True)
class FinishDeletion:
    """Nothing of the pod runs any more: its object may go."""

    pod: Object


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `tick` when the steady clock shows this."""

    steady: float


Order = StartPod | StartContainer | StopPod | ForgetPod | WriteStatus | FinishDeletion | RecordEvent | WakeAt
