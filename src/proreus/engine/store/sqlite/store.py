"""The embedded store: one SQLite file in WAL mode that outlives the process; processes may share it.

Statements run on the event loop, the sync to disk in a thread. Python hands its lock over at every SQLite
call, so that a thread of many short statements would wait for a busy loop thousands of times; a statement
takes about ten microseconds and seldom touches the disk. What is one long call (commit, a large deletion,
waiting for another process) goes to the thread. All commits that wait meanwhile share the next sync.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from proreus.engine.store.history_size import Superseded
from proreus.engine.store.options import DEFAULTS, StoreOptions
from proreus.engine.store.protocol import (
    ABSENT,
    Change,
    ChangeBatch,
    Committed,
    Compacted,
    KeyValue,
    Listing,
    NotReached,
    Operation,
    StoreError,
    StoreFull,
    Unchanged,
    fitting,
)
from proreus.engine.store.sqlite.high_water_mark import AHEAD, HighWaterMark, StoreLost, check_whole
from proreus.engine.store.sqlite.tables import READER_KIB, Tables, in_protocol_words
from proreus.engine.store.validation import check_lease, check_seconds, check_transaction
from proreus.engine.store.watch_feed import WatchFeed
from proreus.model.files import make_private_folder


def make_private(path: Path) -> None:
    """A new file is its owner's alone, for it holds Secrets; SQLite gives -wal and -shm the same mode.

    One that is there is not opened: to close it again would end the locks that this process has on it. It
    keeps its mode, which may have been given for a group that shares it.
    """
    try:
        os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def tell_if_public(path: Path, holds: str) -> None:
    """Warn of a store that every user may read; holds: what is in it."""
    if path.stat().st_mode & stat.S_IROTH:
        _log.warning("every user of this machine may read %s, with %s in it: chmod o= %s*", path, holds, path)


T = TypeVar("T")
_log = logging.getLogger(__name__)

_GROUP_SECONDS = 0.005
"""So long the loop works on one group of commits before it goes to disk."""
_POLL_SECONDS = 0.05
"""So often another process's writing is looked for; it takes some microseconds."""
_SLICE = 256
"""So many rows of a list are read in one turn of the loop."""
_SMALL_SLICE = 16
"""The same where bytes are counted: a row may have more than a million of them."""
_SPAN = 500
"""So many revisions of the history are read or swept in one go."""
_SPAN_BYTES = 1 << 20
"""And fewer of them where their values take more than this: it is read by every watch for itself."""
_READERS = 4
"""So many connections are kept for lists; more are opened while more are asked for at once."""
_SPARE_BYTES = 1 << 20
"""With less than this left on its disk, a file can hardly be written to."""
_CHECKED_BYTES = 256 << 20
"""A larger file is not read through when it is opened."""


@dataclass(slots=True)
class _Request:
    """One caller's work within the next transaction."""

    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    outcome: Any = None
    alone: bool = False
    """It is to have a transaction of its own."""


_Group = list[_Request]


class SQLiteStore:
    """See `protocol.Store`; made by `open`."""

    _tables: Tables
    _reader: Tables
    _mark: HighWaterMark
    _feed: WatchFeed
    _writer: asyncio.Task[None]

    def __init__(
        self, path: Path, options: StoreOptions = DEFAULTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._options, self._clock = path, options, clock
        self._thread = ThreadPoolExecutor(1, "store-sync")
        self._waiting: deque[_Request] = deque()
        self._under_way: _Group = []
        """The requests of the present transaction."""
        self._woken = asyncio.Event()
        self._closing = False
        self._unpublished: list[Change] = []
        self._full = ""
        """What the last write said, where there was no room for it."""
        self._superseded = Superseded()
        self._readers: list[Tables] = []

    @classmethod
    async def open(
        cls, path: Path, options: StoreOptions = DEFAULTS, clock: Callable[[], float] = time.monotonic
    ) -> SQLiteStore:
        """The store in that file, which is made where it is not there."""
        store = cls(path, options, clock)
        try:
            with in_protocol_words(path):
                await store._in_thread(store._connect)
        except StoreError:
            store._thread.shutdown()
            raise
        store._writer = asyncio.create_task(store._write(), name=f"store {path.name}")
        return store

    def _connect(self) -> None:
        try:
            make_private_folder(self._path.parent)
        except OSError as error:
            raise StoreError(f"{self._path.parent}: {error.strerror}") from error
        lost = self._look_for_losses()
        make_private(self._path)
        self._mark = HighWaterMark(self._path)
        self._tables = Tables(self._path, busy_seconds=self._options.timeout)
        try:
            self._tables.prepare()
            if self._path.stat().st_size <= _CHECKED_BYTES:
                self._tables.check()
            self._tables.execute("BEGIN IMMEDIATE")
            self._tables.rebase_leases(self._clock())
            if lost is not None:
                self._tables.set_number("revision", lost.acknowledged + AHEAD)
                self._tables.set_number("compacted", lost.acknowledged + AHEAD)
            self._tables.execute("COMMIT")
            self._others = self._tables.others()  # before the rest: what comes in between is looked for
            self._revision = self._tables.number("revision")
            self._compacted = self._tables.number("compacted")
            self._sweeping = self._tables.number("swept") < self._compacted
            self._next_end = self._tables.next_end()
            for revision, size in self._tables.superseded(self._compacted):
                self._superseded.add(revision, size)
        except BaseException:
            self._tables.close()
            self._mark.close()
            raise
        self._mark.note(self._revision)
        tell_if_public(self._path, self._options.holds)
        self._reader = self._new_reader()
        self._feed = WatchFeed(self._revision, self._options.held, self._options.held_bytes)

    def _look_for_losses(self) -> StoreLost | None:
        """What the file lacks, where that is accepted: revisions go on behind it, so that no client takes a
        new one for one of those."""
        try:
            check_whole(self._path)
        except StoreLost as lost:
            if not self._options.accept_loss:
                raise
            _log.warning("%s; going on with what is there", lost)
            return lost
        return None

    def _new_reader(self) -> Tables:
        return Tables(self._path, busy_seconds=self._options.timeout, cache_kib=READER_KIB)

    async def get(self, key: str) -> KeyValue | None:
        """What stands under the key now."""
        self._check_open()
        with in_protocol_words(self._path):
            return self._reader.entry(key)

    async def list(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
    ) -> Listing:
        """The keys with that prefix, in order."""
        self._check_open()
        entries: list[KeyValue] = []
        size = remaining = 0
        with self._snapshot() as tables:
            now = tables.number("revision")
            if revision:
                _check_revision(tables, revision, now)
                # To undo what came later is one long step.
                thread = await asyncio.to_thread(tables.standing, prefix, after, limit, revision)
            else:
                thread = tables.standing(prefix, after, limit)
            async for part in _in_slices(thread, _SMALL_SLICE if most_bytes else _SLICE):
                entries += part
                size += sum(len(entry.value) for entry in part)
                if most_bytes and size > most_bytes:
                    entries = list(fitting(entries, most_bytes))
                    break
            if entries and ((limit and len(entries) == limit) or (most_bytes and size > most_bytes)):
                # To count what follows is one long step, too.
                last = max(after, entries[-1].key)
                remaining = await asyncio.to_thread(tables.count, prefix, last, revision)
        return Listing(tuple(entries), revision or now, remaining)

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        """The operations, if all conditions hold."""
        check_transaction(conditions, operations)
        return await self._request(lambda: self._commit(conditions, operations))

    def watch(self, prefix: str, after: int) -> AsyncIterator[ChangeBatch]:
        """Every change under the prefix after that revision."""
        self._check_open()
        return self._feed.follow(prefix, after, self._older)

    def trouble(self) -> str:
        """The disk is full, or was when it was last written to."""
        with suppress(OSError):
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < _SPARE_BYTES:
                return f"{self._path}: its disk is full"
        return self._full

    async def grant(self, seconds: float) -> int:
        """A lease that lives so long after each `keep_alive`, by the clock that no one sets."""
        check_seconds(seconds)
        return await self._request(lambda: self._tables.grant(seconds, self._clock()))

    async def keep_alive(self, lease: int) -> None:
        """The lease lives its time from now."""
        check_lease(lease)
        await self._request(lambda: self._tables.prolong(lease, self._clock()))

    async def revoke(self, lease: int) -> None:
        """The lease and its keys go now."""
        check_lease(lease)
        await self._request(lambda: self._take(self._tables.end(lease, self._revision + 1)))

    async def compact(self, revision: int) -> None:
        """Forget the history before that revision; the file's room is used again bit by bit."""
        await self._request(lambda: self._compact(min(revision, self._revision)))

    async def close(self) -> None:
        """What was asked for is finished; watches end."""
        if not self._closing:
            self._closing = True
            self._woken.set()
            try:
                await self._writer
            finally:
                for tables in (self._tables, self._reader, *self._readers):
                    tables.close()
                self._mark.close()
                self._thread.shutdown()

    def _check_open(self) -> None:
        if self._closing:
            raise StoreError("the store is closed")

    async def _request(self, work: Callable[[], T]) -> T:
        self._check_open()
        if self._writer.done():
            raise StoreError("the store has stopped")
        request = _Request(work, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._woken.set()
        return cast(T, await request.answer)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    # Inside a transaction

    def _commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        rows = {condition.key: self._tables.row(condition.key) for condition in conditions}
        for condition in conditions:
            row = rows[condition.key]
            if (row.revision if row else ABSENT) != condition.revision:
                found = tuple(rows[condition.key] for condition in conditions)
                return Committed(False, self._revision, tuple(row and row.entry for row in found))
        self._take(self._tables.apply(operations, self._revision + 1, rows))
        return Committed(True, self._revision)

    def _take(self, changes: Sequence[Change]) -> None:
        """These changes are the next revision, if they are any."""
        if changes:
            self._revision += 1
            self._unpublished.extend(changes)

    def _compact(self, revision: int) -> None:
        if revision > self._compacted:
            self._tables.set_number("compacted", revision)
            self._compacted = revision
            self._sweeping = True

    def _hear_others(self) -> None:
        """Take over what other processes have committed since."""
        revision = self._tables.number("revision")
        self._compacted = max(self._compacted, self._tables.number("compacted"))
        if revision > self._revision:
            few = revision - self._revision <= min(_SPAN, self._options.held)
            if few and self._tables.size(self._revision, revision) <= self._options.held_bytes:
                changes = list(self._tables.changes("", self._revision, revision))
                self._superseded.add_changes(changes)
                self._feed.publish(changes, revision)
            else:
                for superseded in self._tables.superseded(self._revision):
                    self._superseded.add(*superseded)
                self._feed.skip(revision)
        self._revision = revision
        self._superseded.forget(self._compacted)

    # The writer: the only task that uses `_tables`

    async def _write(self) -> None:
        try:
            while self._waiting or not self._closing:
                if not self._waiting and not self._sweeping:
                    await self._rest()
                due = self._next_end is not None and self._next_end <= self._clock()
                if self._waiting or self._sweeping or due:
                    await self._turn()
                elif not self._closing:
                    self._look()
        finally:
            self._feed.close()
            # However it ends: who asked must not wait for ever. Those that have their answer keep it.
            ended = StoreError("the store is closed" if self._closing else "the store has stopped")
            for request in (*self._under_way, *self._waiting):
                _answer(request, ended)
            self._waiting.clear()

    async def _rest(self) -> None:
        """Until there is work, a lease runs out, or it is time to look for others' work."""
        seconds = _POLL_SECONDS
        if self._next_end is not None:
            seconds = min(seconds, max(0.0, self._next_end - self._clock()))
        self._woken.clear()
        if self._closing:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    def _look(self) -> None:
        """Whether another process has written."""
        try:
            others = self._tables.others()
            if others != self._others:
                self._tables.execute("BEGIN")
                self._hear_others()
                self._next_end = self._tables.next_end()
                self._others = others
            self._feed.heard = True
        except sqlite3.Error:  # it is looked for again soon; who asks meanwhile is told the error
            self._feed.heard = False
        finally:
            if self._tables.in_transaction:
                self._tables.execute("ROLLBACK")

    async def _turn(self) -> None:
        """One transaction with all that waits; answered once it is on disk."""
        group = self._under_way = []
        before = (self._revision, self._compacted, self._sweeping)
        try:
            with in_protocol_words(self._path):
                await self._begin()
                self._hear_others()
                before = (self._revision, self._compacted, self._sweeping)
                self._work(group)
                if self._sweeping:
                    self._sweeping = await self._in_thread(self._tables.sweep, _SPAN)
                if self._revision != before[0]:
                    self._tables.set_number("revision", self._revision)
                self._next_end = self._tables.next_end()
                await self._in_thread(self._sync, self._revision != before[0])
        except StoreError as error:
            if self._tables.in_transaction:
                self._tables.execute("ROLLBACK")
            self._revision, self._compacted, self._sweeping = before
            self._unpublished.clear()
            await self._after_failure(group, error)
            return
        self._full = ""
        self._superseded.add_changes(self._unpublished)
        self._superseded.forget(self._compacted)
        # Who asked goes on before those who watch: what it wrote is then at hand, and nobody decodes it.
        for request in group:
            _answer(request, request.outcome)
        self._feed.publish(self._unpublished, self._revision)
        self._feed.compact(self._compacted)
        self._unpublished.clear()

    def _sync(self, changed: bool) -> None:
        self._tables.execute("COMMIT")
        if changed:
            self._mark.note(self._revision)

    async def _after_failure(self, group: _Group, error: StoreError) -> None:
        """Who asked is told; where there was no room for all, there may be for each, or some."""
        if isinstance(error, StoreFull):
            self._full = str(error)
        if not group:  # it could not begin, or it was sweeping or a lease: again, but not at once
            group.extend(self._waiting)
            self._waiting.clear()
            await asyncio.sleep(_POLL_SECONDS)
        if not group:
            return
        if isinstance(error, StoreFull) and not group[0].alone:
            await self._in_thread(self._tables.give_back_log)
            self._waiting.extendleft(replace(request, alone=True) for request in reversed(group))
        else:
            for request in group:
                _answer(request, error)

    async def _begin(self) -> None:
        self._tables.patience(0)
        try:
            self._tables.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            self._tables.patience(self._options.timeout)
            await self._in_thread(self._tables.execute, "BEGIN IMMEDIATE")

    def _work(self, group: _Group) -> None:
        """Do what waits, for as long as the loop can be kept."""
        for lease in self._tables.ended(self._clock()):
            self._take(self._tables.end(lease, self._revision + 1))
        until = time.perf_counter() + _GROUP_SECONDS
        while self._waiting and time.perf_counter() < until:
            if group and self._waiting[0].alone:
                break
            request = self._waiting.popleft()
            group.append(request)
            try:
                request.outcome = request.work()
            except StoreError as refusal:
                request.outcome = refusal
            if request.alone:
                break
        if self._revision - self._compacted > self._options.history * 5 // 4:
            self._compact(self._revision - self._options.history)
        if self._superseded.size > self._options.history_bytes * 5 // 4:
            self._compact(self._superseded.surplus(self._options.history_bytes))

    # Readers

    @contextmanager
    def _snapshot(self) -> Iterator[Tables]:
        """A connection that sees one state of the store however long it is read."""
        with in_protocol_words(self._path):
            tables = self._readers.pop() if self._readers else self._new_reader()
            try:
                tables.execute("BEGIN")
                yield tables
            finally:
                if tables.in_transaction:
                    tables.execute("ROLLBACK")
                if self._closing or len(self._readers) >= _READERS:
                    tables.close()
                else:
                    self._readers.append(tables)

    async def _older(self, prefix: str, after: int) -> AsyncGenerator[ChangeBatch, None]:
        """The history in the file, a span of revisions at a time; a slow watch keeps no snapshot open."""
        while True:
            with self._snapshot() as tables:
                now, compacted = tables.number("revision"), tables.number("compacted")
                if after < compacted:
                    raise Compacted(compacted)
                changes, upto = _some(tables, prefix, after, min(now, after + _SPAN))
            if changes or upto == now:
                yield ChangeBatch(changes, upto)
            if upto == now:
                return
            after = upto
            await asyncio.sleep(0)


def _some(tables: Tables, prefix: str, after: int, upto: int) -> tuple[tuple[Change, ...], int]:
    """The changes after one revision up to another, or to an earlier one where values are large; whole
    revisions only. And the revision they go up to."""
    some: list[Change] = []
    size = 0
    with closing(tables.changes(prefix, after, upto)) as changes:
        for change in changes:
            if size > _SPAN_BYTES and change.revision != some[-1].revision:
                return tuple(some), some[-1].revision
            some.append(change)
            size += change.size
    return tuple(some), upto


def _check_revision(tables: Tables, revision: int, now: int) -> None:
    if revision < tables.number("compacted"):
        raise Compacted(tables.number("compacted"))
    if revision > now:
        raise NotReached(revision, now)


async def _in_slices(rows: Iterator[T], count: int = _SLICE) -> AsyncIterator[list[T]]:
    """Rows, some at a time, with the loop free in between."""
    while True:
        part = list(islice(rows, count))
        if part:
            yield part
        if len(part) < count:
            return
        await asyncio.sleep(0)


def _answer(request: _Request, outcome: Any) -> None:
    if request.answer.done():  # the caller has gone
        return
    if isinstance(outcome, StoreError):
        request.answer.set_exception(outcome)
    else:
        request.answer.set_result(outcome)
