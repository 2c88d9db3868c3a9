"""Every kind of store, for the tests that all must pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from proreus.engine.store.etcd import EtcdStore
from proreus.engine.store.etcd_address import EtcdAddress
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Store
from proreus.engine.store.sqlite import SQLiteStore
from tests.engine.store.etcd_servers import Cluster, etcd_cluster
from tests.engine.store.stores import Opener

_roots = count()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One member that many tests share; each has its own root."""
    with etcd_cluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens a store that nobody else uses."""
    match request.param:
        case "memory":
            return in_memory
        case "sqlite":
            return lambda: SQLiteStore.open(tmp_path / "store.db")
        case _:
            endpoint = request.getfixturevalue("etcd").members[0].endpoint
            address = EtcdAddress((endpoint,), root=f"/{next(_roots)}/")
            return lambda: EtcdStore.open(address)


async def in_memory() -> Store:
    """A new one each time."""
    return MemoryStore()
