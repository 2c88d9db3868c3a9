"""Every kind of store, for the tests that all must pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from proreus.engine.store.etcd.address import EtcdAddress
from proreus.engine.store.etcd.store import EtcdStore
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Store
from proreus.engine.store.sqlite.store import SQLiteStore
from tests.engine.store.etcd_servers import Cluster, etcd_cluster
from tests.engine.store.stores import Opener, Places

_numbers = count()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One member that many tests share; each has its own root."""
    with etcd_cluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


class InMemory:
    """See `Places`."""

    outlive = False

    def __call__(self) -> Opener:
        async def opening() -> Store:
            return MemoryStore()

        return opening


class InFiles:
    """See `Places`."""

    outlive = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self) -> Opener:
        path = self._folder / f"{next(_numbers)}.db"
        return lambda: SQLiteStore.open(path)


class InEtcd:
    """See `Places`."""

    outlive = True

    def __init__(self, cluster: Cluster) -> None:
        self._endpoints = (cluster.members[0].endpoint,)

    def __call__(self) -> Opener:
        address = EtcdAddress(self._endpoints, root=f"/{next(_numbers)}/")
        return lambda: EtcdStore.open(address)


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Where stores of a kind are."""
    match request.param:
        case "memory":
            return InMemory()
        case "sqlite":
            return InFiles(tmp_path)
        case _:
            return InEtcd(request.getfixturevalue("etcd"))


@pytest.fixture
def opening(places: Places) -> Opener:
    """Opens a store that nobody else uses."""
    return places()
