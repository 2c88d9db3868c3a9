"""What a resource agent wants done: to its runtime, and to the objects that tell of it."""

from __future__ import annotations

from typing import Any

import msgspec

from proreus.engine.objects.event_recorder import RecordEvent
from proreus.engine.objects.metadata import Object


class StartPod(msgspec.Struct, frozen=True, gc=False):
    """The runtime is to make a sandbox, and run these containers in it."""

    pod: Object
    containers: tuple[str, ...]


class StartContainer(msgspec.Struct, frozen=True, gc=False):
    """The runtime is to run this container (again)."""

    uid: str
    container: str
    attempt: int


class StopPod(msgspec.Struct, frozen=True, gc=False):
    """The runtime is to end all containers."""

    uid: str
    grace: float


class StopContainer(msgspec.Struct, frozen=True, gc=False):
    """The runtime is to end this container alone."""

    uid: str
    container: str
    grace: float


class ForgetPod(msgspec.Struct, frozen=True, gc=False):
    """The runtime is to forget the pod."""

    uid: str


class WriteStatus(msgspec.Struct, frozen=True, gc=False):
    """The API is to show this status, if that pod is still there."""

    pod: Object
    status: dict[str, Any]
    lazy: bool = False
    """Whether it may wait a little for a later one that makes it needless."""


class FinishDeletion(msgspec.Struct, frozen=True, gc=False):
    """Nothing of the pod runs any more: its object may go."""

    pod: Object


class WakeAt(msgspec.Struct, frozen=True, gc=False):
    """Call `tick` when the steady clock shows this."""

    steady: float


Order = (
    StartPod
    | StartContainer
    | StopPod
    | StopContainer
    | ForgetPod
    | WriteStatus
    | FinishDeletion
    | RecordEvent
    | WakeAt
)
