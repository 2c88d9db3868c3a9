"""What the core of the SchedulingAgent takes and gives: events in, instructions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

Object = dict[str, Any]
"""A Kubernetes object as JSON has it; nobody changes one that was handed to them."""


class PodRef(msgspec.Struct, frozen=True, gc=False):
    """One pod of all that ever had this name."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """Namespace and name, as logs and events have it."""
        return f"{self.namespace}/{self.name}"


class ObjectUpdated(msgspec.Struct, frozen=True, gc=False):
    """An object is there, or is now like this."""

    kind: str
    object: Object


class ObjectDeleted(msgspec.Struct, frozen=True, gc=False):
    """An object is there no longer; this was its last state."""

    kind: str
    object: Object


class InstructionFailed(msgspec.Struct, frozen=True, gc=False):
    """What was instructed about a pod, to bind it, to evict for it or to tell it, did not come about."""

    pod: PodRef
    why: str
    told_only: bool = False
    """It was only to be told why it waits."""


Event = ObjectUpdated | ObjectDeleted | InstructionFailed


class VolumeAction(msgspec.Struct, frozen=True, gc=False):
    """A claim that gets its volume now that its pod has a node."""

    namespace: str
    claim: str
    uid: str
    """Of the claim."""
    volume: str = ""
    """One that is there and free; "": one is to be provisioned."""


class BindPodTo(msgspec.Struct, frozen=True, gc=False):
    """Write the pod's node down."""

    pod: PodRef
    node: str
    annotations: Mapping[str, str]
    told: str
    """For the event `Scheduled`."""
    volumes: tuple[VolumeAction, ...] = ()
    """What is to be written for its claims first."""


class PreemptFor(msgspec.Struct, frozen=True, gc=False):
    """Delete the victims and note the node that the pod waits for; it is decided about again later."""

    pod: PodRef
    node: str
    victims: tuple[PodRef, ...]
    told: str
    """For the event `FailedScheduling`."""
    no_longer_nominated: tuple[PodRef, ...] = ()
    """Pods of lower priority that waited for the same node."""


class DelayPod(msgspec.Struct, frozen=True, gc=False):
    """Say why the pod has to wait."""

    pod: PodRef
    told: str
    clear_nomination: bool = False


class RejectPod(msgspec.Struct, frozen=True, gc=False):
    """Say that the pod is not tried again as it is."""

    pod: PodRef
    told: str


@dataclass(frozen=True, slots=True)
class Complain:
    """Say what is wrong with an object of the user's, or with whoever decides about it."""

    object: Object = field(repr=False)
    told: str
    reason: str = "Misconfigured"


Instruction = BindPodTo | PreemptFor | DelayPod | RejectPod | Complain
