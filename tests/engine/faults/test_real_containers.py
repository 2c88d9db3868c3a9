"""Faults with pods that really run; the long run is `containers.py`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.faults.client import PATHS
from tests.engine.faults.real_cluster import RealCluster, real_cluster
from tests.engine.faults.real_killing import gone, kill_everything
from tests.engine.faults.rig import Rig, rigged
from tests.engine.faults.small_disks import fill, small_disk
from tests.engine.runtimes.conftest import found_busybox

pytestmark = pytest.mark.timeout(900)
"""On a busy machine every start of an engine takes its time."""
PATIENCE = 60.0
_PROGRAMS = {"process": (), "runc": ("runc",), "containerd": ("containerd", "ctr", "runc")}


@pytest.mark.parametrize(("runtime", "kills"), [("process", 2), ("runc", 2), ("containerd", 3)])
def test_nothing_runs_twice_or_is_left_when_everything_is_killed(
    tmp_path: Path, runtime: str, kills: int
) -> None:
    found_busybox(*_PROGRAMS[runtime])

    async def main() -> None:
        async with real_cluster(tmp_path, runtime) as cluster:
            found = await kill_everything(cluster, kills, seed=1)
            await cluster.end()
        assert found.broken == []
        assert found.kills == kills and found.containers > 0, found

    asyncio.run(main())


@pytest.mark.parametrize("runtime", ["process", "containerd"])  # runc has the same keepers as process
def test_a_lack_of_memory_and_of_room_on_the_disk_are_told(tmp_path: Path, runtime: str) -> None:
    found_busybox(*_PROGRAMS[runtime])

    async def main(disk: Path) -> None:
        async with (
            real_cluster(tmp_path, runtime) as cluster,
            rigged(cluster.server, seed=2) as rig,
        ):
            await _out_of_memory(cluster, rig)
            await _out_of_room(cluster, rig, disk)
            await rig.churn.emptied()
            await gone(rig)
            await cluster.end()

    with small_disk(tmp_path / "agent", "48m") as disk:
        asyncio.run(main(disk))


def test_a_containerd_that_hangs_is_waited_for(tmp_path: Path) -> None:
    """PROREUS_HANG_SECONDS makes it a long run: calls are given up after two minutes."""
    found_busybox(*_PROGRAMS["containerd"])

    async def main() -> None:
        async with (
            real_cluster(tmp_path, "containerd") as cluster,
            rigged(cluster.server, seed=3) as rig,
        ):
            assert cluster.daemon is not None
            before = await _made(rig, cluster.work.pod("before"))
            await _until(rig, "before", lambda status: status["phase"] == "Running")
            cluster.daemon.hang()
            await _made(rig, cluster.work.pod("meanwhile"))
            code, _ = await rig.client.ask("DELETE", f"{PATHS['pods']}/before")
            assert code == 200
            await asyncio.sleep(float(os.environ.get("PROREUS_HANG_SECONDS", "2")))
            nodes, _ = await rig.client.list("nodes")
            ready = [
                condition for condition in nodes[0]["status"]["conditions"] if condition["type"] == "Ready"
            ]
            assert ready[0]["status"] == "True"
            cluster.daemon.go_on()
            await _until(rig, "meanwhile", lambda status: status["phase"] == "Running")
            assert cluster.work.doubled() == []
            del rig.churn.ledger.wanted["pods", "before"]
            await _no_more(rig, before["metadata"]["uid"])
            await rig.churn.emptied()
            await gone(rig)
            await cluster.end()

    asyncio.run(main())


async def _out_of_memory(cluster: RealCluster, rig: Rig) -> None:
    made = cluster.work.pod("hungry")
    container = made["spec"]["containers"][0]
    container["command"] = ["/bin/sh", "-c", "x=a; while :; do x=$x$x; done"]
    container["resources"] = {"limits": {"memory": "24Mi"}}
    made["spec"]["restartPolicy"] = "Never"
    await _made(rig, made)
    status = await _until(rig, "hungry", lambda status: status["phase"] == "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


async def _out_of_room(cluster: RealCluster, rig: Rig, disk: Path) -> None:
    await _made(rig, cluster.work.pod("earlier"))
    await _until(rig, "earlier", lambda status: status["phase"] == "Running")
    fill(disk / "ballast")
    await _made(rig, cluster.work.pod("later"))

    def told(status: dict[str, Any]) -> bool:
        waiting = [
            container_status["state"].get("waiting") or {}
            for container_status in status.get("containerStatuses") or ()
        ]
        return any("No space left" in one.get("message", "") for one in waiting)

    await _until(rig, "later", told)
    (disk / "ballast").unlink()
    await _until(rig, "later", lambda status: status["phase"] == "Running")
    await _until(rig, "earlier", lambda status: status["phase"] == "Running")


async def _made(rig: Rig, pod: dict[str, Any]) -> dict[str, Any]:
    code, made = await rig.client.ask("POST", PATHS["pods"], pod)
    assert code == 201, made
    rig.churn.ledger.acknowledged("pods", made)
    return made


async def _until(rig: Rig, name: str, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while True:
        _, pod = await rig.client.ask("GET", f"{PATHS['pods']}/{name}")
        status: dict[str, Any] = pod["status"]
        if true(status):
            return status
        assert time.monotonic() < end, status
        await asyncio.sleep(0.1)


async def _no_more(rig: Rig, uid: str) -> None:
    end = time.monotonic() + PATIENCE
    while any(pod["metadata"]["uid"] == uid for pod in (await rig.client.list("pods"))[0]):
        assert time.monotonic() < end, "it is still there"
        await asyncio.sleep(0.1)
