"""Where the logs of services are in a store: one log for each model, which all its processes write."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from proreus.engine.store.etcd.address import EtcdAddress
from proreus.engine.store.factory import InFile, InMemory, open_store, read_address
from proreus.engine.store.log.blocking import LOG_OPTIONS, StoreLog, StoreReader
from proreus.engine.store.log.loop_thread import LoopThread
from proreus.engine.store.log.store_log import LogInStore, segments_of
from proreus.engine.store.protocol import StoreError
from proreus.engine.store.read_only import open_looker
from proreus.log.protocol import LogLimits, Released
from proreus.model.errors import UsageError, WorkError

EXPERIENCE = "/experience/"
"""What the keys of all these logs begin with."""
_BEHIND = chr(ord("/") + 1)
"""Comes behind every key of a log, where it follows the log's name."""


@dataclass(frozen=True)
class StorePlace:
    address: str
    model: str
    owner: str
    """The folder of the model that learns from it: see `LogInStore.claim`."""

    @classmethod
    def of(cls, address: str, model: str, owner: str) -> StorePlace:
        """For an address as the user gives it; UsageError where nothing there would be durable."""
        match read_address(address):
            case InMemory():
                raise UsageError(f"log {address!r}: what is kept in memory is gone with its process")
            case InFile(path):
                return cls(f"sqlite:{path.absolute()}", model, owner)
            case _:
                return cls(address, model, owner)

    @property
    def root(self) -> str:
        """Of the log in the store."""
        return f"{EXPERIENCE}{self.model}/"

    def names(self) -> list[str]:
        """The one log, by a name that no other has; who reads it has no password."""
        return [f"{shown(self.address)}#{self.model}"]

    def open(self, limits: LogLimits, released: Released) -> StoreLog:
        """To write; others may, too."""
        (name,) = self.names()
        try:
            log = StoreLog(self.address, self.root, limits, partial(released, name), name)
            log.claim(self.owner)
        except StoreError as error:
            raise WorkError(f"the log cannot be opened: {error}") from error
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
        return log

    def reader(self, name: str, since: int = 0) -> StoreReader:
        """Reads it, from that number on."""
        return StoreReader(self.address, self.root, since)


def shown(address: str) -> str:
    """An address without its password."""
    match read_address(address):
        case InMemory():
            return "memory:"
        case InFile(path):
            return f"sqlite:{path}"
        case EtcdAddress() as etcd_address:
            return f"etcd://{','.join(etcd_address.endpoints)}{etcd_address.root}"


def logs_in(address: str, *others: str) -> dict[str, str]:
    """The logs of a store: name -> root. others: roots of logs that may be there besides services'."""
    loop = LoopThread("logs")
    try:
        return loop.run(_logs_in(address, others))
    finally:
        loop.close()


async def _logs_in(address: str, others: tuple[str, ...]) -> dict[str, str]:
    looker = await open_looker(address)
    try:
        logs = {}
        for root in others:
            if await looker.entries(segments_of(root), limit=1):
                logs[root.strip("/")] = root
        after = ""
        while entries := await looker.entries(EXPERIENCE, after, limit=1):
            model = entries[0].key.removeprefix(EXPERIENCE).partition("/")[0]
            logs[f"{EXPERIENCE}{model}".strip("/")] = f"{EXPERIENCE}{model}/"
            after = f"{EXPERIENCE}{model}{_BEHIND}"
        return logs
    finally:
        await looker.close()


def prune_log(address: str, root: str, before: int) -> None:
    """Drop the parts without a record from that number on; others may write meanwhile."""
    loop = LoopThread("logs")
    try:
        loop.run(_prune(address, root, before))
    except StoreError as error:
        raise WorkError(str(error)) from error
    finally:
        loop.close()


async def _prune(address: str, root: str, before: int) -> None:
    store = await open_store(address, LOG_OPTIONS)
    try:
        await LogInStore(store, root).prune(before)
    finally:
        await store.close()
