"""Events for people: v1 Events, the same one counted instead of written again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.intents import Intent
from proreus.engine.objects.kinds import EVENT, Kind
from proreus.engine.objects.metadata import Object, name_of, namespace_of, uid_of
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.timestamps import timestamp

_REMEMBERED = 4096
"""Events that are counted on; older ones begin anew."""
_OUTSIDE = "default"
"""The namespace of events about objects that have none."""


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """What happened to an object."""

    kind: Kind
    about: Object
    type: str
    reason: str
    message: str
    part: str = ""
    """Which part of it, as a path: `spec.containers{main}`."""
    host: str = ""
    """The node that tells it."""


class EventRecorder:
    """Makes events of one component."""

    def __init__(self, registry: Registry, component: str, clock: Callable[[], float]) -> None:
        self._registry, self._component, self._clock = registry, component, clock
        self._seen: OrderedDict[str, str] = OrderedDict()
        """The names of events, by what they tell."""
        self._last = 0

    async def want(self, told: PendingEvent) -> Intent:
        """What writes it down: a new event, or one more of an old one."""
        now = self._clock()
        moment = timestamp(now)
        mark = hashlib.blake2b(
            "\0".join((uid_of(told.about), told.type, told.reason, told.message, told.part)).encode(),
            digest_size=8,
        ).hexdigest()
        namespace = namespace_of(told.about) or _OUTSIDE
        if mark in self._seen:
            self._seen.move_to_end(mark)

            def again(event: Object) -> Object:
                return {**event, "count": int(event.get("count") or 1) + 1, "lastTimestamp": moment}

            return self._registry.editing(EVENT, namespace, self._seen[mark], again)
        # By the moment, as Kubernetes names them: those of one second are listed in their order.
        self._last = max(int(now * 1e6), self._last + 1)
        name = self._seen[mark] = f"{name_of(told.about)}.{self._last:x}{mark[:4]}"
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return await self._registry.creating(EVENT, self._event(told, namespace, name, moment))

    def forget(self, name: str) -> None:
        """The event is not there (any more): the next one is new."""
        for mark in [mark for mark, known in self._seen.items() if known == name]:
            del self._seen[mark]

    def misjudged(self, want: Intent, outcome: object) -> bool:
        """Whether an event that was to be counted on is gone by now: want it once more, as a new one."""
        gone = isinstance(outcome, NotFound)
        if gone:
            self.forget(want.key.rsplit("/", 1)[-1])
        return gone

    def _event(self, pending_event: PendingEvent, namespace: str, name: str, moment: str) -> Object:
        about = pending_event.about["metadata"]
        involved = {
            "kind": pending_event.kind.kind,
            "apiVersion": pending_event.kind.api_version,
            "name": about["name"],
            "uid": about["uid"],
            "resourceVersion": about.get("resourceVersion", ""),
        }
        if about.get("namespace"):
            involved["namespace"] = about["namespace"]
        if pending_event.part:
            involved["fieldPath"] = pending_event.part
        host = {"host": pending_event.host} if pending_event.host else {}
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "reason": pending_event.reason,
            "message": pending_event.message,
            "type": pending_event.type,
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "source": {"component": self._component, **host},
            "reportingComponent": self._component,
            "reportingInstance": pending_event.host,
        }
