"""A log in a store, for whoever has an event loop: the engine's trace, and the service's log through
`blocking`.

    ROOT next                     the number that comes next, the bytes of all parts, and whose log it is
    ROOT segments/000000000917    a part, as a frame, under the number of its last record

A part and the step of `next` are one transaction, on the condition that nobody else has stepped meanwhile.
So any number of processes write one log without a lock, numbers only grow, and a reader that has seen a part
has seen all before it. A part under the number of its last record is found from any record on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from proreus.engine.store.protocol import (
    ABSENT,
    Delete,
    KeyValue,
    Operation,
    Put,
    Store,
    StoreError,
    Unchanged,
)
from proreus.log.frames import FRAME_BYTES, frame, new_key, read_head
from proreus.log.protocol import Part
from proreus.model.errors import UsageError

_SEGMENTS, _NEXT = "segments/", "next"
_PAGE = 16
"""Parts that are read at once."""
MOST_OPERATIONS = 64
"""Of one transaction: etcd takes 128."""


class ConditionFailed(StoreError):
    """What the caller made a condition no longer holds; nothing was changed."""


class Head(msgspec.Struct, frozen=True):
    """What is known of a log without reading it."""

    next: int = 0
    """The number that the next record will get."""
    bytes: int = 0
    """Of all parts."""
    owner: str = ""
    """Whose log it is; "": nobody said."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part as it stands; None: it is damaged."""

    number: int
    """Of its last record: its key."""
    size: int
    lost: int
    """Records that a damaged one had, as far as that can be known."""
    part: Part | None


@dataclass(frozen=True)
class _Sent:
    """A transaction that may have been done."""

    parts: tuple[tuple[bytes, int], ...]
    numbers: list[int]
    first: Put


class LogInStore:
    """See the module. One event loop uses it."""

    def __init__(self, store: Store, root: str) -> None:
        self._store, self._root = store, root
        self._key = new_key()
        self._head: Head | None = None
        self._revision = ABSENT
        self._unsure: _Sent | None = None
        self._turn = asyncio.Lock()

    async def head(self) -> Head:
        """As it was last seen, or stands where it was not."""
        if self._head is None:
            await self._see(await self._store.get(self._root + _NEXT))
            assert self._head is not None
        return self._head

    async def claim(self, owner: str, at_least: int) -> None:
        """Make it that owner's, with no number below `at_least` to come; UsageError where it is another's."""
        async with self._turn:
            while True:
                head = await self.head()
                if head.owner not in ("", owner):
                    raise UsageError(
                        "this log is of a model in another folder; keep this one's under another name, or in"
                        " another store (another path in etcd://HOST:PORT/PATH)"
                    )
                after = Head(max(head.next, at_least), head.bytes, owner)
                if head == after or await self._commit((), after, ()):
                    return

    async def touch(self) -> None:
        """Write what stands there: whether anything can be written."""
        async with self._turn:
            while not await self._commit((), await self.head(), ()):
                pass

    async def append(
        self,
        parts: Sequence[tuple[bytes, int]],
        conditions: Sequence[Unchanged] = (),
        dropped: Mapping[int, int] | None = None,
    ) -> list[int]:
        """Parts (payload, number of records) behind all others; the numbers of their first records.

        dropped: those that go in the same transaction (number -> bytes).

        Where the store does not answer it may have been done all the same: the same parts, appended again,
        are not there twice. `ConditionFailed` where one of the conditions does not hold.
        """
        async with self._turn:
            sent, self._unsure = self._unsure, None
            if sent is not None:
                self._head = None
                standing = await self._store.get(sent.first.key)
                if standing is not None and standing.value == sent.first.value and sent.parts == tuple(parts):
                    return sent.numbers
            gone = dropped or {}
            while True:
                head = await self.head()
                numbers, puts = self._numbered(parts, head.next)
                size = sum(len(put.value) for put in puts)
                after = Head(
                    head.next + sum(records for _, records in parts),
                    max(0, head.bytes - sum(gone.values())) + size,
                    head.owner,
                )
                self._unsure = _Sent(tuple(parts), numbers, puts[0])
                done = await self._commit(
                    conditions, after, (*puts, *(Delete(self._part(number)) for number in gone))
                )
                if done:
                    return numbers

    async def replace(
        self, replaced: Sequence[StoredPart], payload: bytes, conditions: Sequence[Unchanged]
    ) -> StoredPart:
        """One part of one record in the place of some in a row, under the number of the last of them."""
        last = replaced[-1].number
        value = frame(self._key, last, 1, payload)
        gone = sum(stored_part.size for stored_part in replaced)
        async with self._turn:
            while True:
                head = await self.head()
                after = Head(head.next, max(0, head.bytes - gone) + len(value), head.owner)
                drops = (Delete(self._part(stored_part.number)) for stored_part in replaced[:-1])
                if await self._commit(conditions, after, (Put(self._part(last), value), *drops)):
                    return StoredPart(last, len(value), 0, Part(last, 1, payload))

    async def prune(self, before: int, most: int = 0) -> int:
        """Drop the parts without a record from that number on, oldest first; how many went.

        most: no further than until so many bytes are left; 0: all of them.
        """
        count = 0
        while True:
            async with self._turn:
                head = await self.head()
                old: dict[int, int] = {}
                left = head.bytes
                for entry in await self._page("", MOST_OPERATIONS):
                    number = _number(entry.key)
                    if number >= before or (most and left <= most):
                        break
                    old[number] = len(entry.value)
                    left -= len(entry.value)
                if not old:
                    return count
                after = Head(head.next, max(0, left), head.owner)
                if await self._commit((), after, tuple(Delete(self._part(number)) for number in old)):
                    count += len(old)

    async def read(self, since: int = 0) -> AsyncIterator[StoredPart]:
        """All parts with a record from that number on, oldest first."""
        after = self._part(since - 1) if since > 0 else ""
        while entries := await self._page(after, _PAGE):
            for entry in entries:
                yield read_part(entry)
            after = entries[-1].key
            if len(entries) < _PAGE:
                return

    async def part(self, number: int) -> StoredPart | None:
        """One of them; None where it is gone."""
        entry = await self._store.get(self._part(number))
        return None if entry is None else read_part(entry)

    async def _page(self, after: str, limit: int) -> tuple[KeyValue, ...]:
        return (await self._store.list(self._root + _SEGMENTS, after=after, limit=limit)).entries

    def _numbered(self, parts: Sequence[tuple[bytes, int]], number: int) -> tuple[list[int], list[Put]]:
        numbers, puts = [], []
        for payload, records in parts:
            numbers.append(number)
            value = frame(self._key, number, records, payload)
            number += records
            puts.append(Put(self._part(number - 1), value))
        return numbers, puts

    async def _commit(self, conditions: Sequence[Unchanged], after: Head, work: Sequence[Operation]) -> bool:
        """The work and the step, if nobody else stepped meanwhile; otherwise what they left is seen."""
        head = Unchanged(self._root + _NEXT, self._revision)
        step = Put(self._root + _NEXT, msgspec.json.encode(after))
        try:
            done = await self._store.commit([head, *conditions], [step, *work])
        except (StoreError, ValueError) as error:
            if isinstance(error, ValueError) or not error.uncertain:
                self._unsure = None
            self._head = None
            raise
        self._unsure = None
        if done.done:
            self._head, self._revision = after, done.revision
            return True
        for condition, entry in zip(conditions, done.found[1:], strict=True):
            if (ABSENT if entry is None else entry.revision) != condition.revision:
                raise ConditionFailed(f"{condition.key} was changed by somebody else")
        await self._see(done.found[0])
        return False

    async def _see(self, entry: KeyValue | None) -> None:
        """What stands under `next`; where nothing does, or nonsense, the parts tell."""
        self._revision = ABSENT if entry is None else entry.revision
        try:
            self._head = None if entry is None else msgspec.json.decode(entry.value, type=Head)
        except msgspec.DecodeError:
            self._head = None
        if self._head is None:
            number = size = 0
            async for kept in self.read():
                number, size = kept.number + 1, size + kept.size
            self._head = Head(number, size)

    def _part(self, number: int) -> str:
        return part_key(self._root, number)


def part_key(root: str, number: int) -> str:
    """Where the part stands whose last record has that number."""
    return f"{root}{_SEGMENTS}{number:012d}"


def segments_of(root: str) -> str:
    """What the keys of all parts begin with."""
    return root + _SEGMENTS


def read_part(entry: KeyValue) -> StoredPart:
    """What stands there. What is no frame may be of an older version: whoever knows its payloads tells."""
    number, value = _number(entry.key), entry.value
    head = read_head(value)
    if head is None:
        return StoredPart(number, len(value), 1, Part(number, 1, value, older=True))
    payload = value[FRAME_BYTES:]
    if head.number + head.records != number + 1 or not head.fits(payload):
        return StoredPart(number, len(value), head.records, None)
    return StoredPart(number, len(value), 0, Part(head.number, head.records, payload))


def payload_of(entry: KeyValue) -> bytes:
    """Of the part that stands there; nothing where it is damaged."""
    part = read_part(entry).part
    return b"" if part is None else part.payload


def _number(key: str) -> int:
    text = key.rpartition("/")[2]
    if not text.isdecimal():
        raise StoreError(f"{key}: no part of a log has such a key")
    return int(text)
