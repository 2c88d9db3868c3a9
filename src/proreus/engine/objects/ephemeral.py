"""What a process tells the others beside objects: bytes under a name, which go when it falls silent.

For what is told often, is true for a moment, and is nobody's to change but its writer's: no resourceVersion,
no owner, no place in the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from proreus.engine.objects.object_cache import unserviceable
from proreus.engine.store.protocol import Delete, NoSuchLease, Put, Store, StoreError

SILENCE_SECONDS = 60.0
"""So long after its last word a process's notes are there."""
_ROOT = "/notes/"
_AT_ONCE = 100
"""Operations of a transaction; etcd takes 128."""


class EphemeralValues:
    """Those of one topic. One process writes under a name; any may read."""

    def __init__(self, store: Store, topic: str) -> None:
        self._store, self._prefix = store, f"{_ROOT}{topic}/"
        self._lease, self._shown = 0, 0.0
        self._told: set[str] = set()

    async def tell(self, notes: Mapping[str, bytes]) -> bool:
        """These, in place of what was told under their names before; those told earlier stay.

        False: earlier ones are gone, for this process was silent too long; tell all of them again. Raises
        `Unserviceable`.
        """
        entries = list(notes.items())
        try:
            whole = await self._alive()
            for at in range(0, len(entries), _AT_ONCE):
                part = [
                    Put(self._prefix + name, note, self._lease) for name, note in entries[at : at + _AT_ONCE]
                ]
                await self._store.commit((), part)
        except NoSuchLease:
            self._lease = 0
            return False
        except StoreError as error:
            raise unserviceable(error) from error
        self._told.update(notes)
        return whole

    async def withdraw(self, names: Sequence[str]) -> None:
        """These are not so any more; `Unserviceable`."""
        gone = [name for name in names if name in self._told]
        try:
            for at in range(0, len(gone), _AT_ONCE):
                part = [Delete(self._prefix + name) for name in gone[at : at + _AT_ONCE]]
                await self._store.commit((), part)
        except StoreError as error:
            raise unserviceable(error) from error
        self._told.difference_update(gone)

    async def get(self, name: str) -> bytes | None:
        """What is told under a name now; `Unserviceable`."""
        try:
            entry = await self._store.get(self._prefix + name)
        except StoreError as error:
            raise unserviceable(error) from error
        return None if entry is None else entry.value

    async def all(self) -> dict[str, bytes]:
        """Whatever is told now, by name; `Unserviceable`."""
        try:
            prefix = await self._store.list(self._prefix)
        except StoreError as error:
            raise unserviceable(error) from error
        return {entry.key.removeprefix(self._prefix): entry.value for entry in prefix.entries}

    async def _alive(self) -> bool:
        """Show that this process is there; whether what it told before still stands."""
        now = asyncio.get_running_loop().time()
        if self._lease:
            if now - self._shown >= SILENCE_SECONDS / 6:
                await self._store.keep_alive(self._lease)
                self._shown = now
            return True
        self._lease = await self._store.grant(SILENCE_SECONDS)
        self._shown = now
        first = not self._told
        self._told.clear()
        return first
