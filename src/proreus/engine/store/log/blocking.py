"""The two ends of a log in a store, for threads: see `DurableLog` and `LogReader`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from proreus.engine.store.factory import open_store
from proreus.engine.store.log.loop_thread import LoopThread
from proreus.engine.store.log.store_log import MOST_OPERATIONS, LogInStore, part_key, read_part, segments_of
from proreus.engine.store.options import StoreOptions
from proreus.engine.store.protocol import KeyValue, Store, StoreError, StoreFull, Unavailable
from proreus.engine.store.read_only import Looker, open_looker
from proreus.log.frames import FRAME_BYTES
from proreus.log.group_commit import Append, GroupedLog
from proreus.log.protocol import LogFull, LogLimits, Part, PartTooLarge
from proreus.model.errors import ProreusError, WorkError

_log = logging.getLogger(__name__)
LOG_OPTIONS = StoreOptions(held=1, held_bytes=1, holds="the experience of a service")
"""Nobody watches this store here: its changes need not be held for that."""
_MOST_BYTES = 1 << 20
"""Of one transaction of several parts: etcd takes about 1.5 MiB."""
_PAGE = 16
_HEAL_SECONDS = 1.0
_KEEP_SHARE = 7, 8
"""Where room must be made it is made for a while: down to this part of the limit."""


class StoreLog(GroupedLog):
    """The writing end. Any number of processes write the same log."""

    def __init__(
        self, address: str, root: str, limits: LogLimits, released: Callable[[], int], name: str
    ) -> None:
        """released: the number below which nobody needs the records any more; it is asked for room."""
        super().__init__(name, name)
        self._limits, self._released = limits, released
        self._full_at = 0  # what was released when there was no room
        self._healing: Future[None] | None = None
        self._loop = LoopThread("log")
        self._store: Store | None = None
        try:
            self._store = self._loop.run(open_store(address, LOG_OPTIONS))
        except BaseException:
            self._loop.close()
            raise
        self._log = LogInStore(self._store, root)

    def claim(self, owner: str) -> None:
        """See `LogInStore.claim`; it ends where the log is another's."""
        try:
            # Whoever learned skips the numbers that it knows: none of them may come again.
            self._loop.run(self._log.claim(owner, self._released()))
            self._next = self._loop.run(self._log.head()).next
        except BaseException:
            self._let_go()
            raise

    def _write(self, group: list[Append]) -> None:
        try:
            self._loop.run(self._keep(group))
        except LogFull:
            self._full_at = self._released()
            raise
        except StoreError:
            if self._healing is None or self._healing.done():
                self._healing = asyncio.run_coroutine_threadsafe(self._heal(), self._loop.loop)
            raise

    async def _keep(self, group: list[Append]) -> None:
        await self._make_room(sum(FRAME_BYTES + len(waiting.payload) for waiting in group))
        for together in _in_transactions(group):
            parts = [(waiting.payload, waiting.records) for waiting in together]
            try:
                numbers = await self._log.append(parts)
            except (StoreError, ValueError) as error:
                size = len(together[0].payload)
                if size <= _MOST_BYTES or isinstance(error, StoreFull | Unavailable):
                    raise
                together[0].failure = PartTooLarge(f"{size} bytes: {error}")
                continue
            for waiting, number in zip(together, numbers, strict=True):
                waiting.number = number
        self._next = (await self._log.head()).next

    async def _make_room(self, coming: int) -> None:
        most = self._limits.keep_bytes
        if not most or (await self._log.head()).bytes + coming <= most:
            return
        part, whole = _KEEP_SHARE
        await self._log.prune(self._released(), max(1, most * part // whole - coming))
        if (await self._log.head()).bytes + coming > most:
            raise LogFull(f"the log has its {most} bytes, and nothing learned from the oldest yet")

    async def _heal(self) -> None:
        """Try until something can be written again: whoever asks for trouble need not report to know."""
        while self._failure is None or isinstance(self._failure, StoreError):
            await asyncio.sleep(_HEAL_SECONDS)
            try:
                await self._log.touch()
            except ProreusError:
                continue
            self._failure = None
            return

    def _is_over(self, failure: Exception) -> bool:
        return isinstance(failure, LogFull) and self._released() > self._full_at

    def _let_go(self) -> None:
        if self._healing is not None:
            self._healing.cancel()
        if self._store is not None:
            self._loop.run(self._store.close())
        self._loop.close()


class StoreReader:
    """The reading end; it changes nothing in the store."""

    def __init__(self, address: str, root: str, since: int = 0) -> None:
        self._address, self._root = address, root
        self._after = part_key(root, since - 1) if since > 0 else ""
        self._loop: LoopThread | None = None
        self._looker: Looker | None = None
        self.damaged = 0
        """Parts so far that are damaged."""
        self.lost = 0
        """Records that were in them, as far as that can be known."""

    def poll(self) -> Iterator[Part]:
        """The parts that have come; a WorkError where the store does not answer."""
        while True:
            try:
                entries = self._page()
            except StoreError as error:
                raise WorkError(f"the log cannot be read: {error}") from error
            for entry in entries:
                self._after = entry.key
                kept = read_part(entry)
                if kept.part is not None:
                    yield kept.part
                    continue
                self.damaged, self.lost = self.damaged + 1, self.lost + kept.lost
                _log.warning("%s is damaged, %d records lost; those behind are kept", entry.key, kept.lost)
            if len(entries) < _PAGE:
                return

    def close(self) -> None:
        """Let go of the store."""
        if self._loop is not None:
            if self._looker is not None:
                self._loop.run(self._looker.close())
            self._loop.close()
            self._loop = self._looker = None

    def _page(self) -> tuple[KeyValue, ...]:
        if self._loop is None:
            self._loop = LoopThread("log reader")
        if self._looker is None:
            self._looker = self._loop.run(open_looker(self._address))
        return self._loop.run(self._looker.entries(segments_of(self._root), self._after, _PAGE))


def _in_transactions(group: list[Append]) -> Iterator[list[Append]]:
    """Together as far as one transaction goes; what is too large for any company goes alone."""
    together: list[Append] = []
    size = 0
    for waiting in group:
        if together and (size + len(waiting.payload) > _MOST_BYTES or len(together) == MOST_OPERATIONS):
            yield together
            together, size = [], 0
        together.append(waiting)
        size += len(waiting.payload)
    if together:
        yield together
