"""Every kind of durable log, for the laws that all keep."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.engine.store.etcd_servers import Cluster, etcd_cluster
from tests.log.logs import Log

_numbers = count()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One member that all tests share; each has its own root."""
    with etcd_cluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture(params=["files", "sqlite", "etcd"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """One that nobody else uses."""
    match request.param:
        case "files":
            return Log("files", str(tmp_path / "log"))
        case "sqlite":
            return Log("sqlite", f"sqlite:{tmp_path / 'log.db'}")
        case _:
            endpoint = request.getfixturevalue("etcd").members[0].endpoint
            return Log("etcd", f"etcd://{endpoint}/{next(_numbers)}")
