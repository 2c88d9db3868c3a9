"""Members of etcd and processes of the engine are killed while others go on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from proreus.engine.leader_election import LeaseTimes
from proreus.engine.scheduler.agent import LEASE_NAME
from tests.engine.faults.processes import agent, up
from tests.engine.faults.rig import SMALL, Rig, rigged
from tests.engine.store.etcd_servers import etcd_cluster

TIMES = LeaseTimes()
PATIENCE = 60.0
"""Beyond the lease, on a busy machine."""


def test_the_leader_of_etcd_is_killed_twice(tmp_path: Path) -> None:
    async def main() -> None:
        engine, server = up(tmp_path / "up", "--store", f"etcd://{cluster.endpoints}", *SMALL)
        await engine.start()
        try:
            async with rigged(server, seed=3) as rig:
                async with rig.churn.going_on():
                    for _ in range(2):
                        await asyncio.sleep(1.0)
                        member = cluster.leader()
                        member.kill()
                        await asyncio.sleep(2.5)
                        await asyncio.to_thread(cluster.start, member)
                await rig.settled()
                assert rig.broken() == []
                assert rig.history.laws.counts["evicted"] == 0
                assert rig.churn.ledger.writes > 20
        finally:
            engine.kill()

    with etcd_cluster(tmp_path / "etcd", 3) as cluster:
        asyncio.run(main())


def test_of_two_schedulers_the_one_that_leads_is_killed(tmp_path: Path) -> None:
    """Nodes live in a third process, so that only those who decide are lost."""

    async def main() -> None:
        store = ("--store", f"etcd://{cluster.endpoints}")
        first, first_server = up(tmp_path / "first", *store, "--nodes", "0")
        second, second_server = up(tmp_path / "second", *store, "--nodes", "0")
        nodes = agent(tmp_path / "nodes", *store, "--name", "rack", *SMALL)
        async with AsyncExitStack() as stack:
            for together in ((first,), (second, nodes)):  # so that the first one leads
                for engine_process in together:
                    stack.callback(engine_process.kill)
                await asyncio.gather(*(one.start() for one in together))
            async with rigged(first_server, second_server, seed=4) as rig:
                async with rig.churn.going_on():
                    await asyncio.sleep(2.0)
                    leading = await _leader(rig)
                    first.kill()
                    async with asyncio.timeout(TIMES.lease + PATIENCE):
                        while await _leader(rig) == leading:
                            await asyncio.sleep(0.2)
                await rig.settled()
                assert rig.broken() == []
                assert len(rig.holders(LEASE_NAME)) == 2  # one after the other
                assert rig.history.laws.counts["evicted"] == 0

    with etcd_cluster(tmp_path / "etcd") as cluster:
        asyncio.run(main())


async def _leader(rig: Rig) -> str:
    leases, _ = await rig.client.list("leases")
    found = [lease for lease in leases if lease["metadata"]["name"] == LEASE_NAME]
    return str(found[0]["spec"]["holderIdentity"])
