"""No room for the store: writes are refused in words, reads go on, and with room again so do writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from proreus.engine.kubelet.disk_pressure import NO_PRESSURE, disk_pressure
from proreus.engine.kubelet.node_status import NodeSpec, NodeState, new_node
from proreus.engine.objects.conditions import holds
from proreus.engine.runtimes.protocol import Capacity
from tests.cli.runner import command, environment
from tests.engine.faults.client import PATHS
from tests.engine.faults.processes import TOKEN, up
from tests.engine.faults.rig import SMALL, Rig, rigged
from tests.engine.faults.small_disks import fill, small_disk


def test_a_full_disk_refuses_writes_and_nothing_else(tmp_path: Path) -> None:
    async def main(disk: Path) -> None:
        engine, server = up(tmp_path / "up", "--store", f"sqlite:{disk / 'cluster.db'}", *SMALL)
        await engine.start()
        try:
            async with rigged(server, seed=6) as rig:
                async with rig.churn.going_on():
                    await asyncio.sleep(1.0)
                    fill(disk / "ballast")
                    refusal = await _refused(rig)
                    assert refusal["kind"] == "Status" and refusal["reason"] == "ServiceUnavailable"
                    assert "no room" in refusal["message"], refusal
                    assert await _ready(rig) == 500, "it takes no writes"
                    for kind in PATHS:
                        answer = await rig.client.once("GET", PATHS[kind])
                        assert answer is not None and answer.status_code == 200
                    await asyncio.sleep(1.0)
                    (disk / "ballast").unlink()
                    async with asyncio.timeout(30):  # until something was written again
                        while await _ready(rig) != 200:
                            await asyncio.sleep(0.2)
                await rig.settled()
                assert rig.client.met["503"] > 0
                assert rig.broken() == []
        finally:
            engine.kill()

    with small_disk(tmp_path / "small") as disk:
        asyncio.run(main(disk))


async def _ready(rig: Rig) -> int:
    answer = await rig.client.once("GET", "/readyz")
    assert answer is not None
    return int(answer.status_code)


def test_one_that_was_killed_on_a_full_disk_starts_there_again(tmp_path: Path) -> None:
    """Its folder is on that disk, too: reads are answered, and with room again so are writes."""

    async def main(disk: Path) -> None:
        engine, server = up(disk / "up", *SMALL)
        ready, known = tmp_path / "ready.json", {"authorization": f"Bearer {TOKEN}"}
        await engine.start()
        fill(disk / "ballast")
        engine.kill()
        fill(disk / "more ballast")
        process = await asyncio.create_subprocess_exec(
            *command(*engine.words, "--json", str(ready)), env=environment()
        )
        try:
            async with httpx.AsyncClient(base_url=server, headers=known) as client, asyncio.timeout(120):
                while not ready.exists():
                    assert process.returncode is None
                    await asyncio.sleep(0.1)
                assert (await client.get("/api/v1/nodes")).status_code == 200
                assert (await client.get("/readyz")).status_code == 500
                for name in ("ballast", "more ballast"):
                    (disk / name).unlink()
                while (await client.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.2)
        finally:
            process.kill()
            await process.wait()

    with small_disk(tmp_path / "small") as disk:
        asyncio.run(main(disk))


def test_a_node_whose_disk_is_nearly_full_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk:
        spec, capacity = NodeSpec("one", "10.0.0.1"), Capacity({}, {})
        assert disk_pressure(disk / "not yet made").lacks == ""
        fill(disk / "ballast")
        pressure = disk_pressure(disk)
        full = new_node(spec, NodeState(capacity, disk_pressure=pressure.lacks), 0.0)
        assert holds(full, "DiskPressure") and holds(full, "Ready")
        (disk / "ballast").unlink()
        assert disk_pressure(disk) == NO_PRESSURE != pressure
        assert not holds(new_node(spec, NodeState(capacity), 0.0), "DiskPressure")


async def _refused(rig: Rig) -> dict[str, Any]:
    """The first refusal; what was free inside the store's own file is taken before."""
    for number in range(500):
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"ballast-{number}"}}
        answer = await rig.client.once("POST", PATHS["configmaps"], {**made, "data": {"x": "x" * 100_000}})
        assert answer is not None
        told: dict[str, Any] = answer.json()
        if answer.status_code != 201:
            assert answer.status_code == 503, told
            return told
        rig.churn.ledger.acknowledged("configmaps", answer.json())
    raise AssertionError("the disk is not full")
