"""Objects as entries of the store: encoded once, decoded once a revision, refusals in the API's words.

An object stands in the store without its resourceVersion: that is the revision of its entry, and is put into
the metadata when it is read. What has been decoded (or written) here is kept by key and revision and handed
out again, so nobody may change what they were handed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from proreus.engine.objects.errors import Gone, TooLargeVersion, Unserviceable
from proreus.engine.objects.kinds import EVENT
from proreus.engine.store.protocol import (
    ChangeBatch,
    Committed,
    Compacted,
    KeyValue,
    Listing,
    NotReached,
    Operation,
    Store,
    StoreError,
    Unchanged,
)

MOST_BYTES_KEPT = 48 * 2**20
"""Of encoded objects; decoded ones take several times their room."""

MOST_GONE_KEPT = 1_000
MOST_EVENTS_KEPT = 1_000
"""They are written once and hardly ever read: of those of an hour only the last are worth their room."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """An object as it stands in the store."""

    object: dict[str, Any]
    revision: int
    size: int = 0
    """Bytes, as it was stored."""


class _Kept(msgspec.Struct):
    """The newest known state of a key, and the one before (a watch tells of both)."""

    newest: StoredObject
    before: StoredObject | None
    gone: bool = False


class ObjectCache:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, _Kept] = {}
        self._size = 0
        self._gone: dict[str, None] = {}
        """Keys that were deleted, in that order."""
        self._events: dict[str, None] = {}
        """Keys of events among what is kept, the longest unchanged first."""

    async def get(self, key: str) -> StoredObject | None:
        """What stands there now."""
        try:
            entry = await self._store.get(key)
        except StoreError as error:
            raise unserviceable(error) from error
        return None if entry is None else self.read(entry)

    async def list(
        self, prefix: str, *, after: str, limit: int, revision: int, most_bytes: int = 0
    ) -> Listing:
        """The entries under a prefix; `Gone` where that revision is too old."""
        try:
            return await self._store.list(
                prefix, after=after, limit=limit, revision=revision, most_bytes=most_bytes
            )
        except Compacted as error:
            raise Gone(f"The provided continue parameter is too old: {error}") from error
        except NotReached as error:
            raise TooLargeVersion(error.asked, error.revision) from error
        except StoreError as error:
            raise unserviceable(error) from error

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        """As the store does it."""
        try:
            return await self._store.commit(conditions, operations)
        except StoreError as error:
            raise unserviceable(error) from error

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[ChangeBatch, None]:
        """As the store does it; `Gone` where that revision is too old."""
        batches = self._store.watch(prefix, after)
        try:
            async for batch in batches:
                yield batch
        except Compacted as error:
            raise Gone(f"too old resource version: {after} ({error.revision})") from error
        except StoreError as error:
            raise unserviceable(error) from error
        finally:
            close = getattr(batches, "aclose", None)
            if close is not None:
                await close()

    def peek(self, key: str) -> StoredObject | None:
        """What stood there when it was last seen: true only if a commit on that revision says so."""
        kept = self._kept.get(key)
        return None if kept is None or kept.gone else kept.newest

    def read(self, entry: KeyValue) -> StoredObject:
        """The object of an entry."""
        kept = self._kept.get(entry.key)
        if kept is not None:
            if kept.newest.revision == entry.revision:
                return kept.newest
            if kept.before is not None and kept.before.revision == entry.revision:
                return kept.before
        decoded = with_version(_decoder.decode(entry.value), entry.revision)
        standing = StoredObject(decoded, entry.revision, len(entry.value))
        if kept is None or kept.newest.revision < entry.revision:
            self.keep(entry.key, standing)
        return standing

    def keep(self, key: str, standing: StoredObject) -> None:
        """Remember it as the newest; the longest unchanged ones make room."""
        kept = self._kept.pop(key, None)
        if kept is None:
            kept = _Kept(standing, None)
        else:
            self._size -= kept.newest.size
            if kept.newest.revision < standing.revision:  # else a slower commit tells of an older one
                kept = _Kept(standing, kept.newest)
        self._kept[key] = kept
        self._size += kept.newest.size
        if key.startswith(EVENT.prefix):
            self._events.pop(key, None)
            self._events[key] = None
            if len(self._events) > MOST_EVENTS_KEPT:
                self._drop(next(iter(self._events)))
        while self._size > MOST_BYTES_KEPT:
            self._drop(next(iter(self._kept)))

    def gone(self, key: str, revision: int) -> None:
        """It was deleted then: nothing is planned on it any more. Watches will still tell of its last state;
        so that is kept until many others have gone."""
        kept = self._kept.get(key)
        if kept is None or kept.newest.revision > revision:
            return
        kept.gone = True
        self._gone[key] = None
        while len(self._gone) > MOST_GONE_KEPT:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            if oldest in self._kept and self._kept[oldest].gone:
                self._drop(oldest)

    def _drop(self, key: str) -> None:
        self._size -= self._kept.pop(key).newest.size
        self._events.pop(key, None)


def encode(obj: dict[str, Any]) -> bytes:
    """What is stored of it; its metadata must hold no resourceVersion."""
    return _encoder.encode(obj)


def room_of(value: bytes) -> int:
    """Bytes that an object takes in memory once it is decoded, from its marks of JSON: seldom less, and up to
    three times as much where texts are full of them."""
    parts = value.count(b",") + value.count(b":")
    return len(value) + 32 * parts + 96 * value.count(b"{") + 56 * value.count(b"[")


def with_version(obj: dict[str, Any], revision: int) -> dict[str, Any]:
    """The object with that resourceVersion; shares everything else."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def unserviceable(error: StoreError) -> Unserviceable:
    """The store's trouble in the API's words."""
    return Unserviceable(f"the store cannot do this now: {error}")
