"""A store from its address."""

from __future__ import annotations

from pathlib import Path

from proreus.engine.store.etcd_address import parse_address
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.options import DEFAULTS, StoreOptions
from proreus.engine.store.protocol import Store
from proreus.engine.store.sqlite import SQLiteStore
from proreus.model.errors import UsageError, needs_extra

FORMS = "memory:, sqlite:PATH, a path, or etcd://HOST:PORT[,HOST:PORT]"


async def open_store(address: str, options: StoreOptions = DEFAULTS) -> Store:
    """The store at that address; raises `UsageError` for an address that cannot be meant."""
    scheme, colon, rest = address.partition(":")
    match scheme if colon else None:
        case "memory":
            if rest:
                raise UsageError(f"store {address!r}: a store in memory has no place")
            return MemoryStore(options=options)
        case "sqlite":
            return await _in_file(rest.removeprefix("//"), address, options)
        case "etcd":
            return await _in_etcd(address, options)
        case _ if not colon or "/" in scheme:
            return await _in_file(address, address, options)
        case _:
            raise UsageError(f"store {address!r}: unknown kind {scheme!r}; stores are {FORMS}")


async def _in_file(path: str, address: str, options: StoreOptions) -> Store:
    if not path:
        raise UsageError(f"store {address!r}: no path; stores are {FORMS}")
    return await SQLiteStore.open(Path(path).expanduser(), options)


async def _in_etcd(address: str, options: StoreOptions) -> Store:
    parsed = parse_address(address)
    try:
        from proreus.engine.store.etcd import EtcdStore  # gRPC: only who uses etcd needs it
    except ModuleNotFoundError as error:
        raise UsageError(f"a store in etcd {needs_extra('engine')}") from error
    return await EtcdStore.open(parsed, options)
