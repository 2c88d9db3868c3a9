"""Events for people: what happened to an object, written once and counted when it happens again.

Cores say what happened (`RecordEvent`); the component's recorder turns it into an Event and writes it with
whatever else is to be written. Called by the scheduler's binder, the kubelet's status writer and the
controllers' executor.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from proreus.engine.objects.intents import Intent
from proreus.engine.objects.kinds import EVENT, Kind
from proreus.engine.objects.metadata import Object, name_of, namespace_of, uid_of
from proreus.engine.objects.registry import Outcomes, Registry
from proreus.engine.objects.timestamps import micro_timestamp, timestamp
from proreus.engine.store.protocol import Unchanged

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Seconds between two writes of an event that comes again; the pause doubles."""
FORGOTTEN_SECONDS = 3600.0
BURST = 25.0
REFILL_SECONDS = 300.0
_REMEMBERED = 4096
"""Events, or objects, that are counted on; older ones begin anew."""
_OUTSIDE = "default"
"""The namespace of events about objects that have none."""
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 230


class RecordEvent(msgspec.Struct, frozen=True, gc=False):
    """What happened to an object, for people to read."""

    kind: Kind
    about: Object
    """Its metadata are looked at."""
    type: str
    """Normal or Warning."""
    reason: str
    message: str
    field_path: str = ""
    """Which part of it: `spec.containers{main}`."""
    host: str = ""
    """The node that tells it."""
    times: int = 1
    """How often it happened since it was last written."""


class EventLimit(Protocol):
    """Keeps what happens again and again from drowning the store."""

    def due(self, event: RecordEvent, now: float) -> RecordEvent | None:
        """The event as it is to be written now; None: not now."""
        ...


class EventLimiter:
    """One bucket for each object, as a kubelet has it: 25 events at once, one more in five minutes."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """What each may still tell, as of a moment."""

    def due(self, event: RecordEvent, now: float) -> RecordEvent | None:
        """The event, if one more may be told of its object."""
        uid = uid_of(event.about)
        left, since = self._left.pop(uid, (BURST, now))
        left = min(BURST, left + max(0.0, now - since) / REFILL_SECONDS)
        allowed = left >= 1.0
        self._left[uid] = (left - 1.0 if allowed else left, now)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return event if allowed else None


class _Repeated(msgspec.Struct):
    due: float
    pause: float
    unwritten: int = 0


class EventSeries:
    """The same event is written ever more rarely, as a series is in Kubernetes; its count stays right."""

    def __init__(self) -> None:
        self._repeated: OrderedDict[tuple[str, ...], _Repeated] = OrderedDict()

    def due(self, event: RecordEvent, now: float) -> RecordEvent | None:
        """The event with all that was held back of it; None: it is held back itself."""
        key = (uid_of(event.about), event.type, event.reason, event.message)
        repeated = self._repeated.get(key)
        if repeated is None or now - repeated.due > FORGOTTEN_SECONDS:
            self._repeated[key] = _Repeated(now + FIRST_PAUSE, FIRST_PAUSE)
            if len(self._repeated) > _REMEMBERED:
                self._repeated.popitem(last=False)
            return event
        self._repeated.move_to_end(key)
        repeated.unwritten += 1
        if now < repeated.due:
            return None
        times, repeated.unwritten = repeated.unwritten, 0
        repeated.pause = min(2 * repeated.pause, LONGEST_PAUSE)
        repeated.due = now + repeated.pause
        return msgspec.structs.replace(event, times=times)


class EventRecorder:
    """Writes the events of one component."""

    def __init__(
        self,
        registry: Registry,
        component: str,
        clock: Callable[[], float],
        limit: EventLimit | None = None,
        *,
        lasting_names: bool = False,
    ) -> None:
        """lasting_names: the same event has the same name, and is counted on after a restart; otherwise names
        tell the moment, as in Kubernetes, and those of one second are listed in their order."""
        self._registry, self._component, self._clock = registry, component, clock
        self._limit, self._lasting = limit, lasting_names
        self._names: OrderedDict[str, str] = OrderedDict()
        """Of the events that were written last, by what they tell."""
        self._last = 0

    def due(self, event: RecordEvent) -> RecordEvent | None:
        """The event as it is to be written now; None: the component's limit holds it back."""
        return event if self._limit is None else self._limit.due(event, self._clock())

    async def commit(
        self, intents: Sequence[Intent], events: Sequence[RecordEvent], fence: Unchanged | None = None
    ) -> tuple[Outcomes, Outcomes]:
        """What became of the intents, and of the events, in as few transactions as the store allows."""
        now = self._clock()
        wanted = [await self._intent(event, now) for event in events]
        outcomes = await self._registry.commit_each([*intents, *wanted], fence)
        return outcomes[: len(intents)], outcomes[len(intents) :]

    async def _intent(self, event: RecordEvent, now: float) -> Intent:
        """A new event, or one more of an old one."""
        marked = (uid_of(event.about), self._component, event.type, event.reason, event.message)
        mark = hashlib.blake2b("\0".join((*marked, event.field_path)).encode(), digest_size=8).hexdigest()
        first = mark not in self._names
        named = self._named(event, mark, now)

        def change(standing: Object) -> Object:
            return {
                **standing,
                "count": int(standing.get("count") or 0) + event.times,
                "lastTimestamp": timestamp(now),
            }

        obj = self._event(event, named, now)
        return await self._registry.creating_or_editing(EVENT, obj, change, absent=first)

    def _named(self, event: RecordEvent, mark: str, now: float) -> str:
        if mark in self._names:
            self._names.move_to_end(mark)
            return self._names[mark]
        if self._lasting:
            # The zero has it listed before those that are named by the moment.
            ending = f"0{mark}"
        else:
            self._last = max(int(now * 1e6), self._last + 1)
            ending = f"{self._last:x}{mark[:4]}"
        self._names[mark] = f"{name_of(event.about)[:_LONGEST_NAME]}.{ending}"
        if len(self._names) > _REMEMBERED:
            self._names.popitem(last=False)
        return self._names[mark]

    def _event(self, event: RecordEvent, name: str, now: float) -> Object:
        """As it begins; what counts it fills in the rest."""
        about = event.about["metadata"]
        involved = {
            "kind": event.kind.kind,
            "apiVersion": event.kind.api_version,
            "name": about["name"],
            "uid": about["uid"],
            "resourceVersion": about.get("resourceVersion", ""),
        }
        if about.get("namespace"):
            involved["namespace"] = about["namespace"]
        if event.field_path:
            involved["fieldPath"] = event.field_path
        host = {"host": event.host} if event.host else {}
        return {
            "metadata": {"name": name, "namespace": namespace_of(event.about) or _OUTSIDE},
            "involvedObject": involved,
            "reason": event.reason,
            "message": event.message[:_LONGEST_MESSAGE],
            "type": event.type,
            "firstTimestamp": timestamp(now),
            "eventTime": micro_timestamp(now),
            "source": {"component": self._component, **host},
            "reportingComponent": self._component,
            "reportingInstance": event.host or self._component,
        }
