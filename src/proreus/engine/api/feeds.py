"""Changes of objects, read from the store once a kind and told to all who watch it.

A feed remembers the last changes of its kind, so that a watch that begins a little earlier goes on from
there; one that begins long before reads the store for itself. A watcher has a bounded queue: one that does
not keep up is cut and lists again, whatever the others do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from proreus.engine.objects.errors import Gone, Refused
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.objects.shelf import with_version

Matches = Callable[[dict[str, Any]], bool]
_RETRY_SECONDS = 0.5
_log = logging.getLogger(__name__)


class Told:
    """One change as watchers are told of it; what it is written as is made once for all of them."""

    __slots__ = ("line", "object", "type")

    def __init__(self, type_: str, obj: dict[str, Any]) -> None:
        self.type, self.object = type_, obj
        self.line: bytes | None = None

    @property
    def revision(self) -> str:
        """Of the transaction that made the change; others may have been made in the same."""
        return str(self.object["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which changes a watcher wants."""

    kind: Kind
    namespace: str = ""
    matches: Matches | None = None
    """By selectors; None: all of them."""

    def told(self, event: ObjectEvent, plain: Told) -> Told | None:
        """How the watcher sees the change: what begins to match comes, what ceases to match goes."""
        if self.namespace and event.object["metadata"].get("namespace") != self.namespace:
            return None
        if self.matches is None:
            return plain
        now = event.type != "DELETED" and self.matches(event.object)
        before = event.previous is not None and self.matches(event.previous)
        if now:
            return plain if before or event.type == "ADDED" else Told("ADDED", event.object)
        if before and event.previous is not None:
            return Told("DELETED", with_version(event.previous, event.revision))
        return None


class Subscription:
    """What waits for one watcher."""

    def __init__(self, wanted: Wanted, after: int, most: int) -> None:
        self._wanted, self._after, self._most = wanted, after, most
        self.position = after
        """Whatever was wanted up to this revision is in the queue, or has been taken from it."""
        self._queue: deque[Told] = deque()
        self._awake = asyncio.Event()
        self._roomy = asyncio.Event()
        self.refusal: Refused | None = None
        """Why it ends, once it has to."""

    def offer(self, event: ObjectEvent, plain: Told) -> None:
        """One more change, kept if it is wanted; where there is no more room, the watch is over."""
        if event.revision <= self._after:
            return
        if event.type != "BOOKMARK":
            told = self._wanted.told(event, plain)
            if told is not None:
                if len(self._queue) >= self._most:
                    self.cut(Gone("too many changes waited for this watch: list again"))
                    return
                self._queue.append(told)
                self._awake.set()
        self.position = max(self.position, event.revision)

    def cut(self, refusal: Refused) -> None:
        """No more of it, and what waits is dropped."""
        self.refusal = refusal
        self._queue.clear()
        self._awake.set()

    @property
    def full(self) -> bool:
        """Whether one more would be too many."""
        return len(self._queue) >= self._most

    async def room(self) -> None:
        """Until there is room again."""
        while self.full:
            self._roomy.clear()
            await self._roomy.wait()

    def take(self, most: int) -> list[Told]:
        """The next changes, so many at most, and the rest of the last revision.

        Who goes on behind the last revision that it was told must have been told all of it.
        """
        queue = self._queue
        taken = [queue.popleft() for _ in range(min(most, len(queue)))]
        while taken and queue and queue[0].revision == taken[-1].revision:
            taken.append(queue.popleft())
        if not queue and self.refusal is None:
            self._awake.clear()
        self._roomy.set()
        return taken

    async def wait(self, seconds: float) -> None:
        """Until there is something to take, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awake.wait()


class Feed:
    """The changes of one kind, from when somebody first wanted them."""

    def __init__(self, registry: Registry, kind: Kind, remembered: int) -> None:
        self._registry, self._kind = registry, kind
        self._recent: deque[tuple[ObjectEvent, Told]] = deque()
        self._remembered = remembered
        self._floor = 0
        """All changes after this revision are remembered, up to `_head`."""
        self._head = 0
        self._subscriptions: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Read on from now, where that is not done yet."""
        async with self._starting:
            if self._task is None:
                self._floor = self._head = (await self._registry.list(self._kind, limit=1)).revision
                self._task = asyncio.create_task(self._run(), name=f"feed of {self._kind.resource}")

    async def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def reaches(self, after: int) -> bool:
        """Whether all changes after that revision are remembered."""
        return after >= self._floor

    def join(self, subscription: Subscription) -> None:
        """Tell it what is remembered of what it has not seen, and everything from now on."""
        for event, plain in self._recent:
            subscription.offer(event, plain)
        subscription.position = max(subscription.position, self._head)
        self._subscriptions.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Tell it no more."""
        self._subscriptions.discard(subscription)

    async def _run(self) -> None:
        while True:
            try:
                async with aclosing(self._registry.watch(self._kind, after=self._head)) as events:
                    async for event in events:
                        self._tell(event)
            except Gone as gone:
                for subscription in self._subscriptions:
                    subscription.cut(gone)
                self._subscriptions.clear()
                await self._begin_again()
            except Refused as refused:  # the store is away: the watchers wait with us
                _log.warning("changes of %s cannot be read: %s", self._kind.resource, refused)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _begin_again(self) -> None:
        """From now, with nothing remembered."""
        try:
            self._floor = self._head = (await self._registry.list(self._kind, limit=1)).revision
            self._recent.clear()
        except Refused as refused:
            _log.warning("%s cannot be listed: %s", self._kind.resource, refused)
            await asyncio.sleep(_RETRY_SECONDS)

    def _tell(self, event: ObjectEvent) -> None:
        plain = Told(event.type, event.object)
        self._head = max(self._head, event.revision)
        if event.type != "BOOKMARK":
            self._recent.append((event, plain))
            if len(self._recent) > self._remembered:
                self._floor = self._recent.popleft()[0].revision
        for subscription in tuple(self._subscriptions):
            subscription.offer(event, plain)
            if subscription.refusal is not None:
                self._subscriptions.discard(subscription)


class Feeds:
    """One feed a kind, and the way of a watcher to the right one."""

    def __init__(self, registry: Registry, *, remembered: int, waiting: int) -> None:
        self._registry, self._waiting = registry, waiting
        self._remembered = remembered
        self._feeds: dict[Kind, Feed] = {}
        self._pumps: dict[Subscription, asyncio.Task[None]] = {}

    async def feed(self, kind: Kind) -> Feed:
        """The feed of a kind, which has begun."""
        feed = self._feeds.setdefault(kind, Feed(self._registry, kind, self._remembered))
        await feed.start()
        return feed

    async def subscribe(self, wanted: Wanted, after: int) -> Subscription:
        """Everything wanted that changes after that revision."""
        subscription = Subscription(wanted, after, self._waiting)
        feed = await self.feed(wanted.kind)
        if feed.reaches(after):
            feed.join(subscription)
        else:
            self._pumps[subscription] = asyncio.create_task(self._pump(wanted, after, subscription))
        return subscription

    async def unsubscribe(self, wanted: Wanted, subscription: Subscription) -> None:
        """No more."""
        self._feeds[wanted.kind].leave(subscription)
        pump = self._pumps.pop(subscription, None)
        if pump is not None:
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump

    async def stop(self) -> None:
        """Read no more of anything."""
        for pump in self._pumps.values():
            pump.cancel()
        for feed in self._feeds.values():
            await feed.stop()

    async def _pump(self, wanted: Wanted, after: int, subscription: Subscription) -> None:
        """What a watcher missed that came long ago, from the store, as fast as it takes it."""
        try:
            changes = self._registry.watch(wanted.kind, wanted.namespace, after)
            async with aclosing(changes) as events:
                async for event in events:
                    await subscription.room()
                    subscription.offer(event, Told(event.type, event.object))
        except Refused as refused:
            subscription.cut(refused)
