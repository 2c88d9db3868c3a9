"""What there is of one kind, followed: a list, then a watch; where the watch breaks, a list again.

Whoever subscribes is told every change once and in order, with what stood before, also over a gap: then what
the new list says is told as what must have happened in between. The cache is read-only, as its objects are.
Used by the scheduler, the kubelet, the controllers and the API's overview.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType

from proreus.engine.objects.errors import Gone, StatusError
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.metadata import Object, key_of, uid_of
from proreus.engine.objects.registry import ObjectEvent, Registry

Hear = Callable[[ObjectEvent], None]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
"""Seconds before trying again where the store is away: doubling."""
_log = logging.getLogger(__name__)


class Informer:
    """Follows one kind, in one namespace or in all; whoever is told must return soon and change nothing."""

    def __init__(self, registry: Registry, kind: Kind, namespace: str = "") -> None:
        self.registry, self.kind, self.namespace = registry, kind, namespace
        self.synced = asyncio.Event()
        """Set once the first list has been told."""
        self.relisted = 0
        """How often the watch was begun again from a new list."""
        self.revision = 0
        """Everything up to this revision of the store has been told."""
        self._hearers: list[Hear] = []
        self._objects: dict[tuple[str, str], Object] = {}
        self._asked = False
        self._watch: asyncio.Task[None] | None = None

    @property
    def objects(self) -> Mapping[tuple[str, str], Object]:
        """What there is, by namespace and name."""
        return MappingProxyType(self._objects)

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as it was last heard of."""
        return self._objects.get((namespace, name))

    def subscribe(self, hear: Hear) -> None:
        """Every change goes there; call it before `run`, and what stands comes first, as ADDED."""
        self._hearers.append(hear)

    async def run(self) -> None:
        """Follow, until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._asked = False
                after = await self._relist()
                if not self._asked:
                    self.synced.set()
                    pause = _FIRST_PAUSE
                    await self._follow(after)
            except Gone:
                self.relisted += 1
            except StatusError as error:
                _log.warning("following %s: %s; trying again", self.kind.plural, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def resync(self) -> None:
        """Tell everything that was acknowledged before now, however far behind the watch is."""
        self.synced.clear()
        self._asked = True
        if self._watch is not None:
            self._watch.cancel()
        await self.synced.wait()

    async def _follow(self, after: int) -> None:
        """The watch, until it breaks or a resync is asked for."""
        self._watch = asyncio.create_task(self._watched(after))
        try:
            await self._watch
        except asyncio.CancelledError:
            # A resync cancels the watch alone; whoever cancels this task means it.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        finally:
            self._watch = None

    async def _watched(self, after: int) -> None:
        async with aclosing(self.registry.watch(self.kind, self.namespace, after)) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    self._take(event)

    async def _relist(self) -> int:
        """Tell what is different from what was told before; the revision that this is true of."""
        listed = await self.registry.list(self.kind, self.namespace)
        there = {key_of(obj): obj for obj in listed.items}
        for key, known in list(self._objects.items()):
            now = there.get(key)
            if now is None or uid_of(now) != uid_of(known):
                self._take(ObjectEvent("DELETED", known, known, listed.revision))
        for key, obj in there.items():
            before = self._objects.get(key)
            if before is None or _version(before) != _version(obj):
                self._take(ObjectEvent("ADDED" if before is None else "MODIFIED", obj, before, _version(obj)))
        self.revision = max(self.revision, listed.revision)
        return listed.revision

    def _take(self, event: ObjectEvent) -> None:
        if event.type == "DELETED":
            self._objects.pop(key_of(event.object), None)
        else:
            self._objects[key_of(event.object)] = event.object
        self.revision = max(self.revision, event.revision)
        for hear in self._hearers:
            hear(event)


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
