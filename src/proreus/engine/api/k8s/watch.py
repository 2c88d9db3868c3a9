"""Watches over HTTP: a line of JSON for each change, until the time is over or the watcher falls behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from proreus.engine.api.k8s.negotiation import Form
from proreus.engine.api.k8s.pagination import ListPages, Span
from proreus.engine.api.server.concurrency_limit import Seats
from proreus.engine.api.server.options import ApiLimits
from proreus.engine.api.server.reply import encode
from proreus.engine.api.server.status import failure
from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.offload import LoopPauses
from proreus.engine.objects.registry import Listed, Registry
from proreus.engine.watch.fan_out import FeedBounds, Feeds
from proreus.engine.watch.subscription import QueueBounds, Subscription, WatchEvent, WatchSelector
from proreus.engine.watch.wakeups import WakeupRounds

_AT_A_TIME = 256
_OBJECTS_AT_A_TIME = 16
_WATCHERS_AT_ONCE = 16
"""Watchers that are written to before whoever else asks has a turn."""
_PIECE_BYTES = 64 * 1024
"""Changes are written together up to this length; a longer one goes as it is, for all watchers the same."""
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True, slots=True)
class WatchAsked:
    """What a watcher asked for."""

    wanted: WatchSelector
    form: Form
    after: int | None
    """The revision behind which it begins; None: with what stands, each as ADDED."""
    seconds: float
    bookmarks: bool
    initial_end: bool
    """Whether the end of what stands is to be told by a bookmark."""
    client: str


class Watches:
    """All watches of a door."""

    def __init__(self, registry: Registry, limits: ApiLimits) -> None:
        self._limits, self.portions = limits, ListPages(registry, limits)
        """Of lists, too."""
        queue = QueueBounds(limits.watch_events, limits.watch_bytes)
        bounds = FeedBounds(limits.remembered_events, limits.remembered_bytes, queue, limits.event_bytes)
        self._feeds = Feeds(registry, bounds)
        self._seats = Seats(limits.watches, limits.watches_per_client, "too many watches are open")
        self._closing = asyncio.Event()
        self._rounds = WakeupRounds(_WATCHERS_AT_ONCE)

    @property
    def open(self) -> int:
        """Watches under way."""
        return self._seats.taken

    @property
    def closing(self) -> bool:
        """Whether all streams are to end."""
        return self._closing.is_set()

    def seconds(self, asked: int | None) -> float:
        """How long a watch lasts; without a wish it differs, so that not all begin anew at once."""
        if not asked:
            return self._limits.watch_seconds * random.uniform(1.0, 2.0)
        return float(min(asked, 2 * self._limits.watch_seconds))

    def close(self) -> None:
        """Let all end that are under way, and what else lasts as long as they do."""
        self._closing.set()
        self._feeds.wake()

    async def stop(self) -> None:
        """End them all."""
        self.close()
        await self._feeds.stop()

    async def lines(self, asked: WatchAsked) -> AsyncGenerator[bytes, None]:
        """What the watcher hears. Limits are looked at before the first line."""
        with self._seats.seated(asked.client):
            try:
                async for piece in self._pieces(asked):
                    yield piece
            except StatusError as refused:
                yield _line("ERROR", failure(refused))

    def check_room(self, client: str) -> None:
        """Refuse one watch too many."""
        self._seats.check(client)

    async def check_reached(self, kind: Kind, revision: int) -> None:
        """Refuse a watch that begins at a revision still to come."""
        if revision:
            await self._feeds.check_reached(kind, revision)

    async def _pieces(self, asked: WatchAsked) -> AsyncGenerator[bytes, None]:
        wanted = asked.wanted
        writer = _Writer(asked.form, wanted)
        after = asked.after
        # The feed begins before the list is read, so that it remembers all that comes after the list.
        await self._feeds.feed(wanted.kind)
        if after is None:
            after = 0
            span = Span(wanted.kind, wanted.namespace)
            async with aclosing(self.portions.all(asked.client, span)) as portions:
                async for listed in portions:
                    after = listed.revision
                    async with aclosing(_standing(listed, wanted, writer)) as pieces:
                        async for piece in pieces:
                            yield piece
            if asked.initial_end:
                yield writer.bookmark(after, _INITIAL_END)
        subscription = await self._feeds.subscribe(wanted, after)
        try:
            async for piece in self._live(asked, subscription, writer):
                yield piece
        finally:
            await self._feeds.unsubscribe(subscription)

    async def _live(
        self, asked: WatchAsked, subscription: Subscription, writer: _Writer
    ) -> AsyncGenerator[bytes, None]:
        clock = asyncio.get_running_loop().time
        until = clock() + asked.seconds
        every = self._limits.bookmark_seconds
        bookmark_at = clock() + every if asked.bookmarks else until
        while not self._closing.is_set():
            taken = subscription.take(_AT_A_TIME, _PIECE_BYTES)
            if taken:
                await self._rounds.turn()
                for piece in writer.write(taken):
                    yield piece
                continue
            if subscription.refusal is not None:
                raise subscription.refusal
            now = clock()
            if now >= bookmark_at or now >= until:
                if asked.bookmarks:
                    yield writer.bookmark(subscription.position, {})
                bookmark_at = now + every if asked.bookmarks else until
            if now >= until:
                return
            await subscription.wait(max(0.0, min(bookmark_at, until) - now))


async def _standing(listed: Listed, wanted: WatchSelector, writer: _Writer) -> AsyncGenerator[bytes, None]:
    """What stands, as ADDED; what is written is let go."""
    standing, pauses = listed.items, LoopPauses()
    standing.reverse()
    while standing:
        some = [standing.pop() for _ in range(min(_OBJECTS_AT_A_TIME, len(standing)))]
        chosen = [obj for obj in some if wanted.matches is None or wanted.matches(obj)]
        for piece in writer.write([WatchEvent("ADDED", obj) for obj in chosen]):
            yield piece
        if pauses.due:
            await pauses.take()


class _Writer:
    """Changes as lines, in the form that the watcher asked for."""

    def __init__(self, form: Form, wanted: WatchSelector) -> None:
        self._form, self._wanted = form, wanted
        self._first = True

    def write(self, changes: Sequence[WatchEvent]) -> Iterator[bytes]:
        """All of them, the short ones together."""
        waiting: list[bytes] = []
        size = 0
        for change in changes:
            if self._form.plain:
                line = change.line or _plain_line(change)
            else:
                line = self._formed(change.type, change.object)
            if waiting and size + len(line) > _PIECE_BYTES:
                yield b"".join(waiting)
                waiting, size = [], 0
            waiting.append(line)
            size += len(line)
        if waiting:
            yield waiting[0] if len(waiting) == 1 else b"".join(waiting)

    def bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        """How far the watch is."""
        kind = self._wanted.kind
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if kind.kind == "Pod":
            obj |= {"spec": {"containers": None}, "status": {}}
        return _line("BOOKMARK", obj) if self._form.plain else self._formed("BOOKMARK", obj)

    def _formed(self, type_: str, obj: dict[str, Any]) -> bytes:
        shown = self._form.event(self._wanted.kind, obj, type_, with_columns=self._first)
        self._first = False
        return _line(type_, shown)


def _plain_line(change: WatchEvent) -> bytes:
    change.line = _line(change.type, change.object)
    return change.line


def _line(type_: str, obj: dict[str, Any]) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), encode(obj))
