"""What waits for one watcher, within bounds of number and of bytes; what is written of a change is made once.

A change that many watchers wait for, and that a feed remembers, is one object in memory; `EventBudget` counts
it once, however many hold it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from proreus.engine.objects.errors import Gone, StatusError
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.object_cache import with_version
from proreus.engine.objects.registry import ObjectEvent

Matches = Callable[[dict[str, Any]], bool]


class WatchEvent:
    """One change as watchers are told of it; what it is written as is made once for all of them."""

    __slots__ = ("holders", "length", "line", "object", "room", "type")

    def __init__(self, type_: str, obj: dict[str, Any], length: int = 0, room: int = 0) -> None:
        self.type, self.object = type_, obj
        self.line: bytes | None = None
        self.length = length
        """Bytes of the object as it is stored; the line is about as long."""
        self.room = room + length
        """Bytes that it takes in memory: the objects, and the line once it is written."""
        self.holders = 0
        """How many queues and memories it stands in."""

    @property
    def revision(self) -> str:
        """Of the transaction that made the change; others may have been made in the same."""
        return str(self.object["metadata"]["resourceVersion"])


class EventBudget:
    """The bytes that events take in all: those that feeds remember, and those that wait for watchers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = 0

    @property
    def exceeded(self) -> bool:
        """Whether somebody has to let go of some."""
        return self.size > self._most

    def hold(self, event: WatchEvent) -> None:
        """One more holds it."""
        if not event.holders:
            self.size += event.room
        event.holders += 1

    def release(self, event: WatchEvent) -> None:
        """One less holds it."""
        event.holders -= 1
        if not event.holders:
            self.size -= event.room


@dataclass(frozen=True, slots=True)
class WatchSelector:
    """Which changes a watcher wants."""

    kind: Kind
    namespace: str = ""
    matches: Matches | None = None
    """By selectors; None: all of them."""

    def told(self, event: ObjectEvent, plain: WatchEvent) -> WatchEvent | None:
        """How the watcher sees the change: what begins to match comes, what ceases to match goes."""
        if self.namespace and event.object["metadata"].get("namespace") != self.namespace:
            return None
        if self.matches is None:
            return plain
        now = event.type != "DELETED" and self.matches(event.object)
        before = event.previous is not None and self.matches(event.previous)
        if now:
            if before or event.type == "ADDED":
                return plain
            return WatchEvent("ADDED", event.object, plain.length, event.room)
        if before and event.previous is not None:
            gone = with_version(event.previous, event.revision)
            return WatchEvent("DELETED", gone, plain.length, event.room)
        return None


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """How much may wait for one watcher."""

    events: int
    bytes: int
    """Of their objects as they are stored; one change may always wait, however long it is."""


class Subscription:
    """What waits for one watcher."""

    def __init__(self, wanted: WatchSelector, after: int, bounds: QueueBounds, room: EventBudget) -> None:
        self.wanted, self._after, self._bounds, self._room = wanted, after, bounds, room
        self.position = after
        """Whatever was wanted up to this revision is in the queue, or has been taken from it."""
        self.waiting = 0
        """Bytes of the objects in the queue."""
        self._queue: deque[WatchEvent] = deque()
        self._awake = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self.refusal: StatusError | None = None
        """Why it ends, once it has to."""

    def offer(self, event: ObjectEvent, plain: WatchEvent) -> None:
        """One more change, kept if it is wanted; where there is no more room, the watch is over."""
        if event.revision <= self._after or self.refusal is not None:
            return
        if event.type != "BOOKMARK":
            watch_event = self.wanted.told(event, plain)
            if watch_event is not None:
                if self._too_much(watch_event):
                    self.cut(Gone("too many changes waited for this watch: list again"))
                    return
                self._room.hold(watch_event)
                self._queue.append(watch_event)
                self.waiting += watch_event.length
                self._drained.clear()
                self._awake.set()
        self.position = max(self.position, event.revision)

    def _too_much(self, watch_event: WatchEvent) -> bool:
        return bool(self._queue) and (
            len(self._queue) >= self._bounds.events or self.waiting + watch_event.length > self._bounds.bytes
        )

    def cut(self, refusal: StatusError) -> None:
        """No more of it, and what waits is dropped."""
        self.refusal = refusal
        self.drop()
        self._awake.set()
        self._drained.set()

    def drop(self) -> None:
        """Nobody will take what waits."""
        for watch_event in self._queue:
            self._room.release(watch_event)
        self._queue.clear()
        self.waiting = 0

    def go_on_here(self) -> None:
        """What is offered from now on may have been offered before: only what is behind it counts."""
        self._after = self.position

    async def drained(self) -> None:
        """Until nothing waits."""
        await self._drained.wait()

    def take(self, most: int, most_bytes: int) -> list[WatchEvent]:
        """The next changes, so many at most, and the rest of the last revision.

        Who goes on behind the last revision that it was told must have been told all of it.
        """
        queue = self._queue
        taken: list[WatchEvent] = []
        size = 0
        while queue and (
            not taken
            or (len(taken) < most and size + queue[0].length <= most_bytes)
            or queue[0].revision == taken[-1].revision
        ):
            watch_event = queue.popleft()
            self._room.release(watch_event)
            size += watch_event.length
            taken.append(watch_event)
        self.waiting -= size
        if not queue and self.refusal is None:
            self._awake.clear()
            self._drained.set()
        return taken

    def wake(self) -> None:
        """End its wait, though there may be nothing to take."""
        self._awake.set()

    async def wait(self, seconds: float) -> None:
        """Until there is something to take, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awake.wait()
