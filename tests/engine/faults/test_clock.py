"""The machine's clock jumps by minutes and by a day, forward and back, under churn."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from proreus.engine.scheduler.agent import LEASE_NAME
from tests.engine.faults.clock import jump
from tests.engine.store.etcd_servers import etcd_cluster


@pytest.mark.parametrize("store", ["sqlite", "etcd"])
def test_a_clock_that_jumps_evicts_nobody_and_nobody_waits_for_it(tmp_path: Path, store: str) -> None:
    """PROREUS_CLOCK_ROUNDS makes it a long run."""
    for number in range(int(os.environ.get("PROREUS_CLOCK_ROUNDS", "1"))):
        folder = tmp_path / str(number)
        with ExitStack() as stack:
            address: tuple[str, ...] = ()
            if store == "etcd":
                cluster = stack.enter_context(etcd_cluster(folder / "etcd"))
                address = ("--store", f"etcd://{cluster.endpoints}")
            rig = asyncio.run(jump(folder, address, seed=7 + number))
        assert rig.broken() == []
        assert rig.history.laws.counts["evicted"] == 0
        assert len(rig.holders(LEASE_NAME)) == 1
