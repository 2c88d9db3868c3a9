"""What there is of one kind, followed: a list, then a watch; where the watch breaks, a list again.

Whoever listens is told every change once and in order, also over a gap: then what the new list says is told
as what must have happened in between. The cache is read-only, as its objects are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from proreus.engine.objects.errors import Gone, StatusError
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.registry import Registry

Object = dict[str, Any]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
"""Seconds before trying again where the store is away: doubling."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A change: the object as it is, or (gone) as it was."""

    kind: Kind
    object: Object
    gone: bool = False


@dataclass(eq=False)
class Informer:
    """Follows one kind (in one namespace, or in all)."""

    registry: Registry
    kind: Kind
    listener: Callable[[ObjectChange], None]
    namespace: str = ""
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the first list has been told."""
    relisted: int = 0
    """How often the watch was begun again from a new list."""
    _objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    _asked: bool = False
    _watch: asyncio.Task[None] | None = None

    @property
    def objects(self) -> Mapping[tuple[str, str], Object]:
        """What there is, by namespace and name."""
        return MappingProxyType(self._objects)

    async def run(self) -> None:
        """Follow, until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._asked = False
                after = await self.relist()
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
                    self._take(event.object, gone=event.type == "DELETED")

    async def relist(self) -> int:
        """Tell what is different from what was told before; the revision that this is true of."""
        listed = await self.registry.list(self.kind, self.namespace)
        there = {_key(obj): obj for obj in listed.items}
        for key, known in list(self._objects.items()):
            now = there.get(key)
            if now is None or now["metadata"].get("uid") != known["metadata"].get("uid"):
                del self._objects[key]
                self.listener(ObjectChange(self.kind, known, gone=True))
        for key, obj in there.items():
            if key not in self._objects or _version(self._objects[key]) != _version(obj):
                self._objects[key] = obj
                self.listener(ObjectChange(self.kind, obj))
        return int(listed.revision)

    def _take(self, obj: Object, *, gone: bool) -> None:
        if gone:
            self._objects.pop(_key(obj), None)
        else:
            self._objects[_key(obj)] = obj
        self.listener(ObjectChange(self.kind, obj, gone))


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
