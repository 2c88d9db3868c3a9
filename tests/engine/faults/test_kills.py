"""The engine is killed under churn and starts again on what it kept; the long run is `long.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.engine.faults.killing import kill_often
from tests.engine.store.etcd_servers import etcd_cluster


@pytest.mark.parametrize(("store", "kills"), [("sqlite", 2), ("etcd", 1)])
def test_nothing_acknowledged_is_lost_when_the_engine_is_killed(
    tmp_path: Path, store: str, kills: int
) -> None:
    if store == "sqlite":
        found = asyncio.run(kill_often(tmp_path, (), kills, seed=1))
    else:
        with etcd_cluster(tmp_path / "etcd") as cluster:
            address = ("--store", f"etcd://{cluster.endpoints}")
            found = asyncio.run(kill_often(tmp_path, address, kills, seed=2))
    assert found.broken == []
    assert found.kills == kills and found.acknowledged > 5 and found.bound > 0, found
