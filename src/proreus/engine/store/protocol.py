"""What a store promises: keys with revisions, transactions that compare first, watches that lose nothing.

A revision is one number for the whole store; every transaction that changed something takes the next one.
The registry of objects and the leader election stand on this alone; `memory`, `sqlite` and `etcd` keep it.

- A commit that was acknowledged survives the process (`memory` excepted), and is seen by every later read.
- A transaction is whole or not at all: all its conditions hold and all its operations are done, or none.
- A watch hands out every change after its revision, in order, the changes of one revision together, exactly
  once; where the history that it needs has been compacted it raises `Compacted`, and the caller lists again.
- A lease that is not kept alive for its time takes its keys with it, as one deletion.

Values here are msgspec's structs rather than dataclasses: there are some dozens of them for each pod that is
run, and a frozen dataclass takes ten times as long to make.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from proreus.model.errors import ProreusError

ABSENT = 0
"""The revision of a key that is not there, in a condition."""


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """A key and what stands under it."""

    key: str
    value: bytes
    created: int
    """The revision that brought the key about."""
    revision: int
    """The revision that changed it last."""
    lease: int = 0
    """The lease that it lives by; 0: none."""


class Listing(msgspec.Struct, frozen=True, gc=False):
    """What stood under a prefix at one revision, in the order of keys."""

    entries: tuple[KeyValue, ...]
    revision: int
    """Of the store when it was read, or the one asked for: watch from here."""
    remaining: int = 0
    """So many more follow after the limit."""


def fitting(entries: Sequence[KeyValue], most_bytes: int) -> Sequence[KeyValue]:
    """The first of them, up to so many bytes of values: one at least."""
    size = 0
    for place, entry in enumerate(entries):
        size += len(entry.value)
        if place and size > most_bytes:
            return entries[:place]
    return entries


class Change(msgspec.Struct, frozen=True, gc=False):
    """One key changed; without an entry it went."""

    key: str
    revision: int
    entry: KeyValue | None
    previous: KeyValue | None
    """What stood there before; None where it came to be."""

    @property
    def size(self) -> int:
        """Bytes of its values, the one before included."""
        entry, previous = self.entry, self.previous
        return (0 if entry is None else len(entry.value)) + (0 if previous is None else len(previous.value))


class ChangeBatch(msgspec.Struct, frozen=True, gc=False):
    """All changes under the prefix up to and with `revision`; without changes it only tells how far it is."""

    changes: tuple[Change, ...]
    revision: int


class Unchanged(msgspec.Struct, frozen=True, gc=False):
    """A condition: the key was last changed by this revision; ABSENT: there is no such key."""

    key: str
    revision: int


class Put(msgspec.Struct, frozen=True, gc=False):
    """An operation: this value from now on."""

    key: str
    value: bytes
    lease: int = 0


class Delete(msgspec.Struct, frozen=True, gc=False):
    """An operation: the key goes; nothing where it is not there."""

    key: str


Operation = Put | Delete


class Committed(msgspec.Struct, frozen=True, gc=False):
    """What became of a transaction."""

    done: bool
    """Whether the conditions held; otherwise nothing was changed."""
    revision: int
    """The revision it took (or the store's, where nothing changed)."""
    found: tuple[KeyValue | None, ...] = ()
    """Where a condition failed: what stands under the conditions' keys, in their order."""


class StoreError(ProreusError):
    """The store could not do what was asked; nothing is known to have changed unless `uncertain`."""

    uncertain = False


class Unavailable(StoreError):
    """No answer: the connection or the quorum is lost. The transaction may have been done."""

    uncertain = True


class StoreFull(StoreError):
    """No room to write; reads go on."""


class Compacted(StoreError):
    """The history before `revision` is gone: list again."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the history before revision {revision} has been compacted")
        self.revision = revision


class NotReached(StoreError):
    """A revision that is still to come."""

    def __init__(self, asked: int, revision: int) -> None:
        super().__init__(f"revision {asked} is not reached; the store is at {revision}")
        self.asked, self.revision = asked, revision


class NoSuchLease(StoreError):
    """The lease has run out or was never granted."""


class Store(Protocol):
    """See the module. Every call may raise `StoreError`; one event loop uses one store."""

    async def get(self, key: str) -> KeyValue | None:
        """What stands under the key now."""
        ...

    async def list(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, most_bytes: int = 0
    ) -> Listing:
        """The keys with that prefix, those behind `after` only; limit 0: all; revision 0: now.

        most_bytes: of their values, a limit as well, but for the first; 0: all.
        An older revision may raise `Compacted`.
        """
        ...

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        """The operations, if all conditions hold; each key at most once."""
        ...

    def watch(self, prefix: str, after: int) -> AsyncIterator[ChangeBatch]:
        """Every change under the prefix after that revision, for ever; tells progress every few seconds.

        Closing the iterator (`aclose`) ends it. Raises `Compacted` where it cannot begin or go on there.
        """
        ...

    def trouble(self) -> str:
        """Why writes are refused, as far as that is known without one; "": they are not."""
        ...

    async def grant(self, seconds: float) -> int:
        """A lease that lives so long after each `keep_alive`."""
        ...

    async def keep_alive(self, lease: int) -> None:
        """The lease lives its time from now; raises `NoSuchLease`."""
        ...

    async def revoke(self, lease: int) -> None:
        """The lease and its keys go now."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget the history before that revision; what stands stays."""
        ...

    async def close(self) -> None:
        """Let go of files and connections; watches end."""
        ...
