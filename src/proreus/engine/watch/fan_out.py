"""Changes of objects, read from the store once a kind and told to all who watch it.

A feed remembers the last changes of its kind, so that a watch that begins a little earlier goes on from
there; one that begins long before reads the store for itself, a little at a time, until it has reached what
is remembered. A watcher has a bounded queue: one that does not keep up is cut and lists again, whatever the
others do. What feeds remember and what waits for watchers is bounded by bytes, each and in all.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from proreus.engine.objects.errors import Gone, StatusError, TooLargeVersion, Unserviceable
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.watch.subscription import (
    EventBudget,
    QueueBounds,
    Subscription,
    WatchEvent,
    WatchSelector,
)

_RETRY_SECONDS = 0.5
_READ_BYTES = 1 << 20
"""So much of the past is read for a watcher before it has taken what was read."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """How much is remembered, and how much may wait."""

    events: int
    """Of one kind that are remembered."""
    bytes: int
    """That the remembered events of one kind take in memory."""
    queue: QueueBounds
    """Of one watcher."""
    total: int
    """Bytes of all events of all kinds, remembered or waiting."""


class KindFeed:
    """The changes of one kind, from when somebody first wanted them."""

    def __init__(
        self,
        registry: Registry,
        kind: Kind,
        bounds: FeedBounds,
        room: EventBudget,
        make_room: Callable[[], None],
    ) -> None:
        self._registry, self._kind, self._bounds = registry, kind, bounds
        self._room, self._make_room = room, make_room
        self._recent: deque[tuple[ObjectEvent, WatchEvent]] = deque()
        self.size = 0
        """Bytes of what is remembered."""
        self._floor = 0
        """All changes after this revision are remembered, up to `head`."""
        self.head = 0
        self._begun = False
        """Whether it knows where it is. Until then nobody joins: what changed since the last revision that it
        told is nobody's, and who joined would never hear of it."""
        self._trouble = ""
        """Why it could not begin when it last tried."""
        self._tried = asyncio.Event()
        """Set, and replaced by another, whenever it has tried to begin."""
        self._subscriptions: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None

    async def begun(self) -> None:
        """Until it reads on from a revision that it knows; raises `Unserviceable` where it cannot."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"feed of {self._kind.resource}")
        while not self._begun:
            await self._tried.wait()
            if self._trouble:
                raise Unserviceable(self._trouble)

    async def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def reaches(self, after: int) -> bool:
        """Whether all changes after that revision are remembered."""
        return self._begun and after >= self._floor

    def join(self, subscription: Subscription) -> None:
        """Tell it what is remembered of what it has not seen, and everything from now on."""
        for event, plain in self._recent:
            subscription.offer(event, plain)
        subscription.position = max(subscription.position, self.head)
        self._subscriptions.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Tell it no more."""
        self._subscriptions.discard(subscription)

    def forget_oldest(self) -> None:
        """Remember one change less."""
        event, plain = self._recent.popleft()
        self.size -= plain.room
        self._room.release(plain)
        self._floor = max(self._floor, event.revision)

    async def _run(self) -> None:
        while True:
            try:
                if not self._begun:
                    await self._begin()
                async with aclosing(
                    self._registry.watch(self._kind, after=self.head, weighed=True)
                ) as events:
                    async for event in events:
                        self._tell(event)
            except Gone as gone:
                self._begin_again(gone)
                continue
            except StatusError as refused:  # the store is away: the watchers wait with us
                _log.warning("changes of %s cannot be read: %s", self._kind.resource, refused)
                self._tell_of_trial(refused.message)
            except Exception:  # noqa: BLE001 - nobody may wait for changes that are never told
                _log.exception("changes of %s cannot be read", self._kind.resource)
                self._begin_again(Gone("changes were missed: list again"))
                self._tell_of_trial("changes cannot be read; the engine's log says why")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _begin(self) -> None:
        self._floor = self.head = await self._registry.revision()
        self._begun = True
        self._tell_of_trial("")

    def _begin_again(self, gone: Gone) -> None:
        """From a revision still to be found out, with nothing remembered: who watches lists again."""
        self._begun = False
        while self._recent:
            self.forget_oldest()
        for subscription in self._subscriptions:
            subscription.cut(gone)
        self._subscriptions.clear()

    def _tell_of_trial(self, trouble: str) -> None:
        self._trouble = trouble
        self._tried.set()
        self._tried = asyncio.Event()

    def _tell(self, event: ObjectEvent) -> None:
        plain = WatchEvent(event.type, event.object, event.length, event.room)
        self.head = max(self.head, event.revision)
        if event.type != "BOOKMARK":
            self._remember(event, plain)
        for subscription in tuple(self._subscriptions):
            subscription.offer(event, plain)
            if subscription.refusal is not None:
                self._subscriptions.discard(subscription)
        self._make_room()

    def _remember(self, event: ObjectEvent, plain: WatchEvent) -> None:
        self._recent.append((event, plain))
        self.size += plain.room
        self._room.hold(plain)
        while len(self._recent) > self._bounds.events or self.size > self._bounds.bytes:
            self.forget_oldest()


class Feeds:
    """One feed a kind, and the way of a watcher to the right one."""

    def __init__(self, registry: Registry, bounds: FeedBounds) -> None:
        self._registry, self._bounds = registry, bounds
        self.room = EventBudget(bounds.total)
        self._feeds: dict[Kind, KindFeed] = {}
        self._subscriptions: dict[Subscription, asyncio.Task[None] | None] = {}
        """With the task that reads the past for it, where it needs one."""

    async def feed(self, kind: Kind) -> KindFeed:
        """The feed of a kind, which has begun."""
        feed = self._feeds.get(kind)
        if feed is None:
            feed = KindFeed(self._registry, kind, self._bounds, self.room, self._make_room)
            self._feeds[kind] = feed
        await feed.begun()
        return feed

    async def check_reached(self, kind: Kind, revision: int) -> None:
        """Refuse a revision that is still to come: nobody was ever told of it."""
        feed = await self.feed(kind)
        if revision > feed.head:
            current = await self._registry.revision()
            if revision > current:
                raise TooLargeVersion(revision, current)

    async def subscribe(self, wanted: WatchSelector, after: int) -> Subscription:
        """Everything wanted that changes after that revision."""
        feed = await self.feed(wanted.kind)
        subscription = Subscription(wanted, after, self._bounds.queue, self.room)
        if feed.reaches(after):
            feed.join(subscription)
            self._subscriptions[subscription] = None
        else:
            reading = asyncio.create_task(self._catch_up(feed, subscription))
            self._subscriptions[subscription] = reading
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """No more."""
        self._feeds[subscription.wanted.kind].leave(subscription)
        subscription.drop()
        reading = self._subscriptions.pop(subscription, None)
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading

    def wake(self) -> None:
        """Let every watcher look up from its wait."""
        for subscription in self._subscriptions:
            subscription.wake()

    async def stop(self) -> None:
        """Read no more of anything."""
        for reading in self._subscriptions.values():
            if reading is not None:
                reading.cancel()
        for feed in self._feeds.values():
            await feed.stop()

    async def _catch_up(self, feed: KindFeed, subscription: Subscription) -> None:
        """What a watcher missed that came long ago, from the store, as fast as it takes it; then it joins."""
        try:
            while subscription.refusal is None and not feed.reaches(subscription.position):
                await self._read_some(feed, subscription)
                await subscription.drained()
        except StatusError as refused:
            subscription.cut(refused)
        except Exception:  # noqa: BLE001 - the same
            _log.exception("the past of %s cannot be read", subscription.wanted.kind.resource)
            subscription.cut(Gone("changes were missed: list again"))
        else:
            if subscription.refusal is None:
                subscription.go_on_here()
                feed.join(subscription)

    async def _read_some(self, feed: KindFeed, subscription: Subscription) -> None:
        """Until it has something to take, or has reached what is remembered; whole revisions only.

        Nothing is held meanwhile but what waits for it, and is counted: who does not read costs that alone.
        """
        wanted = subscription.wanted
        changes = self._registry.watch(wanted.kind, wanted.namespace, subscription.position, weighed=True)
        subscription.go_on_here()
        async with aclosing(changes) as events:
            async for event in events:
                subscription.offer(event, WatchEvent(event.type, event.object, event.length, event.room))
                self._make_room()
                if subscription.refusal is not None:
                    return
                if event.last and (
                    subscription.waiting >= _READ_BYTES or feed.reaches(subscription.position)
                ):
                    return

    def _make_room(self) -> None:
        """Where all events together take too much, what is remembered goes first, then what waits longest."""
        while self.room.exceeded:
            feed = max(self._feeds.values(), key=lambda feed: feed.size)
            if feed.size:
                feed.forget_oldest()
                continue
            slowest = max(self._subscriptions, key=lambda subscription: subscription.waiting, default=None)
            if slowest is None or not slowest.waiting:
                return
            slowest.cut(Gone("too many changes waited for watches: list again"))
