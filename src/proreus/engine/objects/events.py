"""Events: what happened to an object, told once and counted when it happens again.

What happens again and again is written with a back-off, as Kubernetes' event series are: the event's count is
right at every write, and the writes get rarer.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from proreus.engine.objects.errors import AlreadyExists
from proreus.engine.objects.kinds import EVENT
from proreus.engine.objects.registry import Outcomes, Registry
from proreus.engine.objects.timestamps import micro_timestamp, timestamp

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Seconds between two writes of an event that comes again; the pause doubles."""
FORGOTTEN_SECONDS = 3600.0
_REMEMBERED = 4096
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 230
_HASH_LENGTH = 16
_Map = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventNote:
    """One thing to tell of an object."""

    about: _Map
    """The object as it was read: kind, apiVersion and metadata are looked at."""
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
    action: str = ""
    times: int = 1
    """How often it happened since it was last written."""


@dataclass(slots=True)
class _Repeated:
    due: float
    pause: float
    unwritten: int = 0


class Series:
    """Which notes are to be written now, where the same ones come again and again."""

    def __init__(self) -> None:
        self._repeated: OrderedDict[tuple[str, ...], _Repeated] = OrderedDict()

    def due(self, note: EventNote, now: float) -> EventNote | None:
        """The note with all that was held back of it; None: it is held back itself."""
        key = (note.about["metadata"].get("uid", ""), note.type, note.reason, note.message)
        repeated = self._repeated.get(key)
        if repeated is None or now - repeated.due > FORGOTTEN_SECONDS:
            self._repeated[key] = _Repeated(now + FIRST_PAUSE, FIRST_PAUSE)
            if len(self._repeated) > _REMEMBERED:
                self._repeated.popitem(last=False)
            return note
        self._repeated.move_to_end(key)
        repeated.unwritten += 1
        if now < repeated.due:
            return None
        times, repeated.unwritten = repeated.unwritten, 0
        repeated.pause = min(2 * repeated.pause, LONGEST_PAUSE)
        repeated.due = now + repeated.pause
        return replace(note, times=times)


def event_of(note: EventNote, component: str, now: float) -> _Map:
    """The Event; the same note of the same component has the same name, so that it can be counted."""
    metadata = note.about["metadata"]
    message = "\0".join((metadata.get("uid", ""), component, note.type, note.reason, note.message))
    # The zero has it listed before what agents tell in the same second, who name events by the moment.
    ending = "0" + hashlib.sha256(message.encode()).hexdigest()[: _HASH_LENGTH - 1]
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
        "count": note.times,
    }


async def record(registry: Registry, notes: Sequence[EventNote], component: str, now: float) -> Outcomes:
    """All notes as Events, by as few transactions as the store allows; what was told before counts again."""
    outcomes = await registry.create_many(EVENT, [event_of(note, component, now) for note in notes])
    told_before = [place for place, one in enumerate(outcomes) if isinstance(one, AlreadyExists)]
    if told_before:
        wants = []
        for place in told_before:
            metadata = event_of(notes[place], component, now)["metadata"]
            wants.append(
                registry.editing(
                    EVENT,
                    metadata["namespace"],
                    metadata["name"],
                    partial(_again, times=notes[place].times, now=now),
                )
            )
        for place, outcome in zip(told_before, await registry.commit_each(wants), strict=True):
            outcomes[place] = outcome
    return outcomes


def _again(event: _Map, times: int, now: float) -> _Map:
    return {**event, "count": (event.get("count") or 1) + times, "lastTimestamp": timestamp(now)}
