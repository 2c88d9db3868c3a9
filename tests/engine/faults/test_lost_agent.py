"""The process of some nodes is killed and does not come back: what ran there runs elsewhere."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.engine.faults.client import PATHS
from tests.engine.faults.processes import agent, up
from tests.engine.faults.rig import Rig, rigged
from tests.engine.faults.workloads import SimulatedWork

GRACE, EVICT_AFTER = 12.0, 2.0
SIGNS = 10.0
"""Nodes give a sign of life so often; the last one may be so long ago when they die."""
SLACK = 40.0
"""Ticks of 2 s, a scheduling decision, the start of a pod, on a busy machine."""


def test_pods_of_a_killed_agent_move_within_the_stated_time(tmp_path: Path) -> None:
    async def main() -> None:
        patience = ("--node-grace", str(GRACE), "--evict-after", str(EVICT_AFTER))
        engine, server = up(tmp_path / "up", "--nodes", "2", *patience)
        store = f"sqlite:{tmp_path / 'up' / 'cluster.db'}"
        rack = agent(tmp_path / "rack", "--store", store, "--name", "rack", "--nodes", "2")
        await engine.start()
        await rack.start()
        try:
            async with rigged(server, seed=5) as rig:
                made = SimulatedWork().deployment("web-0", 8)
                code, made = await rig.client.ask("POST", PATHS["deployments"], made)
                assert code == 201
                rig.churn.ledger.acknowledged("deployments", made)
                await rig.settled()
                assert {"rack-1", "rack-2"} <= set(await _places(rig))
                rack.kill()
                lost = time.monotonic()
                while await _elsewhere(rig) < 8:
                    await asyncio.sleep(0.2)
                    assert time.monotonic() - lost < GRACE + EVICT_AFTER + SIGNS + SLACK
                assert time.monotonic() - lost > GRACE + EVICT_AFTER - SIGNS
                await rack.start()  # and ends what was taken from it
                await rig.settled()
                assert rig.broken() == []
        finally:
            engine.kill()
            rack.kill()

    asyncio.run(main())


async def _places(rig: Rig) -> list[str]:
    return [
        pod["spec"]["nodeName"]
        for pod in (await rig.client.list("pods"))[0]
        if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]


async def _elsewhere(rig: Rig) -> int:
    return sum(not place.startswith("rack-") for place in await _places(rig))
