"""What is wanted of one object, planned without I/O: to be created, changed, or deleted.

The registry looks up what stands under the intent's key, asks the intent for its step, and commits the steps
of many intents in one transaction, each on the condition that its object has not changed since. Where that
failed it asks again with what stands there then, so `plan` may be called several times.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from proreus.engine.objects.error_messages import check_preconditions, not_found
from proreus.engine.objects.errors import AlreadyExists, StatusError
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.lifecycle import deletion_started, finished_deleting, first_state, next_state
from proreus.engine.objects.object_cache import StoredObject
from proreus.engine.objects.patch.server_side_apply import Writer, tracked
from proreus.engine.objects.schema.structure import shaped
from proreus.engine.objects.timestamps import timestamp
from proreus.engine.store.protocol import ABSENT

Change = Callable[[dict[str, Any]], dict[str, Any] | None]
"""From an object to what it is to be (sharing what stays); None: nothing to do. May be called repeatedly."""

_NAME_ENDINGS = "bcdfghjklmnpqrstvwxz2456789"
_ENDING_LENGTH, _LONGEST_BASE = 5, 58
_MOST_NAMES_TRIED = 8
DISRUPTED = "DisruptionTarget"
"""The condition of a pod that is taken for the sake of others."""
PREEMPTED = "PreemptionByScheduler"
"""Why, as Kubernetes puts it, where the scheduler makes room."""


class Write(msgspec.Struct, frozen=True, gc=False):
    """Put this object there if the key is still at `revision`."""

    key: str
    revision: int
    object: dict[str, Any]


class Remove(msgspec.Struct, frozen=True, gc=False):
    """Delete the key if it is still at `revision`; this was its last state."""

    key: str
    revision: int
    object: dict[str, Any]


class Nothing(msgspec.Struct, frozen=True, gc=False):
    """All is as it should be."""

    object: dict[str, Any]


Step = Write | Remove | Nothing


class Intent(Protocol):
    kind: Kind
    key: str
    absent: bool
    """Whether it is meant to find nothing: then it is planned without looking first."""
    size: int
    """Bytes of what was asked for, where they are many: what a plan costs is known by them."""

    def plan(self, standing: StoredObject | None) -> Step:
        """What to do, given what stands under the key; raises `Refused`."""
        ...


class Create:
    """A new object; `metadata.generateName` is given an ending until the name is free."""

    absent = True

    def __init__(self, kind: Kind, obj: dict[str, Any], now: float, size: int = 0) -> None:
        self.kind = kind
        # All is worked out here and now, but for another name where the one that was made up is taken.
        self.size = 0 if obj["metadata"].get("name") else size
        self._asked, self._now = obj, now
        self._tried = 0
        self._name_it()

    def _name_it(self) -> None:
        metadata = self._asked["metadata"]
        name = metadata.get("name") or self._name(metadata)
        self._object = first_state(self.kind, self._asked, name, uid=str(uuid.uuid4()), now=self._now)
        self.key = self.kind.key(metadata.get("namespace", ""), name)

    def plan(self, standing: StoredObject | None) -> Step:
        """It comes to be, under another ending where the name is taken."""
        if standing is not None:
            if not 0 < self._tried < _MOST_NAMES_TRIED:
                name = self._object["metadata"]["name"]
                raise AlreadyExists(
                    f'{self.kind.resource} "{name}" already exists', kind=self.kind.resource, name=name
                )
            self._name_it()
        return Write(self.key, ABSENT, self._object)

    def _name(self, metadata: dict[str, Any]) -> str:
        self._tried += 1
        base = str(metadata["generateName"])[:_LONGEST_BASE]
        return base + "".join(random.choices(_NAME_ENDINGS, k=_ENDING_LENGTH))


class Edit(msgspec.Struct):
    """Another state of an object that is there."""

    kind: Kind
    namespace: str
    name: str
    change: Change
    now: float
    subresource: str = ""
    manager: str = ""
    """Who asks, where the object notes who owns its fields; "" where `change` has noted that itself."""
    size: int = 0
    key: str = ""
    absent: bool = False

    def __post_init__(self) -> None:
        self.key = self.kind.key(self.namespace, self.name)

    def plan(self, standing: StoredObject | None) -> Step:
        """What the change makes of it, or its end where that took the last finalizer."""
        if standing is None:
            raise not_found(self.kind, self.name)
        changed = self.change(standing.object)
        if changed is None or changed is standing.object:
            return Nothing(standing.object)
        state = next_state(self.kind, standing.object, changed, self.subresource)
        if state is None:
            return Nothing(standing.object)
        if finished_deleting(self.kind, state):
            return Remove(self.key, standing.revision, state)
        if self.manager and "managedFields" in standing.object["metadata"]:
            writer = Writer(self.manager, self.now, self.subresource)
            state = tracked(self.kind, standing.object, state, writer)
        return Write(self.key, standing.revision, state)


class CreateOrEdit:
    """An object as `change` makes it: of what stands, or of `begun` where nothing does."""

    def __init__(self, edit: Edit, begun: dict[str, Any] | StatusError, *, absent: bool = False) -> None:
        """begun: has no uid, by which `change` can tell; a refusal is raised where nothing stands."""
        self.kind, self.key, self.size, self.absent = edit.kind, edit.key, edit.size, absent
        self._edit, self._begun = edit, begun

    def plan(self, standing: StoredObject | None) -> Step:
        """What the change makes of it, or of nothing."""
        if standing is not None:
            return self._edit.plan(standing)
        if isinstance(self._begun, StatusError):
            raise self._begun
        made = self._edit.change(self._begun)
        if made is None:
            raise not_found(self.kind, self._edit.name)
        return Create(self.kind, shaped(self.kind, made).object, self._edit.now).plan(None)


class Disruption(msgspec.Struct, frozen=True, gc=False):
    """Why a pod has to go that did nothing wrong: its condition DisruptionTarget, which Jobs may overlook."""

    reason: str
    message: str


class DeletionTerms(msgspec.Struct, frozen=True, gc=False):
    """How an object is to be deleted."""

    uid: str = ""
    resource_version: str = ""
    grace: int | None = None
    propagation: str = "Background"
    disruption: Disruption | None = None


class Deletion(msgspec.Struct):
    """An object is to go: at once, or marked so until whoever holds it lets it go."""

    kind: Kind
    namespace: str
    name: str
    terms: DeletionTerms
    now: float
    key: str = ""
    absent: bool = False
    size: int = 0

    def __post_init__(self) -> None:
        self.key = self.kind.key(self.namespace, self.name)

    def plan(self, standing: StoredObject | None) -> Step:
        """Its end, or the mark that it is to end."""
        if standing is None:
            raise not_found(self.kind, self.name)
        check_preconditions(self.kind, standing.object, self.terms.uid, self.terms.resource_version)
        state = deletion_started(
            self.kind, standing.object, self.terms.grace, self.terms.propagation, self.now
        )
        if state is None:
            return Nothing(standing.object)
        if self.terms.disruption is not None:
            state = _disrupted(state, self.terms.disruption, self.now)
        if finished_deleting(self.kind, state):
            return Remove(self.key, standing.revision, state)
        return Write(self.key, standing.revision, state)


def _disrupted(pod: dict[str, Any], why: Disruption, now: float) -> dict[str, Any]:
    """The pod with the condition that tells why it is taken; the first reason stays."""
    status = pod.get("status") or {}
    standing = status.get("conditions") or []
    if any(condition.get("type") == DISRUPTED for condition in standing):
        return pod
    condition = {
        "type": DISRUPTED,
        "status": "True",
        "reason": why.reason,
        "message": why.message,
        "lastTransitionTime": timestamp(now),
    }
    return {**pod, "status": {**status, "conditions": [*standing, condition]}}
