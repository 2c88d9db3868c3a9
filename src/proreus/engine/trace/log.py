"""The trace in a store: appended on a leader's fence, thinned out by age and number, read by anybody.

A segment is never changed. Many small ones become one, in one transaction; what is too old or too much goes
with the transaction that appends, in which whoever writes says again what is still true.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from proreus.engine.objects.errors import Fenced
from proreus.engine.store.protocol import ABSENT, Delete, Put, Store, StoreError, Unchanged
from proreus.engine.trace.segments import PREFIX, Segment, decode, encode, merged

_PAGE = 16
"""Segments that are read at once."""
_SMALL_BYTES = 16 << 10
_MOST_SMALL = 64
"""So many segments of less than that become one."""
_MOST_DROPPED = 32
"""By one append: a transaction takes only so many operations."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retention:
    """How much of the trace is kept."""

    pods: int = 500_000
    """Entries of pods; a pod has one to three."""
    seconds: float = 14 * 86_400.0


KEPT = Retention()


@dataclass(frozen=True, slots=True)
class _Kept:
    pods: int
    size: int
    at: float


class TraceLog:
    """See the module. One leader appends; `read` first, then `append`."""

    def __init__(self, store: Store, retention: Retention = KEPT) -> None:
        self._store, self._retention = store, retention
        self._segments: dict[int, _Kept] = {}
        self._next = 1
        self.damaged = 0
        """Segments that could not be read, and were passed over."""

    async def read(self) -> AsyncIterator[Segment]:
        """All segments, oldest first; a damaged one costs what it had."""
        after, self.damaged = "", 0
        self._segments = {}
        while True:
            listing = await self._store.list(PREFIX, after=after, limit=_PAGE)
            for entry in listing.entries:
                number = _number(entry.key)
                self._next = max(self._next, number + 1)
                try:
                    segment = decode(entry.value)
                except ValueError as error:
                    self.damaged += 1
                    _log.warning("%s: %s", entry.key, error)
                    continue
                self._segments[number] = _Kept(len(segment.pods), len(entry.value), segment.at)
                yield segment
            if not listing.remaining:
                return
            after = listing.entries[-1].key

    def expired(self, now: float) -> list[int]:
        """Which segments are too old, or more than are to be kept, oldest first."""
        found: list[int] = []
        pods = sum(one.pods for one in self._segments.values())
        for number in sorted(self._segments)[:-1]:
            one = self._segments[number]
            too_old = now - one.at > self._retention.seconds
            if len(found) == _MOST_DROPPED or not (too_old or pods > self._retention.pods):
                break
            found.append(number)
            pods -= one.pods
        return found

    async def segment(self, number: int) -> Segment | None:
        """One of those that were read or appended; None where it is damaged or gone."""
        entry = await self._store.get(_key(number))
        if entry is None:
            return None
        try:
            return decode(entry.value)
        except ValueError:
            return None

    async def append(self, segment: Segment, fence: Unchanged, dropped: Sequence[int] = ()) -> None:
        """Behind all others, in the place of those that are dropped; `Fenced` where another leads.

        A StoreError may mean that it was done all the same: append the same segment again.
        """
        value, number = encode(segment), self._next
        standing = await self._store.get(_key(number))
        if standing is None or standing.value != value:
            drops = [Delete(_key(one)) for one in dropped]
            done = await self._store.commit(
                [fence, Unchanged(_key(number), ABSENT)], [Put(_key(number), value), *drops]
            )
            if not done.done:
                raise Fenced(f"{fence.key} was changed by somebody else: the trace is theirs to write")
        for one in dropped:
            self._segments.pop(one, None)
        self._segments[number] = _Kept(len(segment.pods), len(value), segment.at)
        self._next = number + 1

    async def join_small(self, fence: Unchanged) -> None:
        """Make one of many small segments in a row, under the number of the last of them."""
        small = self._small_in_a_row()
        if not small:
            return
        read = [(number, await self._store.get(_key(number))) for number in small]
        entries = [(number, entry) for number, entry in read if entry is not None]
        joined = merged(decode(entry.value) for _, entry in entries)
        value, last = encode(joined), small[-1]
        conditions = [fence, *(Unchanged(entry.key, entry.revision) for _, entry in entries)]
        done = await self._store.commit(
            conditions, [Put(_key(last), value), *(Delete(_key(number)) for number in small[:-1])]
        )
        if not done.done:
            raise Fenced(f"{fence.key} was changed by somebody else: the trace is theirs to write")
        for number in small:
            del self._segments[number]
        self._segments[last] = _Kept(len(joined.pods), len(value), joined.at)

    def _small_in_a_row(self) -> list[int]:
        row: list[int] = []
        for number, one in sorted(self._segments.items()):
            row = [*row, number] if one.size < _SMALL_BYTES else []
            if len(row) == _MOST_SMALL:
                return row
        return []


def _key(number: int) -> str:
    return f"{PREFIX}{number:012d}"


def _number(key: str) -> int:
    text = key.removeprefix(PREFIX)
    if not text.isdecimal():
        raise StoreError(f"{key}: no part of a trace has such a key")
    return int(text)
