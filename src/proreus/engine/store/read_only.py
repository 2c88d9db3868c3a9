"""What stands in a store, for one who only looks: a file is not made, not changed, and not waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from proreus.engine.store.factory import InFile, InMemory, open_store, read_address
from proreus.engine.store.options import DEFAULTS, StoreOptions
from proreus.engine.store.protocol import KeyValue, Store, StoreError
from proreus.engine.store.sqlite.tables import READER_KIB, Tables, in_protocol_words
from proreus.model.errors import UsageError


class Looker(Protocol):
    """Looks at a store again and again; others may be writing."""

    async def entries(self, prefix: str, after: str = "", limit: int = 0) -> tuple[KeyValue, ...]:
        """What stands under the prefix behind that key, in the order of keys; limit 0: all."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


async def open_looker(address: str) -> Looker:
    """To look at the store of that address."""
    match read_address(address):
        case InMemory():
            raise UsageError(f"store {address!r}: what is kept in memory cannot be read from outside")
        case InFile(path):
            return _FileLooker(path)
        case _:
            return _StoreLooker(await open_store(address, StoreOptions(compact_seconds=0)))


async def look(address: str, prefix: str) -> tuple[KeyValue, ...]:
    """What stands under the prefix, in the order of keys; others may be writing."""
    looker = await open_looker(address)
    try:
        return await looker.entries(prefix)
    finally:
        await looker.close()


class _FileLooker:
    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise StoreError(f"{path}: there is no such store")
        self._path = path
        with in_protocol_words(path):
            self._tables = Tables(path, busy_seconds=DEFAULTS.timeout, read_only=True, cache_kib=READER_KIB)
            try:
                self._tables.check_format()
            except BaseException:
                self._tables.close()
                raise

    async def entries(self, prefix: str, after: str = "", limit: int = 0) -> tuple[KeyValue, ...]:
        with in_protocol_words(self._path):
            return tuple(self._tables.standing(prefix, after, limit))

    async def close(self) -> None:
        self._tables.close()


class _StoreLooker:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def entries(self, prefix: str, after: str = "", limit: int = 0) -> tuple[KeyValue, ...]:
        return (await self._store.list(prefix, after=after, limit=limit)).entries

    async def close(self) -> None:
        await self._store.close()
