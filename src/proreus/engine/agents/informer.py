"""What stands, followed: one list, then one watch, and everybody in the process is told of each change once.

Where the history is too short the informer lists again and tells the difference; where the store is away it
tries again. Whoever is told must return soon and must not change what it is handed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from proreus.engine.agents.metadata import Object, key_of
from proreus.engine.objects.errors import Gone, Unserviceable
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.registry import ObjectEvent, Registry

Hear = Callable[[ObjectEvent], None]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Informer:
    """All objects of a kind as they were last heard of."""

    def __init__(self, registry: Registry, kind: Kind) -> None:
        self.kind = kind
        self.objects: dict[tuple[str, str], Object] = {}
        """By namespace and name; read only."""
        self.revision = 0
        """Everything up to this revision of the store has been told."""
        self.synced = asyncio.Event()
        """Set once what stood at the beginning has been told."""
        self._registry = registry
        self._hearers: list[Hear] = []

    def subscribe(self, hear: Hear) -> None:
        """Every change goes there; call it before `run`, and what stands comes first, as ADDED."""
        self._hearers.append(hear)

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as it was last heard of."""
        return self.objects.get((namespace, name))

    async def run(self) -> None:
        """Follow until cancelled, or until the store is closed."""
        pause = _FIRST_PAUSE
        listed = False
        while True:
            try:
                if not listed:
                    await self._list()
                    listed = True
                async with aclosing(self._registry.watch(self.kind, after=self.revision)) as events:
                    async for event in events:
                        pause = _FIRST_PAUSE
                        self._take(event)
                return
            except Gone:
                listed = False
            except Unserviceable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _list(self) -> None:
        """What stands now; what is not there any more has gone meanwhile."""
        listed = await self._registry.list(self.kind)
        gone = dict(self.objects)
        for obj in listed.items:
            before = gone.pop(key_of(obj), None)
            if before is None or before["metadata"]["uid"] != obj["metadata"]["uid"]:
                if before is not None:
                    self._tell("DELETED", before, before, listed.revision)
                self._tell("ADDED", obj, None, listed.revision)
            elif before["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._tell("MODIFIED", obj, before, listed.revision)
        for before in gone.values():
            self._tell("DELETED", before, before, listed.revision)
        self.revision = listed.revision
        self.synced.set()

    def _tell(self, kind: Any, obj: Object, previous: Object | None, revision: int) -> None:
        self._take(ObjectEvent(kind, obj, previous, revision))

    def _take(self, event: ObjectEvent) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                self.objects[key_of(event.object)] = event.object
            case "DELETED":
                self.objects.pop(key_of(event.object), None)
            case "BOOKMARK":
                self.revision = max(self.revision, event.revision)
                return
        self.revision = max(self.revision, event.revision)
        for hear in self._hearers:
            hear(event)
