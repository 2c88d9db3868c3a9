"""Events: what happened to an object, told once and counted when it happens again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proreus.engine.objects.errors import AlreadyExists
from proreus.engine.objects.kinds import EVENT
from proreus.engine.objects.registry import Outcomes, Registry
from proreus.engine.objects.times import micro_timestamp, timestamp

_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 230
_HASH_LENGTH = 16
_Map = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to tell of an object."""

    about: _Map
    """The object as it was read: kind, apiVersion and metadata are looked at."""
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
    action: str = ""


def event_of(note: Note, component: str, now: float) -> _Map:
    """The Event; the same note of the same component has the same name, so that it can be counted."""
    metadata = note.about["metadata"]
    told = "\0".join((metadata.get("uid", ""), component, note.type, note.reason, note.message))
    # The zero has it listed before what agents tell in the same second, who name events by the moment.
    ending = "0" + hashlib.sha256(told.encode()).hexdigest()[: _HASH_LENGTH - 1]
    about = {
        "kind": note.about.get("kind", ""),
        "apiVersion": note.about.get("apiVersion", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    namespace = metadata.get("namespace") or "default"
    if metadata.get("namespace"):
        about["namespace"] = namespace
    return {
        "metadata": {"name": f"{metadata['name'][:_LONGEST_NAME]}.{ending}", "namespace": namespace},
        "involvedObject": about,
        "type": note.type,
        "reason": note.reason,
        "message": note.message[:_LONGEST_MESSAGE],
        "action": note.action,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "eventTime": micro_timestamp(now),
        "count": 1,
    }


async def record(registry: Registry, notes: Sequence[Note], component: str, now: float) -> Outcomes:
    """All notes as Events, by as few transactions as the store allows; what was told before counts again."""
    outcomes = await registry.create_many(EVENT, [event_of(note, component, now) for note in notes])
    told_before = [place for place, one in enumerate(outcomes) if isinstance(one, AlreadyExists)]
    if told_before:
        wants = []
        for place in told_before:
            metadata = event_of(notes[place], component, now)["metadata"]
            wants.append(
                registry.editing(
                    EVENT, metadata["namespace"], metadata["name"], lambda event: _again(event, now)
                )
            )
        for place, outcome in zip(told_before, await registry.commit_each(wants), strict=True):
            outcomes[place] = outcome
    return outcomes


def _again(event: _Map, now: float) -> _Map:
    return {**event, "count": event.get("count", 1) + 1, "lastTimestamp": timestamp(now)}
