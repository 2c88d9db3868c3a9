"""The shared store: an etcd v3 cluster, for an engine on several machines.

Revisions, transactions, leases and the history are etcd's own. One watch of everything feeds all watches of
this process, and takes up again behind the last change that it has handed out when its member goes.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import grpc
from aetcd import rpc

from proreus.engine.store.etcd.address import EtcdAddress
from proreus.engine.store.etcd.connection import EtcdConnection, EtcdError
from proreus.engine.store.options import DEFAULTS, StoreOptions
from proreus.engine.store.protocol import (
    Change,
    ChangeBatch,
    Committed,
    Compacted,
    KeyValue,
    Listing,
    NoSuchLease,
    NotReached,
    Operation,
    Put,
    StoreError,
    StoreFull,
    Unavailable,
    Unchanged,
    fitting,
)
from proreus.engine.store.validation import check_lease, check_seconds, check_transaction
from proreus.engine.store.watch_feed import PROGRESS_SECONDS, WatchFeed

_PAGE = 2000
"""So many keys are listed at once; a long list leaves the loop and the server free in between."""
_SMALL_PAGE = 32
"""The same where bytes are counted: an entry may have more than a million of them."""
_RETRY_SECONDS = 0.2
_COMPACTED = "required revision has been compacted"
_NOT_REACHED = "required revision is a future revision"


class EtcdStore:
    """See `protocol.Store`; made by `open`."""

    def __init__(self, address: EtcdAddress, options: StoreOptions = DEFAULTS) -> None:
        self._root = address.root
        self._options = options
        self._connection = EtcdConnection(address, options.timeout)
        self._feed = WatchFeed(0, options.held, options.held_bytes)
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._readings: set[asyncio.Future[ChangeBatch]] = set()
        self._closed = False
        self._full = ""

    @classmethod
    async def open(cls, address: EtcdAddress, options: StoreOptions = DEFAULTS) -> EtcdStore:
        """The store in that cluster; raises where no member answers."""
        store = cls(address, options)
        try:
            store._feed = WatchFeed(await store._revision(), options.held, options.held_bytes)
        except StoreError:
            await store._connection.close()
            raise
        work = [store._listen()] + ([store._compact_regularly()] if options.compact_seconds else [])
        store._tasks = tuple(asyncio.create_task(part, name="etcd store") for part in work)
        return store

    async def get(self, key: str) -> KeyValue | None:
        """What stands under the key now."""
        self._check_open()
        answer = await self._connection.call(
            "KV.Range", rpc.RangeRequest(key=self._bytes(key)), repeatable=True
        )
        return self._entry(answer.kvs[0]) if answer.kvs else None

    async def list(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
    ) -> Listing:
        """The keys with that prefix, in order."""
        self._check_open()
        begin, end = self._range(prefix)
        begin = max(begin, self._bytes(after) + b"\0") if after else begin
        entries: list[KeyValue] = []
        at = revision
        while begin < end:
            page = _SMALL_PAGE if most_bytes else _PAGE
            page = min(page, limit - len(entries)) if limit else page
            request = rpc.RangeRequest(key=begin, range_end=end, limit=page, revision=at)
            answer = await self._range_at(request, revision)
            at = at or answer.header.revision
            entries += [self._entry(entry) for entry in answer.kvs]
            remaining = answer.count - len(answer.kvs)
            if most_bytes:
                fit = list(fitting(entries, most_bytes))
                if len(fit) < len(entries):
                    return Listing(tuple(fit), at, remaining + len(entries) - len(fit))
            if not remaining or (limit and len(entries) == limit):
                return Listing(tuple(entries), at, remaining)
            begin = answer.kvs[-1].key + b"\0"
        return Listing((), at or await self._revision())

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        """The operations, if all conditions hold; at most etcd's `--max-txn-ops` (128) of each."""
        check_transaction(conditions, operations)
        self._check_open()
        request = rpc.TxnRequest(
            compare=[
                rpc.Compare(
                    result=rpc.Compare.EQUAL,
                    target=rpc.Compare.MOD,
                    key=self._bytes(condition.key),
                    mod_revision=condition.revision,
                )
                for condition in conditions
            ],
            success=[self._operation(operation) for operation in operations],
            failure=[
                rpc.RequestOp(request_range=rpc.RangeRequest(key=self._bytes(condition.key)))
                for condition in conditions
            ],
        )
        try:
            answer = await self._connection.call("KV.Txn", request, repeatable=not operations)
        except StoreFull as error:
            self._full = str(error)
            raise
        if answer.succeeded and operations:
            self._full = ""
        if answer.succeeded:
            return Committed(True, answer.header.revision)
        ranges = (response.response_range.kvs for response in answer.responses)
        entries = tuple(self._entry(kvs[0]) if kvs else None for kvs in ranges)
        return Committed(False, answer.header.revision, entries)

    def watch(self, prefix: str, after: int) -> AsyncIterator[ChangeBatch]:
        """Every change under the prefix after that revision."""
        self._check_open()
        return self._feed.follow(prefix, after, self._older)

    def trouble(self) -> str:
        """Its quota is used up, said the last write."""
        return self._full

    async def grant(self, seconds: float) -> int:
        """A lease, in whole seconds; at least one and a half of etcd's election timeouts, rounded up."""
        check_seconds(seconds)
        self._check_open()
        request = rpc.LeaseGrantRequest(TTL=math.ceil(seconds))
        answer = await self._connection.call("Lease.LeaseGrant", request, repeatable=True)
        return int(answer.ID)

    async def keep_alive(self, lease: int) -> None:
        """The lease lives its time from now."""
        check_lease(lease)
        self._check_open()
        failure = Unavailable("etcd: the lease was not kept alive in time")
        try:
            async with asyncio.timeout(self._options.timeout):
                while True:
                    try:
                        return await self._keep_alive_once(lease)
                    except Unavailable as error:
                        failure = error
                        await asyncio.sleep(_RETRY_SECONDS)
        except TimeoutError:
            raise failure from None

    async def _keep_alive_once(self, lease: int) -> None:
        first = rpc.LeaseKeepAliveRequest(ID=lease)
        async with self._connection.stream("Lease.LeaseKeepAlive", first) as call:
            answer = await call.read()
        if answer is grpc.aio.EOF:
            raise Unavailable("etcd: the member ended the call")
        if answer.TTL <= 0:
            raise NoSuchLease(f"there is no lease {lease}")

    async def revoke(self, lease: int) -> None:
        """The lease and its keys go now."""
        check_lease(lease)
        self._check_open()
        await self._connection.call("Lease.LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease), repeatable=False)

    async def compact(self, revision: int) -> None:
        """Forget the history before that revision."""
        self._check_open()
        revision = min(revision, await self._revision())
        try:
            request = rpc.CompactionRequest(revision=revision)
            await self._connection.call("KV.Compact", request, repeatable=True)
        except EtcdError as error:
            if _COMPACTED not in error.details:  # somebody has forgotten more already
                raise
        self._feed.compact(revision)

    async def close(self) -> None:
        """Watches end; the connections are let go."""
        if not self._closed:
            self._closed = True
            self._feed.close()
            running: list[asyncio.Future[Any]] = [*self._tasks, *self._readings]
            for future in running:
                future.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    async def _revision(self) -> int:
        """The store's."""
        request = rpc.RangeRequest(key=self._root.encode(), count_only=True)
        answer = await self._connection.call("KV.Range", request, repeatable=True)
        return int(answer.header.revision)

    async def _range_at(self, request: Any, asked: int) -> Any:
        try:
            return await self._connection.call("KV.Range", request, repeatable=True)
        except EtcdError as error:
            if _COMPACTED in error.details:
                raise Compacted(request.revision + 1) from error
            if _NOT_REACHED in error.details:
                raise NotReached(asked, await self._revision()) from error
            raise

    # Watching

    async def _listen(self) -> None:
        """Hand every change to the feed, whatever becomes of the member that tells it."""
        try:
            while True:
                await self._listen_to_one()
        finally:
            self._feed.close()  # whatever ends this, no watch waits for what never comes

    async def _listen_to_one(self) -> None:
        """Until the member that tells the changes goes."""
        try:
            async with contextlib.aclosing(self._history("", self._feed.revision)) as batches:
                async for batch in batches:
                    self._feed.heard = True
                    self._feed.publish(batch.changes, batch.revision)
        except Compacted as gap:
            self._feed.lose(gap.revision, gap.revision)
        except StoreError:
            self._feed.heard = False
            await asyncio.sleep(_RETRY_SECONDS)

    async def _older(self, prefix: str, after: int) -> AsyncGenerator[ChangeBatch, None]:
        """A watch of its own, for one that began before what the feed holds; it, too, outlives its member."""
        while not self._closed:
            async with contextlib.aclosing(self._history(prefix, after)) as batches:
                reading: asyncio.Future[ChangeBatch] | None = None
                try:
                    while True:
                        reading = reading or asyncio.ensure_future(anext(batches))
                        self._readings.add(reading)
                        await asyncio.wait({reading}, timeout=PROGRESS_SECONDS)
                        if not reading.done():
                            yield ChangeBatch((), after)  # to give up the read would give up the call
                            continue
                        self._readings.discard(reading)
                        if reading.cancelled():  # by `close`
                            return
                        batch, reading = reading.result(), None
                        after = batch.revision
                        yield batch
                except Unavailable:
                    await asyncio.sleep(_RETRY_SECONDS)
                finally:
                    if reading is not None:
                        await self._give_up(reading)

    async def _give_up(self, reading: asyncio.Future[ChangeBatch]) -> None:
        self._readings.discard(reading)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    async def _history(self, prefix: str, after: int) -> AsyncGenerator[ChangeBatch, None]:
        """The changes after that revision, for ever; ends with `Unavailable` where the member goes."""
        begin, end = self._range(prefix)
        # From the revision itself: etcd then refuses just where what stood before the first change is gone.
        create = rpc.WatchCreateRequest(
            key=begin,
            range_end=end,
            start_revision=max(1, after),
            prev_kv=True,
            progress_notify=True,
            fragment=True,  # else a thousand large changes are one message
        )
        rest: list[Change] = []
        async with self._connection.stream("Watch.Watch", rpc.WatchRequest(create_request=create)) as call:
            while (answer := await call.read()) is not grpc.aio.EOF:
                if answer.compact_revision:
                    raise Compacted(answer.compact_revision)
                if answer.canceled:
                    self._connection.forget_token()
                    raise Unavailable(f"etcd: the watch was ended: {answer.cancel_reason}")
                rest += [self._change(event) for event in answer.events if event.kv.mod_revision > after]
                changes, rest = _whole_revisions(rest, more=answer.fragment)
                if changes:
                    yield ChangeBatch(changes, changes[-1].revision)
                elif answer.fragment:
                    continue
                elif answer.created:
                    yield ChangeBatch((), after)  # it is heard again
                elif not answer.events:
                    yield ChangeBatch((), max(after, answer.header.revision))
        raise Unavailable("etcd: the member ended the watch")

    async def _compact_regularly(self) -> None:
        """etcd keeps its history until it is told not to."""
        seen = self._feed.revision
        while True:
            await asyncio.sleep(self._options.compact_seconds)
            with contextlib.suppress(Unavailable):  # next time
                await self.compact(seen)
                seen = await self._revision()

    # In etcd's words

    def _bytes(self, key: str) -> bytes:
        return (self._root + key).encode()

    def _range(self, prefix: str) -> tuple[bytes, bytes]:
        """From the first key with that prefix to behind the last: no UTF-8 has a byte of 255."""
        begin = self._bytes(prefix)
        return begin, begin[:-1] + bytes([begin[-1] + 1])

    def _operation(self, operation: Operation) -> Any:
        key = self._bytes(operation.key)
        if isinstance(operation, Put):
            put = rpc.PutRequest(key=key, value=operation.value, lease=operation.lease)
            return rpc.RequestOp(request_put=put)
        return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))

    def _entry(self, entry: Any) -> KeyValue:
        key = entry.key.decode()[len(self._root) :]
        return KeyValue(key, entry.value, entry.create_revision, entry.mod_revision, entry.lease)

    def _change(self, event: Any) -> Change:
        revision = event.kv.mod_revision
        deleted = event.type == rpc.Event.DELETE
        previous = self._entry(event.prev_kv) if event.HasField("prev_kv") else None
        if previous is None and (deleted or event.kv.create_revision != revision):
            raise Compacted(revision)  # while the change was on its way, what stood before was forgotten
        entry = None if deleted else self._entry(event.kv)
        return Change(event.kv.key.decode()[len(self._root) :], revision, entry, previous)


def _whole_revisions(changes: list[Change], *, more: bool) -> tuple[tuple[Change, ...], list[Change]]:
    """Changes that can be handed out, and those of a revision of which more may follow."""
    if not more or not changes:
        return tuple(changes), []
    last = changes[-1].revision
    end = bisect.bisect_left(changes, last, key=lambda change: change.revision)
    return tuple(changes[:end]), changes[end:]
