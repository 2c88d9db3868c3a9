"""A store that forgets with its process: for tests, and for whoever wants to try the engine without a trace.

It keeps the protocol with plain dicts, the history as a list; it is the shortest reading of what SQLite and
etcd must do alike.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from proreus.engine.store.history_size import Superseded
from proreus.engine.store.options import DEFAULTS, StoreOptions
from proreus.engine.store.protocol import (
    ABSENT,
    Change,
    ChangeBatch,
    Committed,
    Compacted,
    Delete,
    KeyValue,
    Listing,
    NoSuchLease,
    NotReached,
    Operation,
    Put,
    Unchanged,
    fitting,
)
from proreus.engine.store.validation import check_seconds, check_transaction
from proreus.engine.store.watch_feed import PROGRESS_SECONDS

_LEAST_SECONDS = 0.001
"""Timers may fire a moment early: who waits for the rest of that moment waits for nothing, and for ever."""


@dataclass
class _Lease:
    seconds: float
    ends: float
    keys: set[str]


class MemoryStore:
    def __init__(self, clock: Callable[[], float] = time.monotonic, options: StoreOptions = DEFAULTS) -> None:
        self._clock = clock
        self._kept, self._kept_bytes = options.history, options.history_bytes
        self._superseded = Superseded()
        self._entries: dict[str, KeyValue] = {}
        self._history: list[Change] = []
        self._revision = 1
        self._compacted = 0
        self._leases: dict[int, _Lease] = {}
        self._granted = 0
        self._changed = asyncio.Event()
        self._closed = False

    async def get(self, key: str) -> KeyValue | None:
        """What stands under the key now."""
        self._expire()
        return self._entries.get(key)

    async def list(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
    ) -> Listing:
        """The keys with that prefix, in order."""
        self._expire()
        if revision > self._revision:
            raise NotReached(revision, self._revision)
        standing = self._at(revision) if revision else self._entries
        keys = sorted(key for key in standing if key.startswith(prefix) and key > after)
        taken = keys[:limit] if limit else keys
        entries = tuple(standing[key] for key in taken)
        if most_bytes:
            entries = tuple(fitting(entries, most_bytes))
        return Listing(entries, revision or self._revision, len(keys) - len(entries))

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        """The operations, if all conditions hold."""
        check_transaction(conditions, operations)
        self._expire()
        entries = tuple(self._entries.get(condition.key) for condition in conditions)
        for condition, entry in zip(conditions, entries, strict=True):
            if (entry.revision if entry else ABSENT) != condition.revision:
                return Committed(False, self._revision, entries)
        return Committed(True, self._apply(operations))

    async def watch(self, prefix: str, after: int) -> AsyncIterator[ChangeBatch]:
        """Every change under the prefix after that revision."""
        seen = after
        while not self._closed:
            self._expire()
            if seen < self._compacted:
                raise Compacted(self._compacted)
            begin = bisect.bisect_right(self._history, seen, key=lambda change: change.revision)
            changes = tuple(change for change in self._history[begin:] if change.key.startswith(prefix))
            seen = max(seen, self._revision)
            if changes:
                yield ChangeBatch(changes, seen)
                continue
            try:
                async with asyncio.timeout(self._patience()):
                    await self._changed.wait()
            except TimeoutError:
                yield ChangeBatch((), seen)

    def trouble(self) -> str:
        """None ever."""
        return ""

    async def grant(self, seconds: float) -> int:
        """A lease that lives so long after each `keep_alive`."""
        check_seconds(seconds)
        self._granted += 1
        self._leases[self._granted] = _Lease(seconds, self._clock() + seconds, set())
        return self._granted

    async def keep_alive(self, lease: int) -> None:
        """The lease lives its time from now."""
        self._expire()
        kept = self._lease(lease)
        kept.ends = self._clock() + kept.seconds

    async def revoke(self, lease: int) -> None:
        """The lease and its keys go now."""
        self._end(lease)

    async def compact(self, revision: int) -> None:
        """Forget the history before that revision."""
        self._forget(revision)

    async def close(self) -> None:
        """Watches end."""
        self._closed = True
        self._wake()

    def _forget(self, revision: int) -> None:
        self._compacted = max(self._compacted, min(revision, self._revision))
        begin = bisect.bisect_right(self._history, self._compacted, key=lambda change: change.revision)
        del self._history[:begin]
        self._superseded.forget(self._compacted)

    def _at(self, revision: int) -> dict[str, KeyValue]:
        """What stood at that revision: the present with the later changes undone, the last first."""
        if revision < self._compacted:
            raise Compacted(self._compacted)
        standing = dict(self._entries)
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            if change.previous is None:
                del standing[change.key]
            else:
                standing[change.key] = change.previous
        return standing

    def _apply(self, operations: Sequence[Operation]) -> int:
        for operation in operations:
            if isinstance(operation, Put) and operation.lease:
                self._lease(operation.lease)
        revision = self._revision + 1
        changes: list[Change] = []
        for operation in operations:
            before = self._entries.get(operation.key)
            match operation:
                case Put(key, value, lease):
                    if lease:
                        self._lease(lease).keys.add(key)
                    entry = KeyValue(key, value, before.created if before else revision, revision, lease)
                    self._entries[key] = entry
                    changes.append(Change(key, revision, entry, before))
                case Delete(key):
                    if before is not None:
                        del self._entries[key]
                        changes.append(Change(key, revision, None, before))
            if before is not None and before.lease:
                if not isinstance(operation, Put) or operation.lease != before.lease:
                    self._leases[before.lease].keys.discard(operation.key)
        if changes:
            self._revision = revision
            self._history.extend(changes)
            self._superseded.add_changes(changes)
            if self._revision - self._compacted > self._kept * 5 // 4:
                self._forget(self._revision - self._kept)
            if self._superseded.size > self._kept_bytes * 5 // 4:
                self._forget(self._superseded.surplus(self._kept_bytes))
            self._wake()
        return self._revision

    def _lease(self, lease: int) -> _Lease:
        if lease not in self._leases:
            raise NoSuchLease(f"there is no lease {lease}")
        return self._leases[lease]

    def _expire(self) -> None:
        now = self._clock()
        for lease in [lease for lease, kept in self._leases.items() if kept.ends <= now]:
            self._end(lease)

    def _end(self, lease: int) -> None:
        keys = sorted(self._lease(lease).keys)
        self._apply([Delete(key) for key in keys])
        del self._leases[lease]

    def _patience(self) -> float:
        """Until the next lease runs out, or it is time to tell progress."""
        ends = [kept.ends - self._clock() for kept in self._leases.values()]
        return max(_LEAST_SECONDS, min([PROGRESS_SECONDS, *ends]))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
