"""A store from its address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from proreus.engine.store.etcd.address import EtcdAddress, parse_address
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.options import DEFAULTS, StoreOptions
from proreus.engine.store.protocol import Store
from proreus.engine.store.sqlite.store import SQLiteStore
from proreus.model.errors import UsageError, needs_extra

FORMS = "memory:, sqlite:PATH, a path, or etcd://HOST:PORT[,HOST:PORT]"


@dataclass(frozen=True)
class InFile:
    """The address of a SQLite file."""

    path: Path


@dataclass(frozen=True)
class InMemory:
    """The address of a store that is gone with its process."""


def read_address(address: str) -> InFile | InMemory | EtcdAddress:
    """Where a store is; raises `UsageError` for an address that cannot be meant."""
    scheme, colon, rest = address.partition(":")
    match scheme if colon else None:
        case "memory":
            if rest:
                raise UsageError(f"store {address!r}: a store in memory has no place")
            return InMemory()
        case "sqlite":
            return _in_file(rest.removeprefix("//"), address)
        case "etcd":
            return parse_address(address)
        case _ if not colon or "/" in scheme:
            return _in_file(address, address)
        case _:
            raise UsageError(f"store {address!r}: unknown kind {scheme!r}; stores are {FORMS}")


async def open_store(address: str, options: StoreOptions = DEFAULTS) -> Store:
    """The store at that address; raises `UsageError` for an address that cannot be meant."""
    match read_address(address):
        case InMemory():
            return MemoryStore(options=options)
        case InFile(path):
            return await SQLiteStore.open(path, options)
        case in_etcd:
            return await _in_etcd(in_etcd, options)


def _in_file(path: str, address: str) -> InFile:
    if not path:
        raise UsageError(f"store {address!r}: no path; stores are {FORMS}")
    return InFile(Path(path).expanduser())


async def _in_etcd(address: EtcdAddress, options: StoreOptions) -> Store:
    try:
        from proreus.engine.store.etcd.store import EtcdStore  # gRPC: only who uses etcd needs it
    except ModuleNotFoundError as error:
        raise UsageError(f"a store in etcd {needs_extra('engine')}") from error
    return await EtcdStore.open(address, options)
