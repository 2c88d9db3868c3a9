"""The trace in a store: appended on a leader's fence, thinned out by age and number, read by anybody.

It is a durable log, kept in the store (`store.log`); a segment is one record of it. A segment is never
changed. Many small ones become one, in one transaction; what is too old or too much goes with the transaction
that appends, in which whoever writes says again what is still true.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from proreus.engine.objects.errors import Fenced
from proreus.engine.store.log.store_log import ConditionFailed, LogInStore, StoredPart
from proreus.engine.store.protocol import Store, Unchanged
from proreus.engine.trace.segments import ROOT, Segment, decode, encode, merged
from proreus.log.frames import FRAME_BYTES

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
        self._log, self._retention = LogInStore(store, ROOT), retention
        self._segments: dict[int, _Kept] = {}
        self.damaged = 0
        """Segments that could not be read, and were passed over."""

    async def read(self) -> AsyncIterator[Segment]:
        """All segments, oldest first; a damaged one costs what it had."""
        self.damaged, self._segments = 0, {}
        async for kept in self._log.read():
            segment = _segment(kept)
            if segment is None:
                self.damaged += 1
                _log.warning("part %d of the trace is damaged", kept.number)
                continue
            self._segments[kept.number] = _Kept(len(segment.pods), kept.size, segment.at)
            yield segment

    def expired(self, now: float) -> list[int]:
        """Which segments are too old, or more than are to be kept, oldest first."""
        numbers: list[int] = []
        pods = sum(segment.pods for segment in self._segments.values())
        for number in sorted(self._segments)[:-1]:
            candidate = self._segments[number]
            too_old = now - candidate.at > self._retention.seconds
            if len(numbers) == _MOST_DROPPED or not (too_old or pods > self._retention.pods):
                break
            numbers.append(number)
            pods -= candidate.pods
        return numbers

    async def segment(self, number: int) -> Segment | None:
        """One of those that were read or appended; None where it is damaged or gone."""
        kept = await self._log.part(number)
        return None if kept is None else _segment(kept)

    async def append(self, segment: Segment, fence: Unchanged, dropped: Sequence[int] = ()) -> None:
        """Behind all others, in the place of those that are dropped; `Fenced` where another leads.

        A StoreError may mean that it was done all the same: append the same segment again.
        """
        value = encode(segment)
        sizes = {number: self._segments[number].size for number in dropped if number in self._segments}
        try:
            (number,) = await self._log.append([(value, 1)], [fence], sizes)
        except ConditionFailed as error:
            raise Fenced(f"{error}: the trace is theirs to write") from error
        for gone in dropped:
            self._segments.pop(gone, None)
        self._segments[number] = _Kept(len(segment.pods), FRAME_BYTES + len(value), segment.at)

    async def join_small(self, fence: Unchanged) -> None:
        """Make one of many small segments in a row, under the number of the last of them."""
        small = self._small_in_a_row()
        if not small:
            return
        read = [await self._log.part(number) for number in small]
        standing = [kept for kept in read if kept is not None]
        if not standing:
            self._segments = {
                number: segment for number, segment in self._segments.items() if number not in small
            }
            return
        segments = map(_segment, standing)
        joined = merged(segment for segment in segments if segment is not None)
        try:
            stored_part = await self._log.replace(standing, encode(joined), [fence])
        except ConditionFailed as error:
            raise Fenced(f"{error}: the trace is theirs to write") from error
        for number in small:
            del self._segments[number]
        self._segments[stored_part.number] = _Kept(len(joined.pods), stored_part.size, joined.at)

    def _small_in_a_row(self) -> list[int]:
        row: list[int] = []
        for number, segment in sorted(self._segments.items()):
            row = [*row, number] if segment.size < _SMALL_BYTES else []
            if len(row) == _MOST_SMALL:
                return row
        return []


def _segment(kept: StoredPart) -> Segment | None:
    """What a part says; None where it is damaged."""
    try:
        return None if kept.part is None else decode(kept.part.payload)
    except ValueError:
        return None
