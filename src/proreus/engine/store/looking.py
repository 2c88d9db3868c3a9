"""What stands in a store, for one who only looks: a file is not made, not changed, and not waited for."""

from __future__ import annotations

from proreus.engine.store.opening import InFile, InMemory, open_store, read_address
from proreus.engine.store.options import DEFAULTS, StoreOptions
from proreus.engine.store.protocol import Entry, StoreError
from proreus.engine.store.sqlite_errors import in_protocol_words
from proreus.engine.store.sqlite_tables import Tables
from proreus.model.errors import UsageError


async def look(address: str, prefix: str) -> tuple[Entry, ...]:
    """What stands under the prefix, in the order of keys; others may be writing."""
    match read_address(address):
        case InMemory():
            raise UsageError(f"store {address!r}: what is kept in memory cannot be read from outside")
        case InFile(path):
            if not path.is_file():
                raise StoreError(f"{path}: there is no such store")
            with in_protocol_words(path):
                tables = Tables(path, busy_seconds=DEFAULTS.timeout, read_only=True)
                try:
                    tables.check_format()
                    return tuple(tables.standing(prefix, "", 0))
                finally:
                    tables.close()
        case _:
            store = await open_store(address, StoreOptions(compact_seconds=0))
            try:
                return (await store.list(prefix)).entries
            finally:
                await store.close()
