"""The newest changes, read once in a process and handed to all its watches.

A watch that begins within what is held here costs no query; one that begins earlier, or was too slow and lost
its place, reads the older history from the store (`Older`) until it has reached what is held, and joins.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from proreus.engine.store.protocol import Change, ChangeBatch, Compacted, KeyValue

PROGRESS_SECONDS = 5.0
_WAKE_SECONDS = 0.002
_WAKE_SECONDS_EACH = 0.0001
"""Under load watches are woken so often at most, so that waking many takes a small part of the loop's time; a
change after a quiet time is handed out at once."""

_PARTS = 16
"""What is held may exceed its bounds by one of so many parts."""

Older = Callable[[str, int], AsyncGenerator[ChangeBatch, None]]
"""The changes under a prefix after a revision, from the store's own history; raises `Compacted`."""


class _Follower:
    """One watch: what it has still to hand out."""

    def __init__(self, prefix: str, after: int) -> None:
        self.prefix = prefix
        self.after = after
        self.pending: list[Change] = []
        self.lost = False
        self.compacted = 0
        self.woken = asyncio.Event()

    def offer(self, changes: Sequence[Change]) -> None:
        """Take changes."""
        if not self.lost:
            self.pending.extend(change for change in changes if change.revision > self.after)

    def keep_up(self, floor: int) -> None:
        """A watch that takes none off for long is sent back to the history: it keeps nothing that the feed
        has forgotten."""
        if self.pending and self.pending[0].revision <= floor:
            self.lose()

    def lose(self) -> None:
        """What follows is not complete: go back to the history."""
        self.lost = True
        self.pending.clear()
        self.woken.set()


class WatchFeed:
    """What was published last, up to `revision`; everything after `floor` is held."""

    def __init__(self, revision: int, most: int, most_bytes: int) -> None:
        """These are held, and some more: they are forgotten some at a time."""
        self.floor = revision
        self.revision = revision
        self.heard = True
        """Whether the source can be heard now; without it no progress is told."""
        self._most, self._most_bytes = most, most_bytes
        self._recent: list[Change] = []
        self._bytes = 0
        """Of what is held; values that two changes share are counted twice."""
        self._newest: dict[str, KeyValue] = {}
        """By key, of what is held: the value before a change is the very one that the last change brought."""
        self._followers: dict[str, list[_Follower]] = {}
        self._offered: set[_Follower] = set()
        self._waking: asyncio.TimerHandle | None = None
        self._woke = 0.0
        self._closed = False

    def publish(self, changes: Sequence[Change], revision: int) -> None:
        """All changes after the last revision up to this one."""
        self.revision = revision
        changes = [self._sharing(change) for change in changes]
        self._recent.extend(changes)
        self._bytes += sum(change.size for change in changes)
        if changes:
            for prefix, followers in self._followers.items():
                matching = [change for change in changes if change.key.startswith(prefix)]
                if matching:
                    for follower in followers:
                        follower.offer(matching)
                    self._offered.update(followers)
            self._wake_soon()
        self._forget_surplus()

    def skip(self, revision: int) -> None:
        """More has changed than can be held: every watch reads it from the history."""
        self._forget(len(self._recent))
        self.floor = self.revision = revision
        for follower in self._all():
            follower.lose()

    def lose(self, revision: int, compacted: int) -> None:
        """The changes up to `revision` cannot be had any more: every watch that lacks them is told so."""
        for follower in self._all():
            if follower.after < revision:
                follower.compacted = compacted
        self.skip(revision)

    def compact(self, revision: int) -> None:
        """Forget what was changed up to that revision."""
        if revision > self.floor:
            self._forget(bisect.bisect_right(self._recent, revision, key=_revision))
            self.floor = revision

    def close(self) -> None:
        """Every watch ends."""
        self._closed = True
        for follower in self._all():
            follower.woken.set()

    async def follow(self, prefix: str, after: int, older: Older) -> AsyncIterator[ChangeBatch]:
        """Every change under the prefix after that revision, for ever."""
        seen = after
        while not self._closed:
            if seen < self.floor:
                async with aclosing(older(prefix, seen)) as batches:
                    async for batch in batches:
                        seen = batch.revision
                        yield batch
                        if seen >= self.floor:
                            break
                continue
            follower = self._join(prefix, seen)
            try:
                while (held := await self._next(follower)) is not None:
                    seen = held.revision
                    yield held
            finally:
                self._leave(follower)
            if follower.compacted:
                raise Compacted(follower.compacted)

    async def _next(self, follower: _Follower) -> ChangeBatch | None:
        """What the watch hands out next; None where it has lost its place, or the feed has ended."""
        while not self._closed and not follower.lost:
            if follower.pending:
                changes, follower.pending = tuple(follower.pending), []
                return ChangeBatch(changes, max(self.revision, follower.after))
            follower.woken.clear()
            try:
                async with asyncio.timeout(PROGRESS_SECONDS):
                    await follower.woken.wait()
            except TimeoutError:
                if self.heard:
                    return ChangeBatch((), max(self.revision, follower.after))
        return None

    def _wake_soon(self) -> None:
        """Now, or a moment after the last time: what comes change by change is handed out together."""
        loop = asyncio.get_running_loop()
        pause = max(_WAKE_SECONDS, _WAKE_SECONDS_EACH * len(self._offered))
        delay = self._woke + pause - loop.time()
        if delay <= 0:
            self._wake()
        elif self._waking is None:
            self._waking = loop.call_later(delay, self._wake)

    def _wake(self) -> None:
        self._waking, self._woke = None, asyncio.get_running_loop().time()
        for follower in self._offered:
            follower.woken.set()
        self._offered.clear()

    def _join(self, prefix: str, after: int) -> _Follower:
        follower = _Follower(prefix, after)
        begin = bisect.bisect_right(self._recent, after, key=_revision)
        follower.pending = [change for change in self._recent[begin:] if change.key.startswith(prefix)]
        self._followers.setdefault(prefix, []).append(follower)
        return follower

    def _leave(self, follower: _Follower) -> None:
        others = self._followers[follower.prefix]
        others.remove(follower)
        if not others:
            del self._followers[follower.prefix]

    def _sharing(self, change: Change) -> Change:
        """With the value before it that is held already, where that is the same: stores read it anew."""
        before, held = change.previous, self._newest.get(change.key)
        if change.entry is None:
            self._newest.pop(change.key, None)
        else:
            self._newest[change.key] = change.entry
        if before is None or held is None or held.revision != before.revision:
            return change
        return replace(change, previous=held)

    def _forget_surplus(self) -> None:
        """Down to the bounds, where they are exceeded by some: all at once would hold up the loop, one by one
        would move the rest each time."""
        count, size = len(self._recent), self._bytes
        if (
            count <= self._most + self._most // _PARTS
            and size <= self._most_bytes + self._most_bytes // _PARTS
        ):
            return
        surplus = 0
        for change in self._recent:
            if count - surplus <= self._most and size <= self._most_bytes:
                break
            surplus += 1
            size -= change.size
        self._forget(surplus)
        for follower in self._all():
            follower.keep_up(self.floor)

    def _forget(self, count: int) -> None:
        """Drop the oldest changes, whole revisions only."""
        if count:
            last = self._recent[count - 1].revision
            end = bisect.bisect_right(self._recent, last, key=_revision)
            for change in self._recent[:end]:
                self._bytes -= change.size
                if change.entry is not None and self._newest.get(change.key) is change.entry:
                    del self._newest[change.key]
            del self._recent[:end]
            self.floor = max(self.floor, last)

    def _all(self) -> list[_Follower]:
        return [follower for followers in self._followers.values() for follower in followers]


def _revision(change: Change) -> int:
    return change.revision
