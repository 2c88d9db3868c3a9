"""What there is of one kind, followed: a list, then a watch; where the watch breaks, it goes on where it was.

Only where the server does not know that place any more (410, or a store that was restored) is there a list
again; then what the list says is told as what must have happened in between. So whoever subscribes is told
every change once and in order, over any gap. Objects are read-only.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType

from proreus.kubeclient.client import KubeClient, Object, Selected
from proreus.kubeclient.errors import ApiError, Expired, Forbidden, NotFound, Silent, is_too_large_version
from proreus.kubeclient.resources import Resource
from proreus.model.errors import ProreusError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before trying again where the server is away: doubling, give or take a half."""
_WATCH_SECONDS = 300
_YIELD_EVERY = 256
"""Objects of a list that are told before others have their turn."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one object."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    object: Object
    previous: Object | None = None
    """As it was last told."""


Hear = Callable[[Change], None]
Key = tuple[str, str]


class Reflector:
    """Follows one kind; whoever is told must return soon and change nothing."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        selected: Selected | None = None,
        *,
        trim: Callable[[Object], Object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """trim: what of an object is kept, where it need not be all."""
        self.resource, self.selected = resource, selected or Selected()
        self._client, self._trim, self._clock = client, trim, clock
        self.synced = asyncio.Event()
        """Set once a list has been told."""
        self.lists = 0
        """How many lists were told."""
        self.watches = 0
        """How many watches were begun."""
        self.trouble = ""
        """Why it cannot follow just now; "": it does."""
        self.refused = False
        """Whether the server said that this kind may not be read, or is not there: waiting mends neither."""
        self.heard = 0.0
        """When the server last gave a sign of life here, by the clock."""
        self._hearers: list[Hear] = []
        self._objects: dict[Key, Object] = {}
        self._asked = False
        self._at = ""
        """The version up to which everything was told."""
        self._watch: asyncio.Task[str] | None = None

    @property
    def objects(self) -> Mapping[Key, Object]:
        """What there is, by namespace and name."""
        return MappingProxyType(self._objects)

    def get(self, name: str, namespace: str = "") -> Object | None:
        """The object as it was last heard of."""
        return self._objects.get((namespace, name))

    def subscribe(self, hear: Hear) -> None:
        """Every change goes there; call it before `run`, and what stands comes first, as ADDED."""
        self._hearers.append(hear)

    async def run(self) -> None:
        """Follow, until cancelled."""
        version, pause = "", _FIRST_PAUSE
        while True:
            began = self._clock()
            try:
                if self._asked or not version:
                    version = await self._list()
                version = await self._follow(version)
                self.trouble = ""
            except Expired:
                version = ""
                _log.info("%s: the watch is too far behind, listing anew", self.resource.plural)
            except ProreusError as error:
                if isinstance(error, ApiError) and is_too_large_version(error):
                    version = ""
                elif version:
                    version = self._at  # where the broken watch had come to
                self._note(error)
                if self._clock() - began > 2 * _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE  # it went well for a while
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if (
                    self._clock() - began < 1.0 and not self._asked
                ):  # a server that ends watches at once is not asked at once
                    await asyncio.sleep(pause)
                pause = _FIRST_PAUSE

    async def resync(self) -> None:
        """Tell everything that was acknowledged before now, however far behind the watch is."""
        self.synced.clear()
        self._asked = True
        if self._watch is not None:
            self._watch.cancel()
        await self.synced.wait()

    def _note(self, error: ProreusError) -> None:
        if isinstance(error, Silent):
            # No trouble yet: the next watch, which begins where this one ended, finds out whether it is one.
            _log.debug("following %s: %s; trying again", self.resource.plural, error)
            return
        trouble = f"{self.resource.plural}: {error}"
        self.refused = isinstance(error, Forbidden | NotFound)
        if trouble != self.trouble:
            level = logging.ERROR if self.refused else logging.WARNING
            _log.log(level, "following %s; trying again", trouble)
        self.trouble = trouble

    async def _list(self) -> str:
        """Tell what is different from what was told before; the version that this is true of."""
        self._asked = False
        listed = await self._client.list(self.resource, self.selected)
        self.lists += 1
        self.heard = self._clock()
        there = {_key(item): item for item in listed.items}
        for key, known in list(self._objects.items()):
            now = there.get(key)
            if now is None or _uid(now) != _uid(known):
                self._tell("DELETED", known)
        for told, (key, item) in enumerate(there.items(), 1):
            known_before = self._objects.get(key)
            if known_before is None or _version(known_before) != _version(item):
                self._tell("ADDED" if known_before is None else "MODIFIED", item)
            if told % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        self._at = listed.version
        if not self._asked:  # else somebody asked for one that begins later
            self.synced.set()
        self.trouble, self.refused = "", False
        return listed.version

    async def _follow(self, version: str) -> str:
        """The watch, until it ends or a resync is asked for; where to go on."""
        if self._asked:
            return version
        self._at = version
        self._watch = asyncio.create_task(self._watched(version))
        try:
            return await self._watch
        except asyncio.CancelledError:
            # A resync cancels the watch alone; whoever cancels this task means it.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self._watch.cancel()
                raise
            return self._at
        finally:
            self._watch = None

    async def _watched(self, version: str) -> str:
        self.watches += 1
        seconds = int(_WATCH_SECONDS * random.uniform(1.0, 2.0))
        watch = self._client.watch(self.resource, version, self.selected, seconds=seconds)
        async with aclosing(watch) as events:
            async for event in events:
                self.heard = self._clock()
                self.trouble = ""
                item = event["object"]
                if event["type"] != "BOOKMARK":
                    self._tell(event["type"], item)
                self._at = _version(item) or self._at
        return self._at

    def _tell(self, type_: str, item: Object) -> None:
        key = _key(item)
        if self._trim is not None:
            item = self._trim(item)
        previous = self._objects.get(key)
        if type_ == "DELETED":
            self._objects.pop(key, None)
        else:
            if previous is not None and _uid(previous) != _uid(item):
                # Both happened between two versions that we saw; nobody is to take one for the other.
                self._hand_out(Change("DELETED", previous, previous))
                previous = None
            type_ = "ADDED" if previous is None else "MODIFIED"
            self._objects[key] = item
        self._hand_out(Change(type_, item, previous))

    def _hand_out(self, change: Change) -> None:
        for hear in self._hearers:
            hear(change)


def without_history(obj: Object) -> Object:
    """Without who wrote which field when, which is half of an object."""
    metadata = dict(obj["metadata"])
    metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: text for key, text in annotations.items() if key != _LAST_APPLIED}
    return {**obj, "metadata": metadata}


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid") or "")


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion") or "")
